"""Properties as Obsidian sees them: when a block counts, and what its values are.

Obsidian reads YAML 1.2 core: `no` and `2024-03-05` are texts, `0123` is 123, `<<` is a key like
any other, and a key given twice makes the block invalid.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from vaultmem.model.note import Frontmatter, Problem

if TYPE_CHECKING:
    from frontmatter.default_handlers import YAMLHandler

# An alias bomb loads in an instant and never ends when it is walked: bound the walk, not the load.
MAX_BLOCK_CHARS = 64 * 1024
MAX_NODES = 10_000
MAX_DEPTH = 20

_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)

ABSENT = Frontmatter(exists=False, valid=True, properties={}, text="", lines=0, end=0)


def read_frontmatter(path: str, text: str) -> tuple[Frontmatter, tuple[Problem, ...]]:
    """The properties block of a note; `text` has no BOM and only `\\n` line ends.

    Never raises. A block that is no mapping, or no YAML, leaves the note without properties and
    one problem that names the line.
    """
    if not text.startswith("---"):
        return ABSENT, ()
    opened = text.find("\n")
    if opened < 0 or text[3:opened].strip(" \t"):
        return ABSENT, ()
    closed = _CLOSING.search(text, opened + 1)
    if closed is None:
        return ABSENT, ()
    block = text[opened + 1 : closed.start()]
    end = min(closed.end() + 1, len(text))
    lines = text.count("\n", 0, closed.start()) + 1
    properties, problem = _load(path, block)
    return (
        Frontmatter(
            exists=True,
            valid=properties is not None,
            properties=properties or {},
            text=block,
            lines=lines,
            end=end,
        ),
        (problem,) if problem else (),
    )


def _load(path: str, block: str) -> tuple[dict[str, object] | None, Problem | None]:
    if len(block) > MAX_BLOCK_CHARS:
        return None, Problem(
            path,
            1,
            "frontmatter-too-large",
            f"The properties block has {len(block):,} characters, more than {MAX_BLOCK_CHARS:,}; "
            "it is searched as text, without properties.",
        )
    if not block.strip():
        return {}, None
    try:
        loaded: object = _handler().load(block)
    except Exception as error:  # noqa: BLE001 - ValueError, RecursionError and more; see below
        # PyYAML raises six kinds on hostile blocks; whatever it is, the body is indexed anyway.
        line, reason = _explain(error)
        return None, Problem(
            path,
            line + 2,
            "frontmatter-invalid",
            f"The properties are not valid YAML ({reason}); the text is indexed without them.",
        )
    if loaded is None:
        return {}, None
    if not isinstance(loaded, dict):
        return None, Problem(
            path,
            1,
            "frontmatter-not-a-mapping",
            f"The properties block holds a {type(loaded).__name__}, not `key: value` lines; "
            "the text is indexed without it.",
        )
    plain = _Plain()
    properties = {_key(key): plain.value(value, 1) for key, value in loaded.items()}
    if plain.nodes > MAX_NODES or plain.too_deep:
        return None, Problem(
            path,
            1,
            "frontmatter-too-large",
            f"The properties expand to more than {MAX_NODES:,} values or {MAX_DEPTH} levels; "
            "the text is indexed without them.",
        )
    return properties, None


class _Plain:
    """Copies loaded YAML into plain JSON values, counting nodes so that a bomb stays small."""

    def __init__(self) -> None:
        self.nodes = 0
        self.too_deep = False

    def value(self, value: object, depth: int) -> object:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            return None
        if depth > MAX_DEPTH:
            self.too_deep = True
            return None
        if isinstance(value, list):
            return [self.value(part, depth + 1) for part in value[: MAX_NODES + 1]]
        if isinstance(value, dict):
            return {_key(key): self.value(part, depth + 1) for key, part in value.items()}
        if isinstance(value, float) and value - value != 0:
            return str(value)  # JSON has no infinity and no NaN
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return str(value)


def _key(key: object) -> str:
    """Obsidian shows every key as text, `null` and `true` included."""
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _explain(error: Exception) -> tuple[int, str]:
    """(0-based line within the block, reason) of a loading failure."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None)
    line = mark.line if mark is not None else 0
    reason = problem if isinstance(problem, str) else type(error).__name__
    return line, " ".join(reason.split())[:120]


@cache
def _handler() -> "YAMLHandler":
    """python-frontmatter's YAML handler, loading by YAML 1.2 core rules."""
    import frontmatter.default_handlers as handlers

    loader = _loader()

    class Yaml12Handler(handlers.YAMLHandler):
        def load(self, fm: str, **kwargs: object) -> Any:
            return super().load(fm, Loader=loader)

    return Yaml12Handler()


@cache
def _loader() -> type:
    """A safe loader (libyaml's where it is there) with the YAML 1.2 core schema."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Core12Loader(base):  # type: ignore[misc, valid-type]
        yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

        def flatten_mapping(self, node: object) -> None:
            """Merge keys are YAML 1.1; here `<<` is a key like any other."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            mapping: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                key = self.construct_object(key_node, deep=True)
                try:
                    twice = key in mapping
                except TypeError:
                    raise yaml.constructor.ConstructorError(
                        None, None, "a key is a list or a mapping", key_node.start_mark
                    ) from None
                if twice:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {str(key)[:40]!r} is given twice", key_node.start_mark
                    )
                mapping[key] = self.construct_object(value_node, deep=deep)
            return mapping

        def construct_core_int(self, node: yaml.ScalarNode) -> int:
            value = str(self.construct_scalar(node))
            if value.startswith("0o"):
                return int(value[2:], 8)
            if value.startswith("0x"):
                return int(value[2:], 16)
            return int(value)

        def construct_core_float(self, node: yaml.ScalarNode) -> float:
            value = str(self.construct_scalar(node)).lower()
            if value.endswith(".inf"):
                return float("-inf") if value.startswith("-") else float("inf")
            return float("nan") if value == ".nan" else float(value)

        def construct_core_bool(self, node: yaml.ScalarNode) -> bool:
            return str(self.construct_scalar(node)).lower() == "true"

    def add(tag: str, pattern: str, first: str) -> None:
        Core12Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)

    add("null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
    Core12Loader.yaml_implicit_resolvers.setdefault("", []).append(
        ("tag:yaml.org,2002:null", re.compile(r"^$"))
    )
    add("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
    add("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789")
    add(
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    )
    Core12Loader.add_constructor("tag:yaml.org,2002:int", Core12Loader.construct_core_int)
    Core12Loader.add_constructor("tag:yaml.org,2002:float", Core12Loader.construct_core_float)
    Core12Loader.add_constructor("tag:yaml.org,2002:bool", Core12Loader.construct_core_bool)
    return Core12Loader
