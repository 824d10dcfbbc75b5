"""Runs cases of Obsidian's observed behaviour against vaultmem's own functions.

    python tests/conformance/run.py FILE.jsonl [--list]

One JSON object a line: id, area, files (vault path -> text), ask (op and its arguments), expect,
source. Conventions of the cases: lines are 0-based, `end_line` is exclusive and null at the end of
the file, a list of links is in text order without those of properties, `note` inside `expect` is a
comment. Keys that are not known here are ignored, and of an answer only what `expect` names is
compared: a list of links that says nothing of `display` asks nothing about it.

Prints the failing ids and `N passed, M failed`; exit code 1 if any failed. --list prints every case
with its verdict. An op that there is no adapter for counts as failed, never as skipped.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaultmem.model.delta import Snapshot
from vaultmem.model.note import Note
from vaultmem.service.application import open_memory
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings
from vaultmem.vault.chunk import chunk_note
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.inline import markdown_link
from vaultmem.vault.links import VaultNames
from vaultmem.vault.linktext import (
    free_path,
    heading_for_link,
    link_text,
    markdown_link_text,
)
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.parse import parse
from vaultmem.vault.paths import is_note
from vaultmem.vault.scan import scan
from vaultmem.vault.subpath import comparable_heading, find_place

MAX_NOTE_BYTES = 1 << 20
MAX_PIECES = 180


@dataclass(frozen=True, slots=True)
class Case:
    """One question about a small vault, and Obsidian's answer."""

    id: str
    area: str
    files: dict[str, str]
    ask: dict[str, Any]
    expect: Any

    @property
    def op(self) -> str:
        """What is asked."""
        return str(self.ask["op"])


@dataclass(frozen=True, slots=True)
class Verdict:
    """How vaultmem answered a case."""

    case: Case
    passed: bool
    why: str  # what was found instead; "" when it passed


