"""Expressions of Obsidian's excluded files: exact where they can be, never narrower."""

import re
import time
from contextlib import suppress
from itertools import product

import pytest

from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.javascript import NoExpression, compile_expression
from vaultmem.vault.obsidian import ObsidianSettings


@pytest.mark.parametrize(
    ("source", "holding", "others"),
    [
        (r"\.draft\.md$", ["a.draft.md", "A.DRAFT.MD"], ["a.draft.md/b", "adraftmd"]),
        (r"^daily\/", ["daily/a.md"], ["my daily/a.md"]),
        (r"^(?<year>\d{4})\/(?:old|new)\/", ["2026/old/a"], ["26/old/a", "2026/other/a"]),
        (r"[^/]+\/[\w-.]+\.md", ["a/b-c.md"], ["a"]),
        (r"a[^]b", ["a\nb", "axb"], ["ab"]),
        (r"a[]b", [], ["ab", "a]b"]),
        (r"x[[a]y", ["x[y", "xay"], ["xy", "x]y"]),
        (r"é\s\u00e9\x21\_\-", ["é\u3000é!_-", "é é!_-"], ["é_é!_-"]),
        (r"^\S+$", ["ab", "a_b"], ["a b", "a\u3000b"]),
        (r"[^\S]", ["a b"], []),
        (r"a{2}b{,3}", ["aab{,3}"], ["ab{,3}", "aab"]),
        (r"]|}|x{", ["]", "}", "x{"], ["x"]),
        (r"^(?!Public\/)", ["Private/a"], ["Public/a"]),
        (r"^(?!Public\/)(?!Open\/).*\.md$", ["Private/a.md"], ["Public/a.md", "Open/a.md", "a"]),
        (r"^(?=.*secret).*\.md$", ["a secret.md"], ["a.md", "secret.txt"]),
        (r"^(?!.*keep)|always", ["a", "keep always"], ["keep"]),
        (r"^.*(?<!\.keep)\.md$|(?<!\.md)$", ["a.txt"], []),
        (r"^Notes/.*(?<!keep\.md)$", ["Notes/a.md"], ["Notes/keep.md", "a.md"]),
        (r"^((?!secret).)*$", ["a.md"], ["a/secret.md"]),
        (r"^(?:(?!a|b).)+$", ["xyz"], ["xaz", "xbz"]),
    ],
)
def test_an_expression_means_what_it_means_in_javascript(
    source: str, holding: list[str], others: list[str]
) -> None:
    expression = compile_expression(source)

    assert [path for path in holding if not expression.holds(path)] == []
    assert [path for path in others if expression.holds(path) and not expression.wider] == []


@pytest.mark.parametrize(
    ("source", "reason", "held"),
    [
        (r"x(?=y)z", "look-arounds", "xz"),
        (r"(?<!a)b", "look-arounds", "ab"),
        (r"^(?!a(?=b))c", "look-arounds", "c"),
        (r"(.)-\1", "refers to groups", "a-b"),
        (r"(?<n>.)-\k<n>", "refers to groups", "a-b"),
        (r"(a{900}){900}b", "counts too far", "ab"),
        ("a" * 20_001, "longer", "anything"),
    ],
)
def test_what_cannot_be_followed_holds_for_more_and_says_so(
    source: str, reason: str, held: str
) -> None:
    expression = compile_expression(source)

    assert reason in expression.wider
    assert expression.holds(held)


@pytest.mark.parametrize(
    "source", ["(", ")", "a)", "(a", "[a", "a**", "*a", "a|+", "\\", "[z-a]", "(?<n>", "a{2}{3}"]
)
def test_what_is_no_expression_in_javascript_is_none_here(source: str) -> None:
    with pytest.raises(NoExpression):
        compile_expression(source)


def parts() -> list[str]:
    atoms = ["a", ".", "(?:a|b)", "[^a]", r"(a)\1", "(?!b)", "(?=a)", "(?<!a)", "(?<=b)"]
    repeats = ["", "*", "+?", "{2}"]
    return [
        atom + repeat for atom, repeat in product(atoms, repeats) if "(?" not in atom or not repeat
    ]


@pytest.mark.parametrize("linear", [True, False], ids=["RE2", "Python"])
def test_an_expression_never_holds_for_less_than_it_means(linear: bool) -> None:
    texts = ["".join(letters) for size in range(5) for letters in product("ab", repeat=size)]
    for begin, first, second, end in product(("", "^"), parts(), parts(), ("", "$", "|bb$")):
        source = begin + first + second + end
        meant = re.compile(source)
        expression = compile_expression(source, linear=linear)
        for text in texts:
            if meant.search(text):
                assert expression.holds(text), (source, text)
            elif not expression.wider:
                assert not expression.holds(text), (source, text)


@pytest.mark.parametrize("linear", [True, False], ids=["RE2", "Python"])
@pytest.mark.parametrize(
    "source",
    ["(a+)+$", "(a|a)*$", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)x", "(?:a?){50}a{50}$", "^((a+)b?)*c"],
)
def test_no_expression_can_be_made_to_try_for_ever(source: str, linear: bool) -> None:
    expression = compile_expression(source, linear=linear)
    started = time.process_time()

    expression.holds("a" * 3000 + "!")

    assert time.process_time() - started < 3


@pytest.mark.parametrize("depth", [900, 9000])
def test_nested_groups_are_no_failure_and_keep_nothing_in_search(depth: int) -> None:
    assert compile_expression("(" * depth + "a" + ")" * depth).holds("a")


def test_half_a_character_in_a_path_is_no_failure() -> None:
    assert compile_expression("^a").holds("a\ud800.md")


def test_a_rule_that_excludes_more_than_it_says_is_reported() -> None:
    settings = ObsidianSettings(".obsidian", excluded=(r"/(.)\1\.md/", "/^(?!Public)/"))

    rules, problems = compile_rules(settings, ())

    assert [(p.path, p.code) for p in problems] == [(".obsidian/app.json", "ignore-rule-widened")]
    assert r"/(.)\1\.md/" in problems[0].message
    assert rules.reason("Public/xx.md") is not None
    assert rules.reason("Public/x") is None
    assert rules.reason("Private/x") is not None


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(
    ("source", "held", "free"),
    [
        (r"[^\S]", ("a b.md",), ("ab.md",)),
        (r"my[\w-.]+md", ("my.diary.md", "my-diary.md"), ("my diary.md",)),
        (r"^[.-\d]+$", ("1.2-3",), ("1/2", "a")),
        (r"[\w-\s]day", ("a day", "-day"), (".day",)),
    ],
)
def test_a_class_beside_a_dash_means_what_it_means_in_javascript(
    source: str, held: tuple[str, ...], free: tuple[str, ...], linear: bool
) -> None:
    expression = compile_expression(source, linear=linear)
    assert not expression.wider
    assert all(map(expression.holds, held))
    assert not any(map(expression.holds, free))


def test_a_class_that_cannot_be_followed_is_said_to_hold_for_more() -> None:
    expression = compile_expression(r"[^\S\r\n]")
    assert expression.wider
    assert expression.holds("a b.md")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("source", ["[a&&b]", "[a||b]", "[a--b]", "[a~~b]"])
def test_an_odd_class_warns_nobody(source: str) -> None:
    with suppress(NoExpression):
        compile_expression(source, linear=False)
