"""The rules of the secret scanner: gitleaks' own file, and a few of ours in the same form."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

# Bump when the rules or what is made of them change, so that sidecars are rebuilt.
RULES_VERSION = 4

_FILES = ("gitleaks.toml", "own.toml")
# What must stand behind a secret in a program, and what may in a sentence, a table or a link.
_IN_CODE = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_IN_PROSE = r"""(?:[\x60'"\s;,.:!?()\[\]{}<>*|&]|==|~~|_(?:\W|$)|[^\x00-\x7f]|\\[nr]|$)"""
# Two hundred rules want a name, a sign and a value, and begin like this. Nearly every note has some
# of the names (`discord`, `twitter`); few have a long enough value behind such a sign.
_ASSIGNMENT = r"(?i)[\w.-]{0,50}?(?:"
ASSIGNMENT_TAIL = (
    r"""[ \t\w.-]{0,20}[\s'"]{0,3}(?:[=>:,]|\|\||\?=)[=>:]{0,3}[\x60'"\s=]{0,5}[\w.=-]{14}"""
)
_ASSIGNED = r"""[=>:|,][\x60'"\s=]{0,5}[\w.=-]{14}"""
# What announces better than a keyword of two letters. (`author` is allowed by the rule for `auth`.)
_BETTER_HINTS = {
    "auth": "auth[^o]",
    "sk": r"sk[0-9a-f]{32}",
    "ey": "eyj[a-z0-9]{10}",
    "s.": r"\bs\.[a-z0-9]{24}",
}
# Slips in gitleaks' file: without brackets an anchor holds for one alternative only, and without
# anchors whatever holds a harmless stretch is harmless.
_SLIPS = {
    "(?i)^true|false|null$": "(?i)^(?:true|false|null)$",
    r"s\.[A-Za-z]{24}": r"^s\.[A-Za-z]{24}$",
}
# What else a secret of these must be: a text that quotes both marks of a key holds no key.
_MIXED = {"private-key": ("encoded",)}
# And of those that a name announces: `infrastructure` has as many letters as an id of LinkedIn, and
# what has digits only is the number of a person or a task.
_NAMED_MIXED = ("letter", "digit")
# They would find anything that looks random; the rules of our own ask for a name beside it.
_LAST = ("generic-api-key", "secret-assignment", "password")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is no secret although a rule found it."""

    target: str  # "secret", "match" or "line": what the expressions are tried on
    expressions: tuple[str, ...]
    words: frozenset[str]  # lower case; one of them within the secret is enough


# `token id: …` names a token and does not tell it.
_NAMES_OF_SECRETS = Allowance(
    "match", (r"""(?i)[ _.-]id['"*_\x60]{0,4}[ \t]{0,3}[=:]""",), frozenset()
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret."""

    kind: str  # `github-pat`, as placeholders and reports name it
    expression: str
    hints: tuple[str, ...]  # expressions, in any case; without one of them there is no match
    required: str  # another without which there is none; "" for no other
    group: int  # of the secret; 0 for the first that took part, or the whole
    entropy: float  # bits a character that a secret has at least; 0 for any
    mixed: tuple[str, ...]  # kinds of characters that it must have
    allowances: tuple[Allowance, ...]


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules, the more telling first."""

    rules: tuple[Rule, ...]
    allowance: Allowance  # for every rule


@cache
def rulebook() -> Rulebook:
    """The rules that ship with the program."""
    folder = files("vaultmem.security") / "rules"
    tables = [tomllib.loads((folder / name).read_text("utf-8")) for name in _FILES]
    rules = [
        _rule(table)
        for source in tables
        for table in source["rules"]
        # Rules for files of one name or ending are none for notes.
        if "regex" in table and "path" not in table
    ]
    rules.sort(key=lambda rule: rule.kind in _LAST)
    return Rulebook(tuple(rules), _allowance(tables[0]["allowlist"]))


def _rule(table: Mapping[str, Any]) -> Rule:
    words = table.get("keywords", ())
    hints = [_BETTER_HINTS.get(word) or re.escape(word) for word in words]
    if "shape" in table:
        hints.append(table["shape"])
    expression = table["regex"]
    if table["id"] != "generic-api-key":  # which finds too much as it is
        expression = expression.replace(_IN_CODE, _IN_PROSE)
    named = expression.startswith(_ASSIGNMENT)
    mixed = _NAMED_MIXED if named and table["id"] not in _LAST else ()
    return Rule(
        kind=table["id"],
        expression=expression,
        hints=tuple(hints),
        required=_ASSIGNED if named else "",
        group=table.get("secretGroup", 0),
        entropy=table.get("entropy", 0.0),
        mixed=tuple(table.get("mixed", _MIXED.get(table["id"], mixed))),
        allowances=(
            *(
                _allowance(entry)
                for entry in table.get("allowlists", ())
                # Those for files of certain names say nothing about a note.
                if "paths" not in entry
            ),
            *((_NAMES_OF_SECRETS,) if table["id"] == "generic-api-key" else ()),
        ),
    )


def _allowance(table: Mapping[str, Any]) -> Allowance:
    words: Sequence[str] = table.get("stopwords", ())
    return Allowance(
        target=table.get("regexTarget", "secret"),
        expressions=tuple(_SLIPS.get(source, source) for source in table.get("regexes", ())),
        words=frozenset(word.lower() for word in words),
    )
