"""Which notes stay out of search, and by which rule.

An excluded note still exists for links: Obsidian resolves links to excluded files too.
"""

import fnmatch
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from vaultmem.model.note import Problem
from vaultmem.vault.obsidian import ObsidianSettings

# What a message shows of a rule.
MAX_RULE_CHARS = 200

# Copies that sync services make when two devices wrote at once.
_CONFLICT_COPIES = re.compile(
    r"\.sync-conflict-\d{8}-\d{6}"
    r"|\((?:[^/]{0,100}['’]s )?conflicted copy\b(?:[^()/]|\([^()/]*\))*\d{4}[^()/]*\)"
    r"|\(SFConflict [^()/]*\d{4}[^()/]*\)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Compiled rules; `reason` tells which one excludes a vault path."""

    globs: tuple[tuple[str, re.Pattern[str]], ...]
    prefixes: tuple[str, ...]
    expressions: tuple[tuple[str, re.Pattern[str]], ...]

    def reason(self, path: str) -> str | None:
        """The rule that keeps `path` out of search, in words; None when none does."""
        if _CONFLICT_COPIES.search(path):
            return "conflict copy made by a sync service"
        for prefix in self.prefixes:
            if path.startswith(prefix):
                return f"Obsidian's excluded files: {prefix}"
        for source, expression in self.expressions:
            if expression.search(path):
                return f"Obsidian's excluded files: {source}"
        for source, glob in self.globs:
            if glob.match(path):
                return f"setting scan.ignore: {source}"
        return None


def compile_rules(
    obsidian: ObsidianSettings, globs: Iterable[str]
) -> tuple[IgnoreRules, tuple[Problem, ...]]:
    """The rules of a vault, and a problem for each that is no rule.

    globs: of the setting scan.ignore.
    """
    problems = list(obsidian.problems)
    prefixes: list[str] = []
    expressions: list[tuple[str, re.Pattern[str]]] = []
    for source in obsidian.excluded:
        if len(source) > 2 and source.startswith("/") and source.endswith("/"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # JavaScript's classes read oddly in Python
                    expressions.append((source, re.compile(source[1:-1], re.IGNORECASE)))
            except (re.error, OverflowError, RecursionError) as error:
                problems.append(
                    Problem(
                        f"{obsidian.folder}/app.json",
                        0,
                        "ignore-rule-invalid",
                        f"The excluded-files rule {source[:MAX_RULE_CHARS]} is no regular "
                        f"expression ({error}); it excludes nothing here.",
                    )
                )
        else:
            prefixes.append(source)
    compiled = tuple((glob, _compile_glob(glob)) for glob in globs)
    return IgnoreRules(compiled, tuple(prefixes), tuple(expressions)), tuple(problems)


def _compile_glob(glob: str) -> re.Pattern[str]:
    """A glob matches the whole path; one without a slash also matches a folder or a name."""
    pattern = fnmatch.translate(glob.rstrip("/"))
    if "/" in glob.rstrip("/"):
        return re.compile(f"(?:{pattern}|{fnmatch.translate(glob.rstrip('/') + '/*')})")
    below = fnmatch.translate("*/" + glob.rstrip("/"))
    inside = fnmatch.translate(glob.rstrip("/") + "/*")
    deep = fnmatch.translate("*/" + glob.rstrip("/") + "/*")
    return re.compile(f"(?:{pattern}|{below}|{inside}|{deep})")
