"""Properties by YAML 1.2 core, and what happens to a block that is not fit for them."""

import json
import subprocess
import sys
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaultmem.model.note import Frontmatter, Problem
from vaultmem.vault.frontmatter import (
    MAX_BLOCK_CHARS,
    MAX_DEPTH,
    MAX_NODES,
    read_frontmatter,
)


def read(text: str) -> tuple[Frontmatter, tuple[Problem, ...]]:
    return read_frontmatter("n.md", text)


def block(yaml: str) -> str:
    return f"---\n{yaml}\n---\n"


def properties(yaml: str) -> dict[str, object]:
    found, problems = read(block(yaml))
    assert problems == ()
    assert found.exists
    assert found.valid
    return dict(found.properties)


def refused(yaml: str) -> Problem:
    """The one problem of a block that yields no properties."""
    found, problems = read(block(yaml))
    assert found.exists
    assert not found.valid
    assert found.properties == {}
    (problem,) = problems
    assert problem.path == "n.md"
    return problem


@pytest.mark.parametrize(
    ("text", "lines", "rest"),
    [
        ("---\na: x\n---\nbody", 3, "body"),
        ("---\na: x\n---", 3, ""),
        ("---\na: x\n---  \nbody", 3, "body"),
        ("---\na: x\n---\n\nbody", 3, "\nbody"),
        ("---\n---\nbody", 2, "body"),
        ("---\n\n---\nbody", 3, "body"),
        ("---\na: x---y\n---\nbody", 3, "body"),
        ("---\na: |\n  ---\n---\nbody", 4, "body"),
    ],
)
def test_a_block_ends_at_the_first_closing_fence_at_a_line_start(
    text: str, lines: int, rest: str
) -> None:
    found, problems = read(text)

    assert found.exists
    assert found.valid
    assert problems == ()
    assert found.lines == lines
    assert text[found.end :] == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "body",
        "\n---\na: x\n---\n",
        " ---\na: x\n---\n",
        "----\na: x\n----\n",
        "--- a\na: x\n---\n",
        "---\na: x\n",
        "---",
        "---\n",
        "---\na: x\n ---\n",
        "---\na: x\n----\n",
        "---\na: x\n...\n",
        "+++\na = 1\n+++\n",
    ],
)
def test_what_is_no_block_for_obsidian_is_text(text: str) -> None:
    found, problems = read(text)

    assert found == Frontmatter(exists=False, valid=True, properties={}, text="", lines=0, end=0)
    assert problems == ()


def test_the_raw_block_is_kept_as_it_stands() -> None:
    found, _ = read("---\nb: 1.10 # why\na: [x,  y]\n---\nbody")

    assert found.text == "b: 1.10 # why\na: [x,  y]\n"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        # Texts, which YAML 1.1 takes for something else.
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("2024-03-05", "2024-03-05"),
        ("2024-03-05T08:15:00", "2024-03-05T08:15:00"),
        ("2024-03-05 08:15:00 +02:00", "2024-03-05 08:15:00 +02:00"),
        ("12:30", "12:30"),
        ("190:20:30", "190:20:30"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("tRUE", "tRUE"),
        ("nUll", "nUll"),
        ("+0x1", "+0x1"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        # Numbers.
        ("0123", 123),
        ("007", 7),
        ("0", 0),
        ("-12", -12),
        ("+12", 12),
        ("0o17", 15),
        ("0xFf", 255),
        ("1.10", 1.1),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.5e3", -1500.0),
        ("1e3", 1000.0),
        # JSON has none of these numbers, so they stay texts.
        (".inf", ".inf"),
        ("-.INF", "-.inf"),
        (".NaN", ".nan"),
        # Truth and nothing.
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("Null", None),
        ("~", None),
        ("", None),
        # Quotes make a text of anything.
        ("'true'", "true"),
        ('"12"', "12"),
        ("''", ""),
        # Collections.
        ("[a, 1, [b]]", ["a", 1, ["b"]]),
        ("{a: 1, b: {c: no}}", {"a": 1, "b": {"c": "no"}}),
        ("[[X]]", [["X"]]),
        ("[]", []),
        ("{}", {}),
        # Block scalars.
        ("|\n  one\n  two", "one\ntwo\n"),
        (">-\n  one\n  two", "one two"),
    ],
)
def test_values_are_typed_by_yaml_1_2_core(written: str, value: object) -> None:
    found = properties(f"k: {written}")["k"]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("plain", "plain"),
        ("two words", "two words"),
        ("'quoted'", "quoted"),
        ("12", "12"),
        ("1.5", "1.5"),
        ("true", "true"),
        ("False", "false"),
        ("null", ""),
        ("~", ""),
        ("1.0", "1"),
        ("{{title}}", "{ { title } }"),
        ("2024-03-05", "2024-03-05"),
        ("<<", "<<"),
        ("Schlüssel", "Schlüssel"),
    ],
)
def test_every_key_is_a_text(written: str, key: str) -> None:
    assert properties(f"{written}: x") == {key: "x"}


