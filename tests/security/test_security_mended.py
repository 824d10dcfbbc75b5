"""Tests that fail without the diffs beside them; each section names its diff."""

import json

import pytest
from variants import CREDENTIALS, Chance

from vaultmem.model.note import Note
from vaultmem.security.engine import Engine, PythonEngine, Re2Engine
from vaultmem.security.mask import mask
from vaultmem.security.rulebook import rulebook
from vaultmem.security.secrets import Scanner, find_secrets
from vaultmem.vault.parse import parse

C = Chance(3)
TOKEN = "gh" + "p_" + C.some(36)
OTHER = "gh" + "p_" + C.some(36)


def note(text: str, path: str = "n.md") -> Note:
    return parse(path, text.encode())


def found(text: str, engine: Engine | None = None) -> list[str]:
    scanner = Scanner(rulebook(), engine or Re2Engine())
    return [text[s.start : s.end] for s in scanner.find(scanner.look_at(text))]


# frontmatter.diff


def test_a_list_of_the_one_word_private_is_a_list() -> None:
    found = note("---\ntags: [private]\naliases: [private]\n---\nx")
    assert found.tags == ("private",)
    assert found.aliases == ("private",)


# canvas.diff


def board(*nodes: dict[str, str]) -> Note:
    whole = {"nodes": [{"id": str(n), **node} for n, node in enumerate(nodes)], "edges": []}
    return note(json.dumps(whole), "n.canvas")


def test_two_cards_that_read_the_same_without_their_secrets_have_a_finding_each() -> None:
    cards = [{"type": "text", "text": f"x\n{token}"} for token in (TOKEN, OTHER)]
    assert [finding.line for finding in board(*cards).findings] == [2, 5]


def test_findings_in_groups_and_files_of_a_canvas_name_their_lines() -> None:
    found = board(
        {"type": "text", "text": "one"},
        {"type": "group", "label": f"g  {TOKEN}"},
        {"type": "file", "file": "a.md", "subpath": f"#{OTHER}"},
    )
    assert [finding.line for finding in found.findings] == [3, 5]


# brackets.diff


def test_a_placeholder_is_no_link_and_leaves_links_as_they_are() -> None:
    for hidden in (TOKEN, "<private>x</private>"):
        assert [link.target for link in note(f"[{hidden}](Other.md)").links] == ["Other.md"]
        targets = [link.target for link in note(f"[[{hidden}]] [a][{hidden}]").links]
        assert not {"private", "secret:github-pat"} & set(targets)


# engine.diff


@pytest.mark.parametrize("lines", [63, 64, 65, 100, 200])
def test_a_long_key_goes_as_a_whole_without_re2(lines: int) -> None:
    body = "\n".join(C.some(64) for _ in range(lines))
    text = f"-----BEGIN RSA {'PRIVATE KEY'}-----\n{body}\n-----END RSA {'PRIVATE KEY'}-----\n"
    scanner = Scanner(rulebook(), PythonEngine())
    masked = mask(text, scanner.find(scanner.look_at(text)))
    assert not any(line in masked for line in body.split("\n"))


def test_a_private_key_behind_its_public_one_goes_as_a_whole_without_re2() -> None:
    public, private = ("\n".join(C.some(64) for _ in range(n)) for n in (12, 60))
    text = (
        f"-----BEGIN PUBLIC KEY-----\n{public}\n-----END PUBLIC KEY-----\n"
        f"-----BEGIN RSA {'PRIVATE KEY'}-----\n{private}\n-----END RSA {'PRIVATE KEY'}-----\n"
    )
    scanner = Scanner(rulebook(), PythonEngine())
    masked = mask(text, scanner.find(scanner.look_at(text)))
    assert not any(line in masked for line in private.split("\n"))


def test_the_end_of_a_stretch_is_not_the_end_of_the_text_without_re2() -> None:
    text = ("password: " + "a1" * 70 + " ") * 200
    assert found(text, PythonEngine()) == found(text, Re2Engine()) == []


# rules.diff


@pytest.mark.parametrize(
    "kind",
    ["stripe-live", "anthropic", "openai", "google-api", "hashicorp-vault", "square", "npm"],
)
def test_a_token_that_is_marked_is_found(kind: str) -> None:
    value = CREDENTIALS[kind](Chance(5)).value
    for text in (f"Use =={value}== now.", f"Use ~~{value}~~ now."):
        assert value not in mask(text, find_secrets(text)), text


@pytest.mark.parametrize("engine", [Re2Engine(), PythonEngine()])
@pytest.mark.parametrize(
    "text",
    [
        "密码：{}",
        "密码: {}，请不要外传给别人。",
        "パスワード：{}",
        "Пароль: {}",
        "CONTRASEÑA: {}",
        "Password：{}",
    ],
)
def test_a_password_behind_a_wide_colon_or_capitals_is_found_and_no_more(
    text: str, engine: Engine
) -> None:
    assert found(text.format("Vb7kq2Wx"), engine) == ["Vb7kq2Wx"]


@pytest.mark.parametrize(
    "text",
    [
        "密码:至少8位包含数字和字母的组合",
        "パスワード: 8文字以上で英数字を含むこと",
        "Пароль: минимум8символов",
    ],
)
def test_a_sentence_about_passwords_without_spaces_is_none(text: str) -> None:
    assert found(text) == []


def test_the_token_of_a_redirection_is_no_secret() -> None:
    link = f"https://www.youtube.com/redirect?event=video&redir_token={C.mixed(80)}&q=x"
    assert found(link) == []


@pytest.mark.parametrize("engine", [Re2Engine(), PythonEngine()])
def test_a_secret_in_a_field_is_found(engine: Engine) -> None:
    assert found("password:: Vb7kq2Wx", engine) == ["Vb7kq2Wx"]
    assert found("password:: 'vb!kqx'", engine) == ["vb!kqx"]
    token = C.mixed(40)
    assert found(f"api key:: {token}", engine) == [token]
    assert found("password:: required", engine) == []
