"""What lies outside the vault, and what is secret inside it, is in no table, file or answer."""

import functools
import json
import re
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import hostile
import pytest
from hostile_vaults import (
    ENVIRONMENT_MARK,
    MOST_READ,
    NOBODY,
    VARIANTS,
    Asked,
    all_rows,
    bytes_below,
    shown,
    stored_texts,
)

pytest_plugins = ["hostile_fixtures"]

CREDENTIALS = [row["id"] for row in all_rows() if row["id"].startswith("cred-")]
HOSTNAME = Path("/etc/hostname")
MOST_SHOWN = 4  # characters of a secret in a warning


@dataclass(frozen=True, slots=True, repr=False)
class Kept:
    """All that is kept and said about a vault."""

    words: tuple[str, ...]  # of the full-text indexes and of the tables, sorted
    texts: str
    files: bytes
    said: str


@pytest.fixture(scope="module")
def kept() -> Callable[[Asked], Kept]:
    """What is kept about a vault, read once."""

    @functools.cache
    def read(asked: Asked) -> Kept:
        texts = list(stored_texts(asked.cache))
        return Kept(
            words=tuple(sorted(text for text in texts if len(text) < 200)),
            texts="\n".join(texts),
            files=b"\n".join(data for _, data in bytes_below(asked.cache)),
            said=asked.everything_said(),
        )

    return read


# What is outside


def test_the_canary_is_nowhere(each: Asked, kept: Callable[[Asked], Kept]) -> None:
    assert hostile.CANARY in (each.out / "outside" / "secret.md").read_text()
    everything = kept(each)
    assert places(everything, "needl") == ["words", "texts", "files", "said"]
    for part in (hostile.CANARY, hostile.CANARY.lower(), "OUTSIDE-THE-VAULT"):
        assert places(everything, part) == []
    assert "7f3a" not in everything.words  # what full text would make of its end


def test_the_environment_is_nowhere(each: Asked, kept: Callable[[Asked], Kept]) -> None:
    everything = kept(each)
    assert ENVIRONMENT_MARK in each.child.environment().values()
    for part in (ENVIRONMENT_MARK, ENVIRONMENT_MARK.lower(), "OF-THE-PROCESS"):
        assert places(everything, part) == []
    assert "4c1d" not in everything.words


def begins_a_word(everything: Kept, part: str) -> bool:
    """Whether a word is this one or begins with it; the full-text index cuts endings off."""
    at = bisect_left(everything.words, part)
    return at < len(everything.words) and everything.words[at].startswith(part)


def places(everything: Kept, part: str) -> list[str]:
    """Where a text stands."""
    found = {
        "words": begins_a_word(everything, part),
        "texts": part in everything.texts,
        "files": part.encode() in everything.files,
        "said": part in everything.said,
    }
    return [place for place, there in found.items() if there]


