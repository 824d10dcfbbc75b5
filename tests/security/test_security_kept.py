"""What keeps a secret out when it stands where nothing announces it, and what must not."""

import re

import pytest

from vaultmem.security.secrets import find_secrets
from vaultmem.vault.parse import parse, readable

TOKEN = "gh" + "p_" + "FMPd3W2XyygNdemkvdajgwb2Mjpvwh09CDfg"
PASSWORD = "Tr0ub4dor-" + "x9Q"


def test_a_secret_that_stands_again_without_its_name_is_masked_there_as_well() -> None:
    text = f'password: "{PASSWORD}"\n\nLater I typed {PASSWORD} twice, {PASSWORD}.\n'

    shown = readable("n.md", text.encode())

    assert PASSWORD not in shown
    assert (
        re.sub(r"\[secret:[\w-]+\]", "…", shown) == 'password: "…"\n\nLater I typed … twice, ….\n'
    )


def test_a_word_that_was_taken_for_a_password_is_left_alone_elsewhere() -> None:
    text = 'password: "horse!battery"\n\nThe horse!battery is a song.\n'

    assert "The horse!battery is a song." in readable("n.md", text.encode())


@pytest.mark.parametrize(
    "properties",
    [
        f"password: >\n  {PASSWORD}",
        f"password:\n  {PASSWORD}",
        f"a:\n  password: |-\n    {PASSWORD}",
    ],
)
def test_a_secret_in_folded_properties_is_nowhere(properties: str) -> None:
    note = parse("n.md", f"---\n{properties}\n---\nbody {PASSWORD} end\n".encode())

    assert PASSWORD not in repr(note)
    assert [problem.code for problem in note.problems] == ["secret"]


def test_a_secret_that_a_link_spells_in_hexadecimal_is_no_part_of_the_link() -> None:
    spelt = TOKEN.replace("_", "%5F")

    note = parse("n.md", f"[x]({spelt}.md) and [y](Other.md#{spelt})\n".encode())

    assert TOKEN not in repr(note.links)
    assert [link.display for link in note.links] == ["x", "y"]


def test_what_begins_with_a_harmless_word_is_a_secret_all_the_same() -> None:
    (found,) = find_secrets('password: "' + "true" + "Xk92-kd7" + '"')

    assert found.kind == "password"


def test_a_token_that_holds_what_is_allowed_alone_is_found() -> None:
    token = "hv" + "s." + "abcdefghijklmnopqrstuvwx" + "Q7x9" * 18

    assert [secret.kind for secret in find_secrets(f"vault: {token}")] == ["vault-service-token"]


def test_a_cell_that_names_a_password_gives_the_next_one_away() -> None:
    (found,) = find_secrets(f"| password | {PASSWORD} |")

    assert found.kind == "password"


def test_a_token_whose_marks_were_escaped_by_a_converter_is_masked() -> None:
    written = TOKEN.replace("_", "\\_")

    assert (
        readable("n.md", f"it is {written} here\n".encode()) == "it is [secret:github-pat] here\n"
    )