def odd(yaml: str) -> tuple[dict[str, object], Problem]:
    """Properties that are understood, and the one thing that is odd about them."""
    found, problems = read(block(yaml))
    assert found.valid
    (problem,) = problems
    return dict(found.properties), problem


@pytest.mark.parametrize(
    ("yaml", "expected", "line", "said"),
    [
        ("a: 1\n? [a, b]\n: x", {"a": 1, "[ a, b ]": "x"}, 3, "a list or a mapping"),
        ("? {x: 1}\n: d", {"{ x: 1 }": "d"}, 2, "a list or a mapping"),
        ("a: 1\nb: one\x07two", {"a": 1, "b": "one\x07two"}, 3, "\\x07"),
        ("a: 1\nn: " + "9" * 6000, {"a": 1, "n": "9" * 6000}, 3, "6,000 digits"),
        ("a: 1\nvaultmem:\n  tier: x", {"a": 1, "vaultmem": {"tier": "x"}}, 3, "vaultmem"),
    ],
)
def test_what_is_odd_is_kept_and_reported_once(
    yaml: str, expected: dict[str, object], line: int, said: str
) -> None:
    properties, problem = odd(yaml)

    assert properties == expected
    assert problem.line == line
    assert said in problem.message.lower()


def test_merge_keys_by_the_thousand_are_keys_like_any_other() -> None:
    merged = "\n".join(f"m{n}: &m{n}\n  <<: [{', '.join(['*a'] * 50)}]" for n in range(200))

    assert len(properties(f"a: &a {{x: 1}}\n{merged}")) == 201


def test_a_template_that_is_not_filled_in_keeps_its_other_properties() -> None:
    assert properties("day: {{date}}\ntags: [a]")["tags"] == ["a"]


def test_a_tag_of_ones_own_is_overlooked() -> None:
    assert properties("a: !note x\nb: !ruby/object:Kernel y") == {"a": "x", "b": "y"}


@pytest.mark.parametrize("space", ["\u2028", "\u2029", "\x85"])
def test_a_character_that_yaml_1_1_refuses_or_breaks_lines_at_is_kept(space: str) -> None:
    assert properties(f"a: one{space}two\nb: 1") == {"a": f"one{space}two", "b": 1}


@pytest.mark.parametrize("yaml", ["a: 1\n\t\nb: 2", "a: 1\n \t # said\nb: 2"])
def test_a_tab_on_a_line_without_text_does_no_harm(yaml: str) -> None:
    assert properties(yaml) == {"a": 1, "b": 2}


def test_a_tab_behind_a_dash_is_a_blank() -> None:
    assert properties("l:\n-\tx\n-\ty") == {"l": ["x", "y"]}


def test_blanks_may_stand_behind_the_closing_fence_only() -> None:
    assert read_frontmatter("n.md", "---\na: 1\n---  \n")[0].exists
    assert not read_frontmatter("n.md", "---  \na: 1\n---\n")[0].exists


def test_a_merge_key_merges_nothing() -> None:
    assert properties("a: &a {x: 1}\nb:\n  <<: *a\n  y: 2")["b"] == {"<<": {"x": 1}, "y": 2}


def test_keys_keep_the_order_of_the_block() -> None:
    assert list(properties("z: 1\na: 2\nm: 3")) == ["z", "a", "m"]