def test_the_name_of_the_machine_is_nowhere(each: Asked, kept: Callable[[Asked], Kept]) -> None:
    name = HOSTNAME.read_text("utf-8").strip().lower() if HOSTNAME.exists() else ""
    notes = (
        b"\n".join(data for _, data in bytes_below(each.vault, MOST_READ)).lower() if name else b""
    )
    if not name or name.encode() in notes:
        pytest.skip("the machine's name tells nothing")
    everything = kept(each)
    assert not begins_a_word(everything, name)
    whole = re.compile(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", re.IGNORECASE)
    found = whole.search(everything.texts)
    assert found is None


# Secrets


def secret_of(asked: Asked, other: Mapping[str, str], kind: str) -> str:
    """The secret part of a credential: what is another in a vault of another seed."""
    text, twin = samples(asked.out)[kind], other[kind]
    if kind == "gcp-service-account":
        # The key's number, which stands before it, opens nothing.
        text, twin = (x.partition('"private_key": ')[2] for x in (text, twin))
    first = next(n for n, (a, b) in enumerate(zip(text, twin, strict=False)) if a != b)
    last = next(n for n, (a, b) in enumerate(zip(text[::-1], twin[::-1], strict=False)) if a != b)
    return text[first : len(text) - last]


def samples(out: Path) -> dict[str, str]:
    """The text of each kind of credential."""
    rows = json.loads((out / "secrets.json").read_text("utf-8"))
    return {r["kind"]: r["text"] for r in rows if r["secret"] and r["context"] == "plain"}


@pytest.fixture(scope="module")
def other_seed() -> Iterator[dict[str, str]]:
    """The credentials of a seed that no vault here is of."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        subprocess.run(
            [sys.executable, hostile.__file__, str(out), "--seed", "977", "--only", "size"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        yield samples(out)


def leaks(everything: Kept, said: str, secret: str) -> list[str]:
    """Where a secret, or a long part of it, is to be seen."""
    parts = re.findall(r"[A-Za-z0-9]+", secret)
    longest = sorted((part for part in parts if len(part) >= 8), key=len)[-3:] or [secret]
    found = [f"a table: {p[:4]}…" for p in longest if p in everything.texts]
    found += [f"a file: {p[:4]}…" for p in longest if p.encode() in everything.files]
    found += [f"an answer: {p[:4]}…" for p in longest if p in said]
    words = {p.lower() for p in parts if len(p) >= 5}
    stems = {word if len(word) < 9 else word[:-3] for word in words}
    return found + [f"an index: {s[:4]}…" for s in stems if begins_a_word(everything, s)]


@pytest.mark.parametrize("cid", CREDENTIALS)
def test_a_credential_is_masked_wherever_it_could_be_seen(
    first: Asked, kept: Callable[[Asked], Kept], other_seed: dict[str, str], cid: str
) -> None:
    kind = cid.removeprefix("cred-")
    secret = secret_of(first, other_seed, kind)
    assert len(secret) >= 10
    everything = kept(first)
    assert leaks(everything, everything.said, secret) == []
    note = f"secrets/{cid}.md"
    assert "[secret:" in first.answers["read"][note]["text"]
    hits = first.answers["asked"][cid]["hits"]
    assert [hit["path"] for hit in hits] == [note]


@pytest.mark.parametrize("cid", CREDENTIALS)
def test_a_warning_shows_next_to_nothing_of_the_credential(
    first: Asked, other_seed: dict[str, str], cid: str
) -> None:
    secret = secret_of(first, other_seed, cid.removeprefix("cred-"))
    (warning,) = first.problems(f"secrets/{cid}.md")
    size = MOST_SHOWN + 1
    shown_parts = [
        secret[at : at + size]
        for at in range(len(secret) - size + 1)
        if secret[at : at + size] in warning
    ]
    assert shown_parts == []


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "first"])
def test_other_seeds_leak_no_credential(
    hostile_vault: Callable[[str], Asked],
    kept: Callable[[Asked], Kept],
    other_seed: dict[str, str],
    name: str,
) -> None:
    asked = hostile_vault(name)
    everything = kept(asked)
    found = {
        kind: leaks(everything, everything.said, secret_of(asked, other_seed, kind))
        for kind in samples(asked.out)
    }
    assert len(found) == 42
    assert {kind: where for kind, where in found.items() if where} == {}


def test_what_only_looks_like_a_secret_is_shown_as_it_is(first: Asked) -> None:
    rows = [row for row in first.rows if row["id"].startswith("lookalike-")]
    assert len(rows) == 48
    masked = [
        row["id"] for row in rows if "[secret:" in first.answers["read"][shown(row["path"])]["text"]
    ]
    assert masked == []


def test_a_leak_is_noticed() -> None:
    empty = Kept((), "", b"", "")
    secret = "Zq81-kk3Lm0pQr5tUv"
    assert leaks(empty, "", secret) == []
    assert leaks(empty, "key: kk3Lm0pQr5tUv", secret) != []
    assert leaks(Kept((), "x kk3Lm0pQr5tUv", b"", ""), "", secret) != []
    assert leaks(Kept((), "", b"\0kk3Lm0pQr5tUv\1", ""), "", secret) != []
    assert leaks(Kept(("kiln", "kk3lm0pqr5tuv"), "", b"", ""), "", secret) != []


def test_a_closed_file_is_reported_and_its_text_is_nowhere(
    first: Asked, kept: Callable[[Asked], Kept]
) -> None:
    path = first.vault / "special" / "noread.md"
    assert path.stat().st_mode & 0o777 == 0
    assert not first.reads_everything
    assert path.stat().st_uid in (NOBODY, Path(__file__).stat().st_uid, first.vault.stat().st_uid)
    assert len(first.problems("special/noread.md")) == 1
    assert places(kept(first), "needle-sp-mode-000") == []
    readable = first.answers["read"]
    assert readable["special/readonly.md"]["text"].strip() == "needle-sp-mode-444"
    assert readable["special/ro-dir/in.md"]["text"].strip() == "needle-sp-rodir"
