"""Hidden characters reach no answer as they are, and no secret does that a link spells in code."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from vaultmem.security.hidden import find_hidden, shown
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.settings import load_settings

TAGGED = "".join(chr(0xE0000 + ord(sign)) for sign in "ignore")
TOKEN = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
NOTE = f"""---
ke{TAGGED}y: v
up: "[[Up{TAGGED}]]"
---
#tag{TAGGED} [[Target|disp{TAGGED}lay]] [[No{TAGGED}where#He{TAGGED}re]]

decision:: use {TAGGED} it
"""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Hidden.md").write_text(NOTE, "utf-8")
    (vault / "Target.md").write_text("text", "utf-8")
    (vault / "Link.md").write_text(f"[x](Target.md#gh{'p%5F'}{TOKEN})", "utf-8")
    environment = {
        "VAULTMEM_STATE_DIR": str(tmp_path / "state"),
        "VAULTMEM_EMBEDDER_NAME": "none",
    }
    opened = open_memory(load_settings(vault, tmp_path / "cache", environment=environment))
    yield opened
    opened.close()


def test_no_answer_about_a_note_holds_what_is_hidden_in_it(memory: Memory) -> None:
    replies = (
        read(memory, ReadRequest("Hidden")),
        related(memory, RelatedRequest("Hidden")),
        inspect(memory, InspectRequest("Hidden")),
    )
    for reply in replies:
        said = json.dumps(asdict(reply), ensure_ascii=False, default=str)
        assert TAGGED[0] not in said
        assert "\\u{e0069}" in said or "\\\\u{e0069}" in said


def test_a_secret_in_the_subpath_of_a_link_is_masked(memory: Memory) -> None:
    (link,) = related(memory, RelatedRequest("Link")).links
    assert link.subpath == "#[secret:github-pat]"


@pytest.mark.parametrize("number", ["\u202a+49 170 1234567\u202c", "\u202d(555) 010-7788\u202c"])
def test_a_number_out_of_an_address_book_hides_nothing(number: str) -> None:
    assert find_hidden(f"Call {number} today") is None
    assert shown(number) == number


def test_text_that_is_turned_around_is_hidden_all_the_same() -> None:
    assert find_hidden("a \u202egnp.exe\u202c") is not None
    assert find_hidden("\u202a12\u202c \u202e34\u202c") is not None
