"""The figures of an evaluation as text for people. Returns text; prints nothing."""

from collections.abc import Iterator, Sequence

from vaultmem.service.operations.evaluate import Change, Compared, EvaluateReply, Figures, Remark
from vaultmem.surfaces.text import visible_line

MAX_REMARKS = 20
NAME_WIDTH = 26

HEADINGS = ("n", "MRR", "hit@1", "hit@5", "hit@10", "nDCG@10")
COLUMNS = "{:<26} {:>6} {:>7} {:>7} {:>7} {:>7} {:>8}"
CHANGES = "{:<26} {:>7} {:<25} {:>8} {:<25}"


def render_eval(reply: EvaluateReply) -> str:
    """The figures in all and by kind, then what the other ways of searching change."""
    noun = "question" if reply.n == 1 else "questions"
    lines = [f"! {reason}" for reason in reply.degraded]
    lines += _remarks("left out", reply.source, reply.skipped)
    lines += _remarks("not in the vault", reply.source, reply.missing)
    lines += [
        f"{reply.n:,} {noun} of {reply.source}, mode {reply.mode} ({reply.seconds:.1f} s)",
        "",
        COLUMNS.format("", *HEADINGS),
        _figures("all", reply),
    ]
    lines += [_figures(f"  {kind}", figures) for kind, figures in reply.by_kind.items()]
    if reply.variants:
        lines += ["", "Asked in other ways, and the change with its 95 % interval:", ""]
        lines.append(CHANGES.format("", "MRR", "", "nDCG@10", "").rstrip())
        lines += [_compared(variant) for variant in reply.variants]
    lines += [""] if reply.unavailable else []
    lines += [f"Not measured: {name}. {reason}" for name, reason in reply.unavailable.items()]
    return "\n".join(visible_line(line) for line in lines)


def _figures(name: str, figures: Figures | EvaluateReply) -> str:
    means = (figures.mrr, figures.hit_1, figures.hit_5, figures.hit_10, figures.ndcg_10)
    return COLUMNS.format(_cut(name), f"{figures.n:,}", *(f"{value:.3f}" for value in means))


def _compared(compared: Compared) -> str:
    figures, changes = compared.figures, compared.changes
    return CHANGES.format(
        _cut(compared.name),
        f"{figures.mrr:.3f}",
        _change(changes["mrr"]),
        f"{figures.ndcg_10:.3f}",
        _change(changes["ndcg@10"]),
    ).rstrip()


def _change(change: Change) -> str:
    return f"{change.change:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"


def _cut(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"


def _remarks(what: str, source: str, remarks: Sequence[Remark]) -> Iterator[str]:
    for remark in remarks[:MAX_REMARKS]:
        yield f"! {source}:{remark.line}: {what}: {remark.message}"
    if len(remarks) > MAX_REMARKS:
        yield f"! {len(remarks) - MAX_REMARKS:,} more {what} (--json has all)"
