"""Inputs made from other inputs, by chance that a seed decides."""

import random
from collections.abc import Sequence

MAX_BYTES = 6000

# What means something to one parser or another. Also given to libFuzzer as its dictionary.
TOKENS: tuple[bytes, ...] = tuple(
    token.encode("utf-8", "surrogatepass")
    for token in (
        *("# ", "## ", "###### ", "- ", "  - ", "1. ", "> ", ">> ", "- [ ] ", "- [x] ", "---\n"),
        *("```\n", "~~~\n", "```py\n", "`", "``", "    ", "\t", "%%", "$$", "|", "|---|\n", "\\"),
        *("[[", "]]", "![[", "[[a|b]]", "[[#^", "](", "](<", "> [!note] ", "[^1]", "[^1]: "),
        *(" ^id\n", "#tag", "#a/b", "::", "key:: ", "[key:: v]", "(key:: v)", "<!--", "-->"),
        *("<div>", "</div>", "<script>", "***\n", "===\n", "&amp;", "%20", "%ED%A0%80", "\n\n"),
        *("\r\n", "\r", "\ufeff", "\u2028", "\u0085", "\u00a0", "\u200d", "\u2060", "\u202e"),
        *("\0", "\x1b[0m", "\x0b", "\x0c", "\x1c", "\ud800", "\udfff", "\ufffe", "\U000fffff"),
        *("\U00100000", "\U0010ffff", "\U0001f469\u200d\U0001f469", "e\u0301", "ς", "Σ", "İ"),
        *(
            "ß",
            "J\u030c",
            "漢字",
            "。",
            "ไทย",
            "\u0301",
            "a: ",
            "- &a x\n",
            "*a",
            "&a ",
            "? ",
            ": ",
        ),
        *(
            "{a: b}",
            "[a, b]",
            "!!binary ",
            "!!int ",
            "!x ",
            "<<: ",
            '"\\ud800"',
            "|\n  x\n",
            ">-\n",
        ),
        *("0x1F", "0o17", "1e999", ".nan", ".inf", "2024-03-05", "2024-02-30", "null", "~", "true"),
        *("private: true\n", "private", "<private>", "</private>", "%% vaultmem:begin x %%\n"),
        *("tags: ", "aliases: ", "title: ", "type: log\n", "id: ", "date: ", "decision:: "),
        *('{"nodes":[', '"edges":[', '{"id":"a","type":"text","text":"', '"type":"file","file":"'),
        *('"fromNode":"a","toNode":"b","label":"', '"},', "]}", "\\u", "\\ud83d", "1e400"),
        *("excalidraw-plugin: parsed\n", "# Excalidraw Data\n", "## Text Elements\n"),
        *("## Drawing\n```compressed-json\n", "# Embedded Files\n", "==⚠  EXCALIDRAW VIEW ⚠==\n"),
        *(
            "tag:",
            "path:",
            "kind:",
            "after:2024",
            "before:",
            '"',
            "-word",
            "NEAR(",
            "AND",
            "*",
            "'",
        ),
        *("../", "..\\", "/", "//", "./", "~/", "/.", ".md", ".canvas", "#^", "C:\\", "%2e%2e/"),
        *("out/secret.md", "out.md", "dir/up/outside/secret.md", ".hidden/secret.md", "Alpha"),
        *("secret.md", "within.md", "pipe.md", "self.md", "../vault-twin/secret.md", "/dev/zero"),
    )
)


def mutated(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the seeds, changed in one to five places."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 5)):
        at = chance.randint(0, len(data))
        after = min(len(data), at + chance.choice((1, 1, 2, 4, 16, 64)))
        match chance.randrange(9):
            case 0 | 1 | 2:
                data[at:at] = chance.choice(TOKENS)
            case 3:
                data[at:after] = chance.choice(TOKENS)
            case 4:
                del data[at:after]
            case 5:
                data[at:at] = data[at:after] * chance.choice((1, 2, 10, 100))
            case 6:
                data[at:after] = chance.randbytes(after - at)
            case 7:
                other = chance.choice(seeds)
                begin = chance.randint(0, len(other))
                data[at:at] = other[begin : begin + chance.randint(0, 200)]
            case _:
                data[:1] = bytes((chance.randrange(256),))
    return bytes(data[:MAX_BYTES])


def dictionary() -> str:
    """The tokens in the form that libFuzzer reads."""
    lines = []
    for token in TOKENS:
        written = "".join(f"\\x{byte:02X}" for byte in token)
        lines.append(f'"{written}"\n')
    return "".join(lines)
