"""Properties as Obsidian sees them: when a block counts, and what its values are.

Obsidian reads YAML 1.2 core: `no` and `2024-03-05` are texts, `0123` is 123, `<<` is a key like
any other, and a key given twice makes the block invalid.
"""

import re
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.model.note import Frontmatter, Problem

if TYPE_CHECKING:
    from frontmatter.default_handlers import YAMLHandler
    from yaml import Node, ScalarNode

# An alias bomb loads in an instant and never ends when it is walked: bound the walk, not the load.
MAX_BLOCK_CHARS = 64 * 1024
MAX_NODES = 25_000
MAX_DEPTH = 20
MAX_NUMBER_CHARS = 1000

# Blanks may stand behind the closing fence only.
_OPENING = "---\n"
_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)

# Characters that PyYAML refuses, or takes for line ends as YAML 1.1 did: carried through loading
# as private ones.
_SPECIAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f]")
# The last plane: icon fonts live in the one before it.
_PRIVATE = 0x100000
_CARRIED = re.compile("[􀀀-􀀟􀁿-􀂟􂀨􂀩􏿾􏿿]")

# Half of a character, which an escape can name and no file can hold.
_HALF = re.compile("[\ud800-\udfff]")

# Tabs that YAML 1.2 takes for blanks and PyYAML does not: on a blank line, before a comment, behind
# a dash.
_BLANK_TABS = re.compile(r"^[ \t]*\t[ \t]*(?=#|$)", re.MULTILINE)
_TAB_BEHIND_DASH = re.compile(r"^((?: *-)+)[ ]*\t[ \t]*(?=[^\s-])", re.MULTILINE)

# What stands in place of a secret, and what its brackets are while YAML is read.
_PLACEHOLDERS = {
    "secret": re.compile(r"\[(secret:[\w-]+)\]"),
    "private": re.compile(r"\[(private)\]"),
}
_OPEN, _CLOSE = "\U0010fff0", "\U0010fff1"

# What only vaultmem writes, and only into notes of its own.
OWN_KEY = "vaultmem"

ABSENT = Frontmatter(exists=False, valid=True, properties={}, text="", lines=0, end=0)


def read_frontmatter(
    path: str, text: str, *, placeholders: frozenset[str] = frozenset()
) -> tuple[Frontmatter, tuple[Problem, ...]]:
    """The properties block of a note; `text` has no BOM and only `\\n` line ends.

    placeholders: what stands in place of something that was kept out of the text, `secret` or
                  `private`; else `[private]` is a list of one word.

    Never raises. A block that is no mapping, or no YAML, leaves the note without properties and
    one problem that names the line.
    """
    closed = _closing(text)
    if closed is None:
        return ABSENT, ()
    block = text[len(_OPENING) : closed.start()]
    end = min(closed.end() + 1, len(text))
    lines = text.count("\n", 0, closed.start()) + 1
    properties, problem = _load(path, block, placeholders=placeholders)
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


def frontmatter_block(text: str) -> str | None:
    """What stands between the fences at the top of a note; None where there are none."""
    closed = _closing(text)
    return None if closed is None else text[len(_OPENING) : closed.start()]


def frontmatter_lines(text: str) -> int:
    """How many lines the block takes, its fences included."""
    closed = _closing(text)
    return 0 if closed is None else text.count("\n", 0, closed.start()) + 1


def _closing(text: str) -> re.Match[str] | None:
    return _CLOSING.search(text, len(_OPENING)) if text.startswith(_OPENING) else None


def _load(
    path: str, block: str, *, placeholders: frozenset[str]
) -> tuple[dict[str, object] | None, Problem | None]:
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
        loaded = _load_yaml(block, placeholders=placeholders)
    except Exception as error:  # noqa: BLE001 - ValueError, RecursionError and more; see below
        # PyYAML raises six kinds on hostile blocks; whatever it is, the body is indexed anyway.
        line, reason = _explain(error)
        return None, Problem(
            path,
            line + 2,
            "frontmatter-invalid",
            f"The properties are not valid YAML ({reason}); the text is indexed without them.",
        )
    properties = loaded.value
    if properties is None:
        return {}, None
    if isinstance(properties, dict):
        return properties, _oddity(path, block, loaded, properties)
    if properties is _TOO_LARGE:
        return None, Problem(
            path,
            1,
            "frontmatter-too-large",
            f"The properties expand to more than {MAX_NODES:,} values or {MAX_DEPTH} levels; "
            "the text is indexed without them.",
        )
    return None, Problem(
        path,
        1,
        "frontmatter-not-a-mapping",
        f"The properties block holds a {_SHAPES[type(properties)]}, not `key: value` lines; "
        "the text is indexed without it.",
    )


