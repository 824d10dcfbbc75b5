"""The table of operations. Surfaces loop over it and decide nothing themselves."""

from vaultmem.model.operation import Changes, Group, Operation
from vaultmem.service.operations.evaluate import EvaluateReply, EvaluateRequest, evaluate
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.inspect import InspectReply, InspectRequest, inspect
from vaultmem.service.operations.lint import LintReply, LintRequest, lint
from vaultmem.service.operations.read import ReadReply, ReadRequest, read
from vaultmem.service.operations.related import RelatedReply, RelatedRequest, related
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.secrets import (
    AllowReply,
    AllowRequest,
    SecretsReply,
    SecretsRequest,
    allow_question,
    allow_secret,
    secrets,
)
from vaultmem.service.operations.status import StatusReply, StatusRequest, status

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "search",
        "Find what the person's notes say before answering from memory: best passages with path, "
        "title, one line, score; `read` gives the text. Changes nothing.",
        SearchRequest,
        SearchReply,
        search,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "read",
        "Read a note, or one section or block of it, after search or when named: text, "
        "properties, links and backlinks. Changes nothing.",
        ReadRequest,
        ReadReply,
        read,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "related",
        "See what a note links to and what links to it, to follow a topic further: paths, "
        "lines, unresolved links. Changes nothing.",
        RelatedRequest,
        RelatedReply,
        related,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "status",
        "Check whether the notes are indexed, fresh and healthy, when search misses something: "
        "counts, waiting notes, optional checks and settings. Changes nothing.",
        StatusRequest,
        StatusReply,
        status,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "index",
        "Take changed notes in at once, or rebuild, when status says notes wait: counts and "
        "problems. Changes the index only, no note.",
        IndexRequest,
        IndexReply,
        index,
        Changes.INDEX,
        Group.CARE,
    ),
    Operation(
        "inspect",
        "Explain why a note is or is not found, when search misses it: rule, problem, "
        "passages, kind, date. Changes nothing.",
        InspectRequest,
        InspectReply,
        inspect,
        Changes.NOTHING,
        Group.CARE,
    ),
    Operation(
        "lint",
        "Find what needs mending in the vault: links to nowhere, ambiguous links, orphans, faulty "
        "properties, credentials; each with its line. Changes nothing.",
        LintRequest,
        LintReply,
        lint,
        Changes.NOTHING,
        Group.CARE,
    ),
    Operation(
        "secrets",
        "List credentials found in notes, to warn the person: note, line, kind and "
        "fingerprint, never the credential itself. Changes nothing.",
        SecretsRequest,
        SecretsReply,
        secrets,
        Changes.NOTHING,
        Group.CARE,
    ),
    Operation(
        "allow_secret",
        "Let text through that only looks like a credential, by fingerprint; the person is asked "
        "to agree. Changes what search and read show.",
        AllowRequest,
        AllowReply,
        allow_secret,
        Changes.STATE,
        Group.CARE,
        question=allow_question,
    ),
    Operation(
        "evaluate",
        "Measure search with questions whose right notes are known: how far up these come, overall "
        "and by channel. Changes nothing.",
        EvaluateRequest,
        EvaluateReply,
        evaluate,
        Changes.NOTHING,
        Group.CARE,
    ),
)

# What an assistant is shown unless the person wants it to see everything.
DEFAULT_GROUPS = frozenset({Group.RECALL, Group.WRITE, Group.LEARN})


def listed(*, everything: bool) -> tuple[Operation, ...]:
    """The operations that an assistant is shown."""
    return tuple(
        operation for operation in OPERATIONS if everything or operation.group in DEFAULT_GROUPS
    )
