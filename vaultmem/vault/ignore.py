"""Which notes stay out of search, and by which rule.

An excluded note still exists for links: Obsidian resolves links to excluded files too.
"""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

from vaultmem.model.note import Problem
from vaultmem.vault.javascript import Expression, NoExpression, compile_expression
from vaultmem.vault.obsidian import ObsidianSettings

# What a message shows of a rule.
MAX_RULE_CHARS = 200

# Copies that sync services make when two devices wrote at once.
_CONFLICT_COPIES = re.compile(
    r"\.sync-conflict-\d{8}-\d{6}"
    r"|\((?:[^/]{0,100}['’]s )?conflicted copy\b(?:[^()/]*+\([^()/]*+\))*+"
    r"(?=[^()/]*?\d{4})[^()/]*+\)"
    r"|\(SFConflict (?=[^()/]*?\d{4})[^()/]*+\)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Compiled rules; `reason` tells which one excludes a vault path."""

    globs: tuple[tuple[str, re.Pattern[str]], ...]
    prefixes: tuple[str, ...]
    expressions: tuple[tuple[str, Expression], ...]

    def reason(self, path: str) -> str | None:
        """The rule that keeps `path` out of search, in words; None when none does."""
        if _CONFLICT_COPIES.search(path):
            return "conflict copy made by a sync service"
        for prefix in self.prefixes:
            if path.startswith(prefix):
                return f"Obsidian's excluded files: {prefix}"
        for source, expression in self.expressions:
            if expression.holds(path):
                return f"Obsidian's excluded files: {source}"
        for source, glob in self.globs:
            if glob.match(path):
                return f"setting scan.ignore: {source}"
        return None


def compile_rules(
    obsidian: ObsidianSettings, globs: Iterable[str]
) -> tuple[IgnoreRules, tuple[Problem, ...]]:
    """The rules of a vault, and a problem for each that is no rule or is taken to mean more.

    An expression comes from the vault, so it runs on RE2, whose time is linear. What RE2 does not
    know is dropped from it, and then it excludes more than Obsidian does, never less: a note that
    somebody keeps out of search must not come up there because a rule was hard to read.
    globs: of the setting scan.ignore.
    """
    problems = list(obsidian.problems)
    prefixes: list[str] = []
    expressions: list[tuple[str, Expression]] = []
    for source in obsidian.excluded:
        if not (len(source) > 2 and source.startswith("/") and source.endswith("/")):
            prefixes.append(source)
            continue
        shown = source[:MAX_RULE_CHARS]
        try:
            expression = compile_expression(source[1:-1])
        except NoExpression as error:
            # It is none in Obsidian either, and excludes nothing there.
            code = "ignore-rule-invalid"
            message = (
                f"The excluded-files rule {shown} is no regular expression ({error}); "
                "it excludes nothing here."
            )
        else:
            expressions.append((source, expression))
            if not expression.wider:
                continue
            code = "ignore-rule-widened"
            message = (
                f"The excluded-files rule {shown} cannot be followed exactly ({expression.wider}); "
                "whatever it may mean is left out of search, which can be more than Obsidian "
                "leaves out. Write it without these, or name a folder."
            )
        problems.append(Problem(f"{obsidian.folder}/app.json", 0, code, message))
    compiled = tuple((glob, _compile_glob(glob)) for glob in globs)
    return IgnoreRules(compiled, tuple(prefixes), tuple(expressions)), tuple(problems)


def _compile_glob(glob: str) -> re.Pattern[str]:
    """A glob matches the whole path; one without a slash also matches a folder or a name."""
    # Python translates each star but the last to an atomic group, so that none is tried again.
    pattern = fnmatch.translate(glob.rstrip("/"))
    if "/" in glob.rstrip("/"):
        return re.compile(f"(?:{pattern}|{fnmatch.translate(glob.rstrip('/') + '/*')})")
    below = fnmatch.translate("*/" + glob.rstrip("/"))
    inside = fnmatch.translate(glob.rstrip("/") + "/*")
    deep = fnmatch.translate("*/" + glob.rstrip("/") + "/*")
    return re.compile(f"(?:{pattern}|{below}|{inside}|{deep})")