def test_an_alias_stands_for_its_anchor() -> None:
    assert properties("a: &x [1, 2]\nb: *x") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    "yaml", ["a: 1\na: 2", "o: {a: 1, a: 2}", "a: 1\n'a': 2", "x: 1\ny:\n- b: 1\n  b: 2"]
)
def test_a_key_given_twice_makes_the_block_invalid(yaml: str) -> None:
    problem = refused(yaml)

    assert problem.code == "frontmatter-invalid"
    assert "twice" in problem.message


@pytest.mark.parametrize(
    ("yaml", "line"),
    [
        ("bad: [", 3),
        ("ok: 1\nbad: {", 4),
        ("a: b: c", 2),
        ("a: 1\n\tb: 2", 3),
        ("tags: [#x]", 3),
        ("a: @x", 2),
        ("a: `x`", 2),
        ("a: *nowhere", 2),
        ("a: !!python/object/apply:os.getcwd []", 2),
        ("a: 1\na: 2", 3),
        ("%", 2),
        ('a: "open', 3),
    ],
)
def test_a_block_that_is_no_yaml_names_the_line_and_yields_nothing(yaml: str, line: int) -> None:
    problem = refused(yaml)

    assert problem.code == "frontmatter-invalid"
    assert abs(problem.line - line) <= 1
    assert 2 <= problem.line <= yaml.count("\n") + 3


@pytest.mark.parametrize("yaml", ["- a\n- b", "just a text", "12", "[a]"])
def test_a_block_that_is_no_mapping_is_reported(yaml: str) -> None:
    assert refused(yaml).code == "frontmatter-not-a-mapping"


@pytest.mark.parametrize("yaml", ["# only a comment", "", "   ", "null", "~"])
def test_a_block_without_content_is_valid_and_empty(yaml: str) -> None:
    assert properties(yaml) == {}


def test_json_between_the_fences_is_a_mapping() -> None:
    assert properties('{"a": 1, "b": [true, null]}') == {"a": 1, "b": [True, None]}


def test_explicit_tags_never_yield_objects() -> None:
    found = properties(
        "a: !!set {x}\nb: !!binary aGk=\nc: !!timestamp 2024-01-02\nd: !!str 12\ne: !!omap [x: 1]"
    )

    json.dumps(found)
    assert found["c"] == "2024-01-02"
    assert found["d"] == "12"


def bomb(levels: int, width: int = 10) -> str:
    """Aliases of aliases: width ** levels values when walked, a few lines when loaded."""
    lines = [f"a0: &a0 [{','.join(['x'] * width)}]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("levels", [6, 12, 60])
def test_an_alias_bomb_is_refused_in_bounded_time(levels: int) -> None:
    start = process_time()

    problem = refused(bomb(levels))

    assert problem.code == "frontmatter-too-large"
    assert process_time() - start < 1


def test_a_bomb_of_mappings_is_refused_in_bounded_time() -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [
        f"a{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' for k in range(10))}}}" for n in range(1, 15)
    ]
    start = process_time()

    assert refused("\n".join(lines)).code == "frontmatter-too-large"
    assert process_time() - start < 1


@pytest.mark.parametrize("tag", ["!!omap", "!!pairs"])
def test_a_bomb_hidden_in_a_typed_list_stays_small(tag: str) -> None:
    """Pairs are no plain lists; turned into text as they are, they grow tenfold a level."""
    inner = ", ".join(
        [f"a0: &a0 [{','.join(['x'] * 10)}]"]
        + [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 5)]
    )

    found, _ = read(block(f"z: {tag} [{inner}]"))

    assert len(repr(found.properties)) < 200_000


@pytest.mark.parametrize("yaml", ["a: &a [*a]", "a: &a [*a, *a, *a]", "a: &a {b: *a}"])
def test_a_value_that_holds_itself_is_refused(yaml: str) -> None:
    assert refused(yaml).code in ("frontmatter-too-large", "frontmatter-invalid")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 30_000])
def test_a_value_nested_too_deep_is_refused(depth: int) -> None:
    problem = refused("a: " + "[" * depth + "]" * depth)

    assert problem.code in ("frontmatter-too-large", "frontmatter-invalid")


def test_a_value_nested_to_the_limit_is_kept() -> None:
    depth = MAX_DEPTH - 1

    found = properties("a: " + "[" * depth + "x" + "]" * depth)

    assert json.dumps(found["a"]).count("[") == depth


