"""A passage as a person would read it aloud: Markdown's marks gone, the words and the code kept.

For embedders, to which a link's address or a table's rule is a dozen word pieces that say nothing:
on documentation this is worth .015 of nDCG@10. Code is left as it is, since there the marks are
what is said.
"""

import re

_FENCE = re.compile(r"[ \t>]*+(?P<marks>`{3,}+|~{3,}+)(?P<language>[^`]*+)")
# Where no bracket closes them, links are taken along as far as none can begin a link, and left as
# they are: a line of openers would else be read once for each of them.
_WIKILINK = re.compile(r"!?\[\[([^\]|\n]*+)(?:\|([^\]\n]*+))?+(\]\])?+")
_LINK = re.compile(r"!?\[([^\]\n]*+)(\]\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+\))?+")
_ADDRESS = re.compile(r"https?://([^\s/)>\]]+)[^\s)>\]]*")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]*>")
_QUOTE = re.compile(r" {0,3}(?:> ?)+(?:\[![^\]\n]*\][+-]?)?")
_RULE = re.compile(r"\|?[\s:|-]{3,}")
_CODE = re.compile(r"(?<!`)`++([^`\n]++)`++")
# At a word's edge: `5*6*7` is no emphasis.
_MARKS = re.compile(r"(?<!\w)(?:\*{1,3}|_{2,3}|~~|==)|(?:\*{1,3}|_{2,3}|~~|==)(?!\w)|`+")
_BLANKS = re.compile(r"[ \t]+")


def prose(text: str) -> str:
    """The text without the marks of links, emphasis, quotes, tables and fences."""
    lines: list[str] = []
    fence = ""  # the marks that opened the code we are in
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        if mark is not None and (not fence or mark["marks"].startswith(fence)):
            if not fence:
                lines.append(mark["language"].strip())
            fence = "" if fence else mark["marks"]
        elif fence:
            lines.append(line)
        elif not _RULE.fullmatch(line.strip()):
            lines.append(_read_aloud(line))
    return "\n".join(lines)


def _read_aloud(line: str) -> str:
    """A line without marks; what stands between backticks is code and stays."""
    if "[" in line:
        # Before the code is taken out: there may be code in a link's text.
        line = _WIKILINK.sub(lambda link: (link[2] or link[1]) if link[3] else link[0], line)
        line = _LINK.sub(lambda link: link[1] if link[2] else link[0], line)
    parts = _CODE.split(line)
    # Every other part is the code between two marks.
    kept = [part if place % 2 else _without_marks(part) for place, part in enumerate(parts)]
    return "".join(kept).strip()


def _without_marks(line: str) -> str:
    begin = line.lstrip()[:1]
    if begin == ">":
        line = _QUOTE.sub("", line, count=1)
    elif begin == "|":
        line = line.replace("\\|", " ").replace("|", " ")
    if "://" in line:
        line = _ADDRESS.sub(r"\1", line)
    if "<" in line:
        line = _TAG.sub(" ", line)
    return _BLANKS.sub(" ", _MARKS.sub("", line))
