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
    allow_secret,
    secrets,
)
from vaultmem.service.operations.status import StatusReply, StatusRequest, status

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "search",
        "Find passages by words, phrases and filters; best first, one a note, with the reason.",
        SearchRequest,
        SearchReply,
        search,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "read",
        "Give a note, or the section or block behind a #, in full, with properties and backlinks.",
        ReadRequest,
        ReadReply,
        read,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "related",
        "List the links of a note, where each leads, and the notes that link to it.",
        RelatedRequest,
        RelatedReply,
        related,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "status",
        "Counts, freshness and problems; on request the health checks and the settings.",
        StatusRequest,
        StatusReply,
        status,
        Changes.NOTHING,
        Group.RECALL,
    ),
    Operation(
        "index",
        "Bring the index up to date with the vault; tells what was added, changed and removed.",
        IndexRequest,
        IndexReply,
        index,
        Changes.NOTHING,
        Group.CARE,
    ),
    Operation(
        "inspect",
        "Say why a note is, or is not, found: when indexed, which rule or problem, what it holds.",
        InspectRequest,
        InspectReply,
        inspect,
        Changes.NOTHING,
        Group.CARE,
    ),
    Operation(
        "lint",
        "List links that lead nowhere or could mean several notes, orphans, and notes with faults.",
        LintRequest,
        LintReply,
        lint,
        Changes.NOTHING,
        Group.CARE,
    ),
    Operation(
        "secrets",
        "List credentials found in notes: note, line, kind and fingerprint, never the credential.",
        SecretsRequest,
        SecretsReply,
        secrets,
        Changes.NOTHING,
        Group.CARE,
    ),
    Operation(
        "allow_secret",
        "Let text through that only looks like a credential, by fingerprint; a person decides.",
        AllowRequest,
        AllowReply,
        allow_secret,
        Changes.STATE,
        Group.CARE,
    ),
    Operation(
        "evaluate",
        "Ask questions whose notes are known: how far up these are found, and by which channels.",
        EvaluateRequest,
        EvaluateReply,
        evaluate,
        Changes.NOTHING,
        Group.CARE,
    ),
)
