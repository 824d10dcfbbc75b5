"""Answers while another process changes the index: from before or from after, never a mixture."""

from collections.abc import Callable
from dataclasses import dataclass, field

import apsw
import pytest

from vaultmem.model.errors import NoteNotFound
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status

Open = Callable[..., Memory]

NOTES = {f"n{i}.md": f"# A\n\nkiln [[n{i + 1}]]\n\n# B\n\nkiln clay" for i in range(4)}


@dataclass
class Interruption:
    """Does something just before a connection's n-th statement."""

    before: int
    act: Callable[[], object]
    seen: int = field(default=0)

    def __call__(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        self.seen += 1
        if self.seen == self.before:
            self.act()
        return True


OPERATIONS: dict[str, Callable[[Memory], object]] = {
    "search": lambda m: search(m, SearchRequest("kiln clay n2 kilm", passages=True)),
    "search by filter": lambda m: search(m, SearchRequest("path:n*")),
    "read": lambda m: read(m, ReadRequest("n1")),
    "related": lambda m: related(m, RelatedRequest("n1")),
    "lint": lambda m: lint(m, LintRequest()),
    "status": lambda m: status(m, StatusRequest()),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_change_between_any_two_statements_of_an_answer_does_no_harm(
    operation: str, open_vault: Open
) -> None:
    reader = open_vault(NOTES, environment={"VAULTMEM_SEARCH_REFRESH": "never"})
    writer = open_vault()
    index(writer, IndexRequest())
    assert writer.sidecar is not None
    # The reader cannot end its answer while we act, so waiting for it is of no use.
    writer.sidecar.connection.set_busy_timeout(0)

    def replace_all() -> None:
        for path in NOTES:
            (writer.vault / path).unlink()
        (writer.vault / "other.md").write_text("# C\n\nkiln clay")
        index(writer, IndexRequest())

    def restore() -> None:
        (writer.vault / "other.md").unlink(missing_ok=True)
        for path, content in NOTES.items():
            (writer.vault / path).write_text(content)
        index(writer, IndexRequest())

    before, statements = 0, 1
    while before < statements:
        before += 1
        restore()
        sidecar = reader.open_sidecar()
        assert sidecar is not None
        interruption = Interruption(before, replace_all)
        sidecar.connection.exec_trace = interruption
        try:
            OPERATIONS[operation](reader)
        except NoteNotFound:
            assert operation in ("read", "related")
        finally:
            sidecar.connection.exec_trace = None
        statements = interruption.seen
    assert before > 1