def _oddity(
    path: str, block: str, loaded: "_Loaded", properties: dict[str, object]
) -> Problem | None:
    """What is odd about properties that were understood all the same; the first thing only."""
    control = _FORBIDDEN.search(block)
    if control is not None:
        line = block.count("\n", 0, control.start()) + 2
        message = (
            f"The properties hold the control character \\x{ord(control.group()):02x}, which YAML "
            "forbids; it is left in place."
        )
        return Problem(path, line, "property-invalid", message)
    if loaded.odd is not None:
        return Problem(path, loaded.odd[0] + 2, "property-invalid", loaded.odd[1])
    if OWN_KEY in properties:
        line = next((n for n, row in enumerate(block.split("\n"), 2) if OWN_KEY in row), 1)
        message = (
            f"The property {OWN_KEY} is for notes that vaultmem manages; here it does nothing."
        )
        return Problem(path, line, "own-key", message)
    return None


def _load_yaml(block: str, *, placeholders: frozenset[str]) -> "_Loaded":
    import yaml

    carried = _SPECIAL.sub(lambda found: chr(_PRIVATE + ord(found.group())), block)
    for name in placeholders:  # they are texts, not lists
        carried = _PLACEHOLDERS[name].sub(f"{_OPEN}\\1{_CLOSE}", carried)
    loaded: _Loaded
    try:
        loaded = _handler().load(carried)
    except yaml.YAMLError:
        spaced = _TAB_BEHIND_DASH.sub(r"\1 ", _BLANK_TABS.sub("", carried))
        if spaced == carried:
            raise
        loaded = _handler().load(spaced)
    return loaded


def _key(key: object) -> str:
    """Every key as text, as JavaScript spells it; a `null` or empty one is the empty text."""
    if isinstance(key, str):
        return key
    if key is None:
        return ""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(int(key) if isinstance(key, float) and key.is_integer() else key)


def _flow(node: "Node") -> str:
    """A list or mapping that is a key, as text: `{{date}}` of a template is the key `{ date }`."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        parts = [_flow(part) for part in node.value]
        return f"[ {', '.join(parts)} ]" if parts else "[]"
    if isinstance(node, yaml.MappingNode):
        parts = [
            f"{_flow(key)}: {_flow(value)}" if value.value else _flow(key)
            for key, value in node.value
        ]
        return f"{{ {', '.join(parts)} }}" if parts else "{}"
    return str(node.value)


def _explain(error: Exception) -> tuple[int, str]:
    """(0-based line within the block, reason) of a loading failure."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None)
    line = mark.line if mark is not None else 0
    reason = problem if isinstance(problem, str) else type(error).__name__
    return line, " ".join(reason.split())[:120]


@cache
def _handler() -> "YAMLHandler":
    """python-frontmatter's YAML handler, loading by YAML 1.2 core rules into plain JSON values."""
    import frontmatter.default_handlers as handlers

    loader = _loader()

    class Yaml12Handler(handlers.YAMLHandler):
        def load(self, fm: str, **kwargs: object) -> Any:
            return super().load(fm, Loader=loader)

    return Yaml12Handler()


# What loading gives for a block that is too much to walk.
_TOO_LARGE = object()


_SHAPES = {list: "list", str: "text", int: "number", float: "number", bool: "truth value"}


class _Loaded(NamedTuple):
    value: object
    odd: tuple[int, str] | None  # 0-based line within the block, and what is odd there


_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {
    word: value
    for value, words in ((True, ("true", "True", "TRUE")), (False, ("false", "False", "FALSE")))
    for word in words
}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_TAG = "tag:yaml.org,2002:"
# Tags of YAML 1.1 whose values are shown as they are written.
_AS_WRITTEN = frozenset(_TAG + name for name in ("binary", "timestamp", "set", "omap", "pairs"))