def test_a_block_of_the_size_limit_is_read_and_a_larger_one_is_text() -> None:
    filler = "a: " + "x" * (MAX_BLOCK_CHARS - 4)

    assert properties(filler)["a"] == "x" * (MAX_BLOCK_CHARS - 4)
    problem = refused(filler + "x")
    assert problem.code == "frontmatter-too-large"


def test_more_values_than_the_limit_are_refused() -> None:
    kept = properties(f"a: [{','.join(['x'] * (MAX_NODES - 10))}]")

    assert kept == {"a": ["x"] * (MAX_NODES - 10)}
    assert refused(f"a: [{','.join(['x'] * MAX_NODES)}]").code == "frontmatter-too-large"


def test_a_number_too_long_to_print_raises_nothing_and_can_be_stored() -> None:
    found, _ = read(block("id: 0x" + "f" * 4000))

    json.dumps(found.properties)


@pytest.mark.parametrize("written", ["1e999", "-1e999", "1" * 400 + ".5"])
def test_a_number_beyond_every_float_is_no_infinity(written: str) -> None:
    json.dumps(properties(f"a: {written}"), allow_nan=False)


def test_a_key_that_is_a_number_too_long_to_print_raises_nothing() -> None:
    read(block("? 0x" + "f" * 4000 + "\n: x"))


yaml_parts = [
    "a", "b", ": ", ":", "\n", "\n  ", "- ", "? ", "[", "]", "{", "}", ",", "&x ", "*x",
    "!!", "!!set ", "!!omap ", "!!pairs ", "!!int ", "!!float ", "!!binary ", "!t ", "|", ">",
    "'", '"', "#", " #", "---", "...", "%", "<<", "~", "true", "0x", "0o8", "1", "e5", ".",
    "\t", "\\", "\0", "\x85", "\u2028", "\ufeff", "😀", "@", "`", "null", "=", "-",
]  # fmt: skip
yaml_like = st.lists(st.sampled_from(yaml_parts), max_size=40).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=200), yaml_like))
@example("a: !!int ''")
@example("a: !!int 0x")
@example("a: !!float x")
@example("a: !!omap [[]]")
@example("? !!set {x}\n: y")
@example("? !!omap [x: y]\n: y")
def test_no_text_between_the_fences_raises_and_every_value_is_plain_json(yaml: str) -> None:
    text = block(yaml)

    found, problems = read(text)

    json.dumps(found.properties, allow_nan=False)
    assert all(isinstance(key, str) for key in found.properties)
    assert found.valid or not found.properties
    assert found.valid or problems
    assert text[: found.end].count("\n") == found.lines or found.end == len(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="-: \ta\n[]", max_size=60))
def test_no_text_raises_and_a_block_lies_between_two_fences(text: str) -> None:
    found, _ = read(text)

    if found.exists:
        taken = text[: found.end].rstrip("\n").split("\n")
        assert taken[0].rstrip(" \t") == taken[-1].rstrip(" \t") == "---"
    else:
        assert found.end == found.lines == 0


@pytest.mark.parametrize("key", ["k" * 1000, "? " + "k" * 20_000 + " "])
def test_a_long_key_that_is_referred_to_again_and_again_is_refused(key: str) -> None:
    yaml = f"a: &m {{{key}: 1}}\nb: [{', '.join(['*m'] * 1000)}]"

    assert refused(yaml).code == "frontmatter-too-large"


WITHOUT_LIBYAML = """
import yaml
del yaml.CSafeLoader
from vaultmem.vault.frontmatter import read_frontmatter
found, problems = read_frontmatter("n.md", '---\\na: "x\\\\ud800y"\\n---\\n')
print(found.valid, found.properties, [problem.code for problem in problems])
found, problems = read_frontmatter("n.md", '---\\na: "x\\\\u00e9y"\\n---\\n')
print(found.valid, ascii(found.properties), problems)
"""


def test_without_libyaml_half_of_a_character_is_refused_as_well() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBYAML], capture_output=True, text=True, check=True
    )

    assert run.stdout.split("\n")[:2] == [
        "False {} ['frontmatter-invalid']",
        "True {'a': 'x\\xe9y'} ()",
    ]
