"""No byte of a secret is in the sidecar, in the state folder or in an answer."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from variants import CREDENTIALS, Chance, credential

from vaultmem.index.store import SIDECAR_NAME
from vaultmem.model.errors import StateUnavailable, UsageError
from vaultmem.service.allowed_secrets import FILE_NAME, read_allowed
from vaultmem.service.application import Memory, Progress
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.secrets import (
    AllowRequest,
    SecretsRequest,
    allow_secret,
    secrets,
)

C = Chance(17)
TOKEN = "gh" + "p_" + C.some(36)
OTHER = "gh" + "p_" + C.some(36)
PASSWORD = C.mixed(16)
DIARY = "hyacinthine"
NOBODY = 65534

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]


@pytest.fixture
def places(tmp_path: Path) -> Callable[[str], list[str]]:
    """The files besides the notes in which a text stands, in its own or in small letters."""

    def named(text: str) -> list[str]:
        # A full-text index keeps small letters, and stems of words.
        forms = {text.encode(), text.lower().encode(), text[4:].lower().encode()[:-3]}
        return [
            str(file.relative_to(tmp_path))
            for folder in ("cache", "state", "temporary")
            for file in sorted((tmp_path / folder).rglob("*"))
            if file.is_file() and any(form in file.read_bytes() for form in forms)
        ]

    return named


def answers(memory: Memory, *notes: str) -> str:
    """All that can be said of these notes."""
    replies: list[object] = [
        search(memory, SearchRequest(query)) for query in ("kiln", "login token", "secret")
    ]
    for note in notes:
        replies += [
            read(memory, ReadRequest(note)),
            related(memory, RelatedRequest(note)),
            inspect(memory, InspectRequest(note)),
        ]
    replies += [lint(memory, LintRequest()), secrets(memory, SecretsRequest())]
    return repr(replies)


def fingerprints(memory: Memory) -> dict[tuple[str, int], str]:
    """(path, line) -> fingerprint."""
    found = secrets(memory, SecretsRequest()).secrets
    return {(secret.path, secret.line): secret.fingerprint for secret in found}


# What is kept and said


def test_a_text_that_is_no_secret_is_in_the_sidecar(
    indexed: Open, places: Callable[[str], list[str]]
) -> None:
    memory = indexed({"a.md": f"kiln {DIARY}"})
    assert places(DIARY) == [f"cache/{memory.folder.name}/{SIDECAR_NAME}"]
    assert DIARY in answers(memory, "a.md")


def test_no_credential_of_any_kind_is_kept_or_said(
    open_vault: Open, run_index: Run, places: Callable[[str], list[str]]
) -> None:
    made = {f"{kind}.md": credential(kind, Chance(n)) for n, kind in enumerate(CREDENTIALS)}
    # Kinds and places that the scanner is known to miss are counted elsewhere.
    made = {path: v for path, v in made.items() if v.place not in ("marked", "quote")}
    assert len(made) > 30
    memory = open_vault({path: f"kiln\n\n{v.text}" for path, v in made.items()})
    for path, variant in made.items():
        if variant.text.startswith("---"):
            (memory.vault / path).write_text(variant.text + "kiln\n")
    run_index(memory)
    said = answers(memory, *made)
    leaks = {
        path
        for path, variant in made.items()
        for line in variant.value.replace("\\n", "\n").split("\n")
        if places(line) or line in said
    }
    assert leaks == set()
    assert said.count("[secret:") >= len(made)


def test_every_part_of_an_answer_about_a_note_is_without_its_secrets(
    indexed: Open, places: Callable[[str], list[str]]
) -> None:
    text = (
        f"---\ntitle: kiln {TOKEN}\naliases: [{TOKEN}]\ntags: [a, {TOKEN}]\nlogin: {TOKEN}\n"
        f"see: '[[b|{TOKEN}]]'\n---\n# H {TOKEN}\n\nkiln [[b|x {TOKEN}]]\n\nkey:: {TOKEN}\n\n"
        f"- [ ] {TOKEN}\n\n> [!note] {TOKEN}\n\n```\n{TOKEN}\n```\n"
    )
    memory = indexed({"a.md": text, "b.md": f"kiln [[a|{TOKEN}]] {TOKEN}"})
    said = answers(memory, "a.md", "b.md")
    assert TOKEN not in said
    assert TOKEN[4:].lower() not in said
    assert places(TOKEN) == []
    reply = read(memory, ReadRequest("a.md"))
    assert reply.properties["login"] == "[secret:github-pat]"
    assert reply.properties["key"] == "[secret:github-pat]"
    assert reply.title == "kiln [secret:github-pat]"
    assert reply.text.count("\n") == text.count("\n")
    section = read(memory, ReadRequest("a.md#H [secret github-pat]"))
    assert TOKEN not in repr(section)


def test_a_heading_with_a_secret_is_named_without_it_where_no_place_is_found(
    indexed: Open,
) -> None:
    memory = indexed({"a.md": f"# H {TOKEN}"})
    with pytest.raises(Exception, match="secret:github-pat") as caught:
        read(memory, ReadRequest("a.md#nowhere"))
    assert TOKEN not in str(caught.value)


def test_lint_and_secrets_name_file_line_kind_and_four_characters(indexed: Open) -> None:
    memory = indexed({"Sub/a.md": f"one\n\ntwo {TOKEN}\n"})
    (listed,) = secrets(memory, SecretsRequest()).secrets
    assert (listed.path, listed.line, listed.kind) == ("Sub/a.md", 3, "github-pat")
    assert listed.shown == TOKEN[:4]
    assert lint(memory, LintRequest()).secrets == (listed,)
    assert [(p.path, p.line, p.code) for p in lint(memory, LintRequest()).problems] == [
        ("Sub/a.md", 3, "secret")
    ]


def test_the_words_around_a_secret_are_found(indexed: Open, find: Callable[..., list[str]]) -> None:
    memory = indexed({"a.md": f"the kiln login {TOKEN} and its glaze", "b.md": "clay"})
    assert find(memory, "glaze kiln") == ["a.md"]
    assert find(memory, TOKEN) == []


def test_vectors_are_made_of_what_is_left(
    open_vault: Open, places: Callable[[str], list[str]]
) -> None:
    memory = open_vault(
        {"a.md": f"kiln login {TOKEN}", "b.md": f"---\nprivate: true\n---\n{DIARY}"},
        environment={"VAULTMEM_EMBEDDER_NAME": "minilm"},
    )
    reply = index(memory, IndexRequest())
    assert reply.chunks.embedded == 2
    assert search(memory, SearchRequest("fire and clay", mode="semantic")).hits
    assert places(TOKEN) == []
    assert places(DIARY) == []
    assert TOKEN not in answers(memory, "a.md")


def test_an_interrupted_run_leaves_nothing_of_a_secret_behind(
    open_vault: Open, places: Callable[[str], list[str]]
) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    notes = {f"{n}.md": f"kiln {n} {TOKEN}" for n in range(6)}
    memory = open_vault(notes, progress=Progress(stop))
    with pytest.raises(KeyboardInterrupt):
        index(memory, IndexRequest())
    assert places(TOKEN) == []
    memory.progress = Progress()
    assert index(memory, IndexRequest()).notes.total == 6
    assert places(TOKEN) == []
    assert len(fingerprints(memory)) == 6


# Changes


def test_a_secret_that_an_edit_adds_is_kept_out(
    indexed: Open, run_index: Run, places: Callable[[str], list[str]]
) -> None:
    memory = indexed({"a.md": "kiln", "b.md": "clay"})
    assert fingerprints(memory) == {}
    (memory.vault / "a.md").write_text(f"kiln\n\n{TOKEN}\n")
    assert run_index(memory).notes.changed == 1
    assert list(fingerprints(memory)) == [("a.md", 3)]
    assert places(TOKEN) == []


def test_an_edit_that_is_not_yet_indexed_shows_no_secret(indexed: Open) -> None:
    memory = indexed({"a.md": "kiln"}, environment={"VAULTMEM_SEARCH_REFRESH": "never"})
    (memory.vault / "a.md").write_text(f"kiln {TOKEN}\n")
    reply = read(memory, ReadRequest("a.md"))
    assert reply.text == "kiln [secret:github-pat]\n"
    (memory.vault / "a.md").write_text(f"---\nprivate: true\n---\nkiln {DIARY}\n")
    assert read(memory, ReadRequest("a.md")).text == ""


def test_a_secret_that_an_edit_takes_away_is_listed_no_more(indexed: Open, run_index: Run) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}"})
    (memory.vault / "a.md").write_text("kiln")
    run_index(memory)
    assert fingerprints(memory) == {}
    assert lint(memory, LintRequest()).problems == ()


def test_a_rename_takes_the_finding_along(
    indexed: Open, run_index: Run, places: Callable[[str], list[str]]
) -> None:
    memory = indexed({"a.md": f"kiln\n{TOKEN}", "b.md": "clay"})
    (memory.vault / "a.md").rename(memory.vault / "c.md")
    assert run_index(memory).notes.renamed == 1
    assert list(fingerprints(memory)) == [("c.md", 2)]
    assert places(TOKEN) == []
    (memory.vault / "c.md").unlink()
    run_index(memory)
    assert fingerprints(memory) == {}


@pytest.mark.parametrize(
    "hidden", ["---\nprivate: true\n---\nkiln {}", "kiln <private>{}</private>", "kiln"]
)
def test_text_that_is_hidden_later_is_gone_from_the_raw_files(
    indexed: Open, run_index: Run, places: Callable[[str], list[str]], hidden: str
) -> None:
    memory = indexed({"a.md": f"kiln {DIARY} and {DIARY}", "b.md": "clay"})
    assert places(DIARY) != []
    (memory.vault / "a.md").write_text(hidden.replace("{}", DIARY))
    run_index(memory)
    assert places(DIARY) == []
    assert DIARY not in answers(memory, "a.md", "b.md")


def test_a_private_note_is_found_by_its_name_alone(
    indexed: Open, find: Callable[..., list[str]]
) -> None:
    memory = indexed(
        {"Diary.md": f"---\nprivate: true\naliases: [Log]\n---\n{DIARY} [[b]]", "b.md": "[[Diary]]"}
    )
    assert find(memory, "diary") != []
    assert find(memory, DIARY) == []
    reply = read(memory, ReadRequest("Diary"))
    assert (reply.text, reply.frontmatter, reply.aliases, reply.links) == ("", {}, (), ())
    assert [link.path for link in reply.backlinks] == ["b.md"]
    assert related(memory, RelatedRequest("b.md")).backlinks == ()


# Settings


def test_secrets_that_were_left_in_are_gone_from_the_raw_files_when_they_are_masked(
    open_vault: Open, run_index: Run, places: Callable[[str], list[str]]
) -> None:
    for setting, kept, told in (("off", True, 0), ("report", True, 1), ("mask", False, 1)):
        memory = open_vault(
            {"a.md": f"kiln {TOKEN}"}, environment={"VAULTMEM_SECRETS_SCAN": setting}
        )
        run_index(memory)
        assert (TOKEN in read(memory, ReadRequest("a.md")).text) is kept, setting
        assert len(secrets(memory, SecretsRequest()).secrets) == told, setting
        assert bool(places(TOKEN)) is kept, setting
        memory.close()


def test_another_name_for_the_private_property_takes_notes_in_anew(
    open_vault: Open, run_index: Run, find: Callable[..., list[str]]
) -> None:
    files = {"a.md": f"---\nprivate: true\n---\n{DIARY}", "b.md": f"---\nown: true\n---\n{DIARY}"}
    for name, found in (("private", ["b.md"]), ("own", ["a.md"]), ("", ["a.md", "b.md"])):
        memory = open_vault(files, environment={"VAULTMEM_PRIVATE_PROPERTY": name})
        run_index(memory)
        assert sorted(find(memory, DIARY)) == found
        memory.close()


# Allowing


def test_an_allowed_secret_is_found_and_shown_until_it_is_revoked(
    indexed: Open, places: Callable[[str], list[str]], find: Callable[..., list[str]]
) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}", "b.md": f"clay {OTHER}", "c.md": "sand"})
    name = fingerprints(memory)["a.md", 1]
    reply = allow_secret(memory, AllowRequest((name,)))
    assert (reply.changed, reply.notes) == ((name,), 1)
    assert [(s.path, s.allowed) for s in reply.secrets] == [("a.md", True), ("b.md", False)]
    assert find(memory, TOKEN)[0] == "a.md"
    assert TOKEN in read(memory, ReadRequest("a.md")).text
    assert [s.path for s in lint(memory, LintRequest()).secrets] == ["b.md"]
    assert places(OTHER) == []
    again = allow_secret(memory, AllowRequest((name,)))
    assert (again.changed, again.notes) == ((), 0)
    gone = allow_secret(memory, AllowRequest((name,), revoke=True))
    assert (gone.changed, gone.notes) == ((name,), 1)
    assert places(TOKEN) == []
    assert TOKEN not in answers(memory, "a.md")


def test_one_fingerprint_allows_a_secret_in_every_note(indexed: Open) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}", "Sub/b.md": f"clay\n\n{TOKEN}"})
    (name,) = set(fingerprints(memory).values())
    assert allow_secret(memory, AllowRequest((name,))).notes == 2
    assert lint(memory, LintRequest()).secrets == ()


def test_what_is_allowed_outlives_a_rebuild_and_a_lost_sidecar(
    indexed: Open, open_vault: Open
) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}"})
    allow_secret(memory, AllowRequest(tuple(fingerprints(memory).values())))
    index(memory, IndexRequest(rebuild=True))
    assert TOKEN in read(memory, ReadRequest("a.md")).text
    memory.close()
    shutil.rmtree(memory.folder)
    again = open_vault()
    index(again, IndexRequest())
    assert TOKEN in read(again, ReadRequest("a.md")).text


def test_a_fingerprint_that_no_secret_has_is_refused(indexed: Open) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}"})
    for wrong in ("0" * 20, "", TOKEN):
        with pytest.raises(UsageError) as caught:
            allow_secret(memory, AllowRequest((wrong,)))
        assert "vaultmem secrets" in str(caught.value)
    with pytest.raises(UsageError):
        allow_secret(memory, AllowRequest(()))
    assert read_allowed(memory.settings.state_folder).fingerprints == frozenset()


def test_a_fingerprint_of_a_secret_that_is_gone_can_be_revoked(
    indexed: Open, run_index: Run
) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}", "b.md": "clay"})
    (name,) = fingerprints(memory).values()
    allow_secret(memory, AllowRequest((name,)))
    (memory.vault / "a.md").write_text("kiln")
    run_index(memory)
    assert allow_secret(memory, AllowRequest((name,), revoke=True)).changed == (name,)


def test_two_vaults_have_keys_and_decisions_of_their_own(indexed: Open, tmp_path: Path) -> None:
    one = indexed({"a.md": f"kiln {TOKEN}"}, name="one")
    two = indexed({"a.md": f"kiln {TOKEN}"}, name="two")
    first, second = fingerprints(one)["a.md", 1], fingerprints(two)["a.md", 1]
    assert first != second
    with pytest.raises(UsageError):
        allow_secret(two, AllowRequest((first,)))
    allow_secret(one, AllowRequest((first,)))
    assert TOKEN in read(one, ReadRequest("a.md")).text
    assert TOKEN not in read(two, ReadRequest("a.md")).text
    assert len(list((tmp_path / "state").rglob(FILE_NAME))) == 2


# The state file


def test_a_vault_without_secrets_leaves_no_state_behind(indexed: Open, tmp_path: Path) -> None:
    indexed({"a.md": "kiln"})
    assert not (tmp_path / "state").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
def test_the_key_is_for_its_owner_alone(indexed: Open) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}"})
    folder = memory.settings.state_folder
    assert (folder / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o077 == 0
    assert [file.name for file in folder.iterdir()] == [FILE_NAME]


def test_a_lost_state_file_masks_again_and_gives_new_fingerprints(
    indexed: Open, run_index: Run, places: Callable[[str], list[str]]
) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}", "b.md": f"clay {OTHER}"})
    before = fingerprints(memory)
    allow_secret(memory, AllowRequest((before["a.md", 1],)))
    (memory.settings.state_folder / FILE_NAME).unlink()
    run_index(memory)
    after = fingerprints(memory)
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert places(TOKEN) == []
    assert TOKEN not in answers(memory, "a.md")
    allow_secret(memory, AllowRequest((after["a.md", 1],)))
    assert TOKEN in read(memory, ReadRequest("a.md")).text


@pytest.mark.parametrize("damage", ["", "{}", "[]", "null", "\0" * 40, '{"key": "00"}', "folder"])
def test_a_damaged_state_file_allows_nothing_and_is_named_and_never_written_over(
    indexed: Open, places: Callable[[str], list[str]], damage: str
) -> None:
    memory = indexed({"a.md": f"kiln {TOKEN}"})
    (name,) = fingerprints(memory).values()
    allow_secret(memory, AllowRequest((name,)))
    file = memory.settings.state_folder / FILE_NAME
    file.unlink()
    if damage == "folder":
        file.mkdir()
    else:
        file.write_text(damage)
    index(memory, IndexRequest())
    assert TOKEN not in answers(memory, "a.md")
    assert places(TOKEN) == []
    assert any(str(file) in notice for notice in memory.notices)
    with pytest.raises(StateUnavailable) as caught:
        allow_secret(memory, AllowRequest((name,)))
    assert str(file) in str(caught.value)
    assert file.is_dir() if damage == "folder" else file.read_text() == damage


_ALLOW_UNWRITABLE = """
import os, sys
from vaultmem.model.errors import StateUnavailable
from vaultmem.service.application import open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.secrets import AllowRequest, SecretsRequest, allow_secret, secrets
from vaultmem.service.settings import load_settings
def ask(vault, cache, state):
    environment = {{"VAULTMEM_EMBEDDER_NAME": "none", "VAULTMEM_STATE_DIR": state}}
    memory = open_memory(load_settings(vault, cache, environment=environment))
    index(memory, IndexRequest())
    print(read(memory, ReadRequest("a.md")).text)
    print([secret.fingerprint for secret in secrets(memory, SecretsRequest()).secrets])
    try:
        allow_secret(memory, AllowRequest(("0" * 20,)))
    except StateUnavailable as error:
        print("named" if state in str(error) else "not named")
    except Exception as error:
        print(type(error).__name__)
vault, cache, state, first = sys.argv[1:]
ask(vault, first + "/cache", first + "/state")  # what is needed is loaded while it can be reached
os.setgid({nobody})
os.setuid({nobody})
ask(vault, cache, state)
"""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that another user can reach."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_where_no_state_can_be_kept_secrets_are_masked_all_the_same(scratch: Path) -> None:
    for name, mode in (("vault", 0o755), ("cache", 0o777), ("state", 0o555)):
        (scratch / name).mkdir()
        (scratch / name).chmod(mode)
    (scratch / "vault" / "a.md").write_text(f"kiln {TOKEN}")
    folders = [str(scratch / name) for name in ("vault", "cache", "state", "first")]
    ended = subprocess.run(
        [sys.executable, "-c", _ALLOW_UNWRITABLE.format(nobody=NOBODY), *folders],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = ended.stdout.split("\n")
    assert lines[0] == lines[3] == "kiln [secret:github-pat]"
    assert lines[1] != "['']"
    assert lines[2] == "UsageError"
    assert lines[4:6] == ["['']", "named"]
    assert list((scratch / "state").iterdir()) == []