@cache
def _loader() -> type:
    """A loader (libyaml's where it is there) that turns nodes into plain values itself.

    It constructs nothing but JSON values, so no tag can run code, and it counts while it walks.
    """
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Core12Loader(base):  # type: ignore[misc, valid-type]
        def get_single_data(self) -> _Loaded:
            node = self.get_single_node()
            self.odd: tuple[int, str] | None = None
            if node is None:
                return _Loaded(None, None)
            self.nodes = 0
            self.chars = 0
            value = self.plain(node, 0)
            return _Loaded(_TOO_LARGE if self.nodes > MAX_NODES else value, self.odd)

        def note(self, node: yaml.Node, message: str) -> None:
            if self.odd is None:
                self.odd = (node.start_mark.line, message)

        def resolve(self, kind: type, value: str, implicit: object) -> str:
            if kind is yaml.ScalarNode:
                plain = isinstance(implicit, tuple) and implicit[0]
                return _TAG + (_core_type(value) if plain else "str")
            return _TAG + ("seq" if kind is yaml.SequenceNode else "map")

        def plain(self, node: yaml.Node, depth: int) -> object:
            self.nodes += 1
            if depth > MAX_DEPTH:
                self.nodes = MAX_NODES + 1
            if self.nodes > MAX_NODES:
                return None
            if isinstance(node, yaml.ScalarNode):
                if node.tag == _TAG + "int" and len(node.value) > MAX_NUMBER_CHARS:
                    self.note(node, f"A number of {len(node.value):,} digits is kept as text.")
                return self.scalar(node)
            if isinstance(node, yaml.SequenceNode):
                _known(node, ("seq",))
                return [self.plain(part, depth + 1) for part in node.value]
            _known(node, ("map",))
            mapping: dict[str, object] = {}
            for key_node, value_node in node.value:
                if isinstance(key_node, yaml.ScalarNode):
                    key = _key(self.scalar(key_node))
                else:
                    self.plain(key_node, depth + 1)  # counts it
                    if depth == 0 and not _is_template(key_node):
                        self.note(key_node, "A list or a mapping stands where a name is expected.")
                    key = _flow(key_node) if self.nodes <= MAX_NODES else ""
                if self.nodes > MAX_NODES:
                    return None
                if key in mapping:
                    raise _refused(key_node, f"the key {key[:40]!r} is given twice")
                mapping[key] = self.plain(value_node, depth + 1)
            return mapping

        def scalar(self, node: yaml.ScalarNode) -> object:
            # A long text that is referred to a thousand times is a thousand long texts, be it a
            # value or a key.
            self.chars += len(node.value)
            if self.chars > MAX_BLOCK_CHARS:
                self.nodes = MAX_NODES + 1
                return None
            return _scalar(node)

    return Core12Loader


def _is_template(node: "Node") -> bool:
    """Whether a key is a template's `{{title}}`, which is a mapping of mappings without values."""
    import yaml

    return isinstance(node, yaml.MappingNode) and not any(value.value for _, value in node.value)


def _core_type(text: str) -> str:
    """The YAML 1.2 core type of an unquoted scalar."""
    if text in _NULL:
        return "null"
    if text in _BOOL:
        return "bool"
    # Numbers begin with one of these; nearly every text does not.
    if text[0] in "0123456789+-.":
        if _INT.fullmatch(text):
            return "int"
        if _FLOAT.fullmatch(text):
            return "float"
    return "str"


def _scalar(node: "ScalarNode") -> object:
    text = _CARRIED.sub(lambda found: chr(ord(found.group()) - _PRIVATE), str(node.value))
    if _HALF.search(text):
        # libyaml refuses these itself; PyYAML's own parser lets them through.
        raise _refused(node, "found invalid Unicode character escape code")
    if _OPEN in text:
        text = text.replace(_OPEN, "[").replace(_CLOSE, "]")
    match node.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool" if text in _BOOL:
            return _BOOL[text]
        case "int" if _INT.fullmatch(text):
            # Beyond this, Python refuses to print what it could read.
            return _int(text) if len(text) <= MAX_NUMBER_CHARS else text
        case "float" if _FLOAT.fullmatch(text):
            if text[-1] in "fFnN":
                return text.lower()  # JSON has no infinity and no NaN
            number = float(text)
            return number if isfinite(number) else text
    _known(node, ())
    return text


def _int(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _known(node: "Node", types: tuple[str, ...]) -> None:
    """Refuse a tag of YAML's own that asks for something else than plain values.

    A tag of the person's own (`!note`) says nothing that is known, and is overlooked.
    """
    if not node.tag.startswith((_TAG, "tag:")):
        return
    if node.tag.removeprefix(_TAG) not in types and node.tag not in _AS_WRITTEN:
        raise _refused(node, f"the tag {node.tag[:60]} is not supported")


def _refused(node: "Node", problem: str) -> Exception:
    import yaml

    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