class Vault:
    """The files of one case, on disk and seen through vaultmem's own scan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rules, _ = compile_rules(read_obsidian(folder), ())
        self.snapshot: Snapshot = scan(folder, rules, max_note_bytes=MAX_NOTE_BYTES)
        self.files = sorted({*self.snapshot.notes, *self.snapshot.files})
        self.names = VaultNames(self.files)

    def note(self, path: str) -> Note:
        """A note of the vault, parsed."""
        state = self.snapshot.notes[path]
        return parse(path, (self.folder / state.disk_path).read_bytes())

    def search(self, query: str, *tags: str) -> list[str]:
        """Paths of the notes that a search in its default mode finds, of those with the tags."""
        with tempfile.TemporaryDirectory() as cache:
            settings = load_settings(
                self.folder, cache, environment={"VAULTMEM_EMBEDDER_NAME": "none"}
            )
            memory = open_memory(settings)
            try:
                hits = search(memory, SearchRequest(query, limit=1000, tags=tags)).hits
            finally:
                memory.close()
        return sorted({hit.path for hit in hits})


def _resolve(vault: Vault, ask: dict[str, Any]) -> Any:
    target = ask["link"].partition("#")[0]
    return {"path": vault.names.resolve(target, ask["from"])}


def _resolve_md(vault: Vault, ask: dict[str, Any]) -> Any:
    link = markdown_link(ask["dest"], "", embed=False, line=1)
    return {"path": None if link is None else vault.names.resolve(link.target, ask["from"])}


def _links(vault: Vault, ask: dict[str, Any]) -> Any:
    found = [link for link in vault.note(ask["path"]).links if link.key is None]
    return {
        "links": [
            {
                "link": link.target,
                "subpath": link.subpath,
                "embed": link.embed,
                "display": link.display,
                "line": link.line - 1,
            }
            for link in found
        ]
    }


def _frontmatter_links(vault: Vault, ask: dict[str, Any]) -> Any:
    found = [link for link in vault.note(ask["path"]).links if link.key is not None]
    return {
        "links": [
            {"key": link.key, "link": link.target + link.subpath, "display": link.display}
            for link in found
        ]
    }


def _graph(vault: Vault, ask: dict[str, Any]) -> Any:
    resolved: Counter[str] = Counter()
    unresolved: Counter[str] = Counter()
    for link in vault.note(ask["path"]).links:
        target = f"/{link.target}" if link.exact else link.target
        path = vault.names.resolve(target, ask["path"])
        if path is not None:
            resolved[path] += 1
        else:
            unresolved[link.target[:-3] if is_note(link.target) else link.target] += 1
    return {"resolved": dict(resolved), "unresolved": dict(unresolved)}


def _tags(vault: Vault, ask: dict[str, Any]) -> Any:
    return {"tags": list(vault.note(ask["path"]).tags)}


def _notes_with_tag(vault: Vault, ask: dict[str, Any]) -> Any:
    return {"paths": vault.search("", ask["tag"])}


def _aliases(vault: Vault, ask: dict[str, Any]) -> Any:
    return {"aliases": list(vault.note(ask["path"]).aliases)}


def _frontmatter(vault: Vault, ask: dict[str, Any]) -> Any:
    block = vault.note(ask["path"]).frontmatter
    return {"exists": block.exists, "valid": block.valid, "props": dict(block.properties)}


def _body_survives(vault: Vault, ask: dict[str, Any]) -> Any:
    note = vault.note(ask["path"])
    return {
        "links": [link.target for link in note.links],
        "tags": list(note.tags),
        "headings": [heading.text for heading in note.headings],
    }


def _headings(vault: Vault, ask: dict[str, Any]) -> Any:
    return {
        "headings": [
            {"level": heading.level, "text": heading.text, "line": heading.line - 1}
            for heading in vault.note(ask["path"]).headings
        ]
    }


def _subpath(vault: Vault, ask: dict[str, Any]) -> Any:
    place = find_place(vault.note(ask["path"]), ask["subpath"])
    if place is None:
        return None
    return {"type": place.kind, "line": place.first - 1, "end_line": place.last}


def _block_ids(vault: Vault, ask: dict[str, Any]) -> Any:
    return {"ids": [block_id.id for block_id in vault.note(ask["path"]).block_ids]}


def _strip_heading(_: Vault, ask: dict[str, Any]) -> Any:
    return {"text": comparable_heading(ask["text"])}


def _heading_path(vault: Vault, ask: dict[str, Any]) -> Any:
    line = ask["line"] + 1
    chunks = chunk_note(vault.note(ask["path"]), max_pieces=MAX_PIECES)
    # A blank line at the end of a section is in no chunk, and belongs to the one before it.
    trails = [chunk.trail for chunk in chunks if chunk.first_line <= line]
    return {"path": list(trails[-1]) if trails else []}


def _section_count(vault: Vault, ask: dict[str, Any]) -> Any:
    return {"headings": len(vault.note(ask["path"]).headings)}


def _tasks(vault: Vault, ask: dict[str, Any]) -> Any:
    return {
        "tasks": [
            {"line": task.line - 1, "char": task.status, "done": task.done}
            for task in vault.note(ask["path"]).tasks
        ]
    }


def _vault_files(vault: Vault, _: dict[str, Any]) -> Any:
    return {"paths": vault.files}


def _is_note(_: Vault, ask: dict[str, Any]) -> Any:
    return {"is_note": is_note(ask["path"])}


def _notes(vault: Vault, _: dict[str, Any]) -> Any:
    return {"paths": [path for path in vault.snapshot.notes if is_note(path)]}


def _search_default(vault: Vault, ask: dict[str, Any]) -> Any:
    return {"paths": vault.search(ask["query"])}


def _linktext(vault: Vault, ask: dict[str, Any]) -> Any:
    wanted = ask.get("format") or read_obsidian(vault.folder).link_format
    return {"linktext": link_text(vault.names, ask["target"], ask["from"], wanted)}


def _markdown_link(vault: Vault, ask: dict[str, Any]) -> Any:
    written = markdown_link_text(
        vault.names,
        ask["target"],
        ask["from"],
        ask.get("format") or read_obsidian(vault.folder).link_format,
        ask.get("display"),
        subpath=ask.get("subpath") or "",
        embed=bool(ask.get("embed")),
    )
    return {"link": written}


def _new_name(vault: Vault, ask: dict[str, Any]) -> Any:
    return {"path": free_path(vault.names, ask["wanted"])}


def _strip_heading_for_link(_: Vault, ask: dict[str, Any]) -> Any:
    return {"text": heading_for_link(ask["text"])}


ADAPTERS: dict[str, Callable[[Vault, dict[str, Any]], Any]] = {
    "resolve": _resolve,
    "resolve_md": _resolve_md,
    "links": _links,
    "frontmatter_links": _frontmatter_links,
    "graph": _graph,
    "tags": _tags,
    "notes_with_tag": _notes_with_tag,
    "aliases": _aliases,
    "frontmatter": _frontmatter,
    "body_survives": _body_survives,
    "headings": _headings,
    "subpath": _subpath,
    "block_ids": _block_ids,
    "strip_heading": _strip_heading,
    "strip_heading_for_link": _strip_heading_for_link,
    "heading_path": _heading_path,
    "section_count": _section_count,
    "tasks": _tasks,
    "vault_files": _vault_files,
    "is_note": _is_note,
    "notes": _notes,
    "search_default": _search_default,
    "linktext": _linktext,
    "markdown_link": _markdown_link,
    "new_name": _new_name,
}


def load_cases(path: Path) -> Iterator[Case]:
    """The cases of a file, in its order."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                case = json.loads(line)
                yield Case(
                    case["id"],
                    case.get("area", ""),
                    case.get("files", {}),
                    case["ask"],
                    case["expect"],
                )


def judge(case: Case) -> Verdict:
    """Ask vaultmem what the case asks; a failure of any kind is a verdict, not an exception."""
    adapter = ADAPTERS.get(case.op)
    if adapter is None:
        return Verdict(case, False, f"no adapter for {case.op}")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in case.files.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode("utf-8"))
        try:
            found = adapter(Vault(Path(folder)), case.ask)
        except Exception as error:  # noqa: BLE001 - whatever it is, the case has failed
            return Verdict(case, False, f"raised {type(error).__name__}: {error}")
    expected, answer = _comparable(case.expect, found)
    return Verdict(
        case,
        expected == answer,
        "" if expected == answer else f"expected {expected}, found {answer}",
    )


def _comparable(expect: Any, found: Any) -> tuple[str, str]:
    """Both as JSON, so that `true` differs from 1; what the case does not ask about left out."""
    if isinstance(expect, dict) and isinstance(found, dict):
        expect = {key: value for key, value in expect.items() if key != "note"}
        if expect:
            found = {key: _asked(expect[key], found[key]) for key in expect if key in found}
        if "paths" in expect and "paths" in found:
            expect["paths"] = sorted(expect["paths"])
            found["paths"] = sorted(found["paths"])
    return _json(expect), _json(found)


def _asked(expect: Any, found: Any) -> Any:
    """Of a list of records, the fields that the case names in each; anything else as it is."""
    if not isinstance(expect, list) or not isinstance(found, list) or len(expect) != len(found):
        return found
    return [
        {key: value for key, value in record.items() if key in wanted}
        if isinstance(record, dict) and isinstance(wanted, dict)
        else record
        for wanted, record in zip(expect, found, strict=True)
    ]


def _json(value: Any) -> str:
    return json.dumps(_whole(value), sort_keys=True, ensure_ascii=False)


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 1000.0 is written 1000."""
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def main(arguments: list[str]) -> int:
    """Run a file of cases; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run conformance cases against vaultmem.")
    parser.add_argument("file", type=Path, help="cases, one JSON object a line")
    parser.add_argument("--list", action="store_true", help="print every case with its verdict")
    options = parser.parse_args(arguments)
    verdicts = [judge(case) for case in load_cases(options.file)]
    for verdict in verdicts:
        if options.list and verdict.passed:
            print(f"passed  {verdict.case.id}  {verdict.case.area}  {verdict.case.op}")
        if not verdict.passed:
            print(
                f"FAILED  {verdict.case.id}  {verdict.case.area}  {verdict.case.op}: {verdict.why}"
            )
    passed = sum(verdict.passed for verdict in verdicts)
    failed = len(verdicts) - passed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
