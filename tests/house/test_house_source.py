"""Rules that every source file keeps, read from its syntax tree."""

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "vaultmem"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_there_is_source_to_judge() -> None:
    assert len(SOURCES) > 40


# Files are opened, made and removed in few places

# (module -> calls): vault/read.py reads notes, vault/watch.py what the system says of this process;
# minilm.py, multilingual.py and wordpiece.py their models, security/rulebook.py its rules; the
# others write the sidecar, the cache of embeddings and its copy, what a person allowed, how far a
# watcher is, the file that starts it at login, the configuration of clients, the demonstration's
# copy and the doctor's probe. The command line opens the null device when its reader has gone.
TOUCHING_FILES = {
    "vault/read.py": {"os.open"},
    "vault/watch.py": {"os.open"},
    "index/store.py": {"apsw.Connection", ".mkdir", ".open", ".replace", ".rmdir", ".unlink"},
    "index/lock.py": {"os.open"},
    "index/steps.py": {"apsw.Connection"},  # of memory, to load an extension
    "index/watch_state.py": {"os.open", "os.replace", ".unlink"},
    "embedding/cache.py": {"apsw.Connection", ".rmdir", ".unlink"},
    "embedding/file_system.py": {".read_bytes"},  # what Linux says of its mounts
    "embedding/journal_mode.py": {"apsw.Connection", "apsw.VFSFile"},
    "embedding/matrix.py": {".open", ".unlink"},
    "embedding/minilm.py": {".open"},
    "embedding/multilingual.py": {".open"},
    "embedding/wordpiece.py": {".read_text"},
    "security/rulebook.py": {".read_text"},
    "service/allowed_secrets.py": {".read_text"},
    "service/background.py": {
        *(".mkdir", ".read_bytes", ".replace", ".unlink", "os.open"),
        *("subprocess.list2cmdline", "subprocess.run"),
    },
    "service/by_hand.py": {"subprocess.list2cmdline"},
    "service/client_config_backups.py": {".read_bytes", ".unlink"},
    "service/client_config_file.py": {
        *(".hardlink_to", ".mkdir", ".open", ".replace", ".rmdir", ".unlink", "os.open"),
    },
    "service/demo.py": {"shutil.copytree", "tempfile.TemporaryDirectory"},
    "service/doctor.py": {"tempfile.TemporaryFile"},
    "service/http_token.py": {"os.open"},
    "service/state_file.py": {".hardlink_to", ".mkdir", ".replace", ".unlink", "os.open"},
    # The copies and notes of its own that `selftest` plays with.
    "service/selftest_bench.py": {".mkdir", ".rmdir", "tempfile.mkdtemp"},
    "service/selftest_children.py": {".open", ".read_text", "subprocess.Popen"},
    "service/selftest_edits.py": {
        *(".mkdir", ".open", ".read_bytes", ".rename", ".replace", ".unlink", ".write_bytes"),
        *(".write_text", "os.utime", "shutil.copytree", "shutil.rmtree"),
    },
    "service/server_check.py": {"subprocess.Popen"},
    "surfaces/cli.py": {"os.open"},
    "surfaces/cli_mcp.py": {"open"},  # the null device
    "surfaces/mcp_stdio.py": {"os.open"},  # likewise
}

OS_CALLS = {
    "open", "creat", "mkdir", "makedirs", "remove", "unlink", "rename", "renames", "replace",
    "rmdir", "removedirs", "truncate", "link", "symlink", "chmod", "utime", "mkfifo", "mknod",
    "popen", "system",
}  # fmt: skip
PATH_METHODS = {
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "rmdir", "unlink",
    "touch", "rename", "chmod", "symlink_to", "hardlink_to",
}  # fmt: skip
BY_SQLITE = {"apsw.Connection", "apsw.VFSFile"}
LOOKING = {"shutil.disk_usage", "shutil.which"}


def file_calls(source: str) -> set[str]:
    """The calls of a module that open, make, change or remove a file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil", "tempfile"):
            found |= {f"from {node.module} import {alias.name}" for alias in node.names}
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            found.add("open")
        if not isinstance(function, ast.Attribute):
            continue
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        called = f"{owner}.{function.attr}"
        if owner == "os":
            found |= {called} if function.attr in OS_CALLS else set()
        elif owner in ("shutil", "tempfile", "io", "subprocess") or called in BY_SQLITE:
            found.add(called)
        elif function.attr in PATH_METHODS:
            found.add("." + function.attr)
        elif function.attr == "replace" and len(node.args) == 1 and not node.keywords:
            found.add(".replace")  # of a path: texts have two arguments, dates and values keywords
    return found - LOOKING


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_only_the_known_places_touch_files(path: Path) -> None:
    known = TOUCHING_FILES.get(name_of(path), set())
    assert file_calls(path.read_text("utf-8")) - known == set()


def test_every_known_place_still_touches_files() -> None:
    for name, calls in TOUCHING_FILES.items():
        assert file_calls((PACKAGE / name).read_text("utf-8")) == calls


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("open('x')", "open"),
        ("import os\nos.open('x', 0)", "os.open"),
        ("import os\nos.replace(a, b)", "os.replace"),
        ("from os import unlink", "from os import unlink"),
        ("import shutil\nshutil.rmtree(x)", "shutil.rmtree"),
        ("path.write_bytes(b'')", ".write_bytes"),
        ("(folder / 'x').unlink()", ".unlink"),
        ("path.open('w')", ".open"),
        ("path.replace(other)", ".replace"),
        ("import apsw\napsw.Connection(':memory:')", "apsw.Connection"),
        ("import apsw\napsw.VFSFile('', 'x', [1, 0])", "apsw.VFSFile"),
    ],
)
def test_a_call_that_touches_a_file_is_noticed(source: str, call: str) -> None:
    assert file_calls(source) == {call}


def test_text_and_dates_are_not_taken_for_files() -> None:
    assert file_calls("'a'.replace('a', 'b'); day.replace(month=1); replace(note, path=x)") == set()


def test_the_door_into_the_vault_only_reads() -> None:
    tree = ast.parse((PACKAGE / "vault/read.py").read_text("utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    flags = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    writing = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC", "write"}
    assert "O_RDONLY" in used
    assert (used | flags) & writing == set()


def test_the_command_line_opens_nothing_but_the_null_device() -> None:
    tree = ast.parse((PACKAGE / "surfaces/cli.py").read_text("utf-8"))
    opened = [
        ast.unparse(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.open"
    ]
    assert set(opened) == {"os.devnull"}


# Nothing is swallowed


def comment_lines(source: str) -> set[int]:
    return {
        token.start[0]
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }


def swallowing(source: str) -> list[int]:
    """Lines of handlers that catch everything unsaid, or do nothing and give no reason."""
    comments = comment_lines(source)
    lines: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = ast.unparse(node.type) if node.type is not None else ""
        raises = any(isinstance(part, ast.Raise) for part in ast.walk(node))
        acts = any(
            isinstance(part, ast.Raise | ast.Return | ast.Assign | ast.AugAssign | ast.Call)
            for statement in node.body
            for part in ast.walk(statement)
        )
        lines_of_it = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        reasoned = any(line in comments for line in lines_of_it)
        broad = caught in ("Exception", "BaseException")
        if node.type is None or (broad and not (raises or reasoned)) or not (acts or reasoned):
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_exception_is_swallowed(path: Path) -> None:
    assert swallowing(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("body", "swallows"),
    [
        ("except:\n    raise", True),
        ("except:  # all of it\n    return 1", True),
        ("except OSError:\n    pass", True),
        ("except OSError:\n    continue", True),
        ("except Exception:\n    x = 1", True),
        ("except OSError:\n    ...", True),
        ("except OSError:\n    pass  # gone already", False),
        ("except OSError:\n    # the next one may be there\n    continue", False),
        ("except OSError as error:\n    raise Problem(error)", False),
        ("except OSError:\n    return None", False),
        ("except BaseException:\n    undo()\n    raise", False),
    ],
)
def test_a_swallowed_exception_is_noticed(body: str, swallows: bool) -> None:
    handler = body.replace("\n", "\n        ")
    source = f"def f():\n    for x in y:\n        try:\n            g()\n        {handler}\n"
    assert bool(swallowing(source)) is swallows


# Docstrings


def undocumented(source: str) -> list[str]:
    """The module and the public classes, functions and methods without a docstring."""
    tree = ast.parse(source)
    missing = [] if ast.get_docstring(tree) else ["the module"]
    missing += [name for name, node in public(tree) if not ast.get_docstring(node)]
    return missing


Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public(scope: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Documented]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.If):
            yield from public(ast.Module(body=[*node.body, *node.orelse], type_ignores=[]))
        if isinstance(node, Documented) and not node.name.startswith("_"):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                yield from ((f"{node.name}.{name}", part) for name, part in public(node))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_everything_public_says_what_it_is(path: Path) -> None:
    assert undocumented(path.read_text("utf-8")) == []


def test_a_missing_docstring_is_noticed() -> None:
    source = (
        "class A:\n    'doc'\n    def f(self): ...\n    def _g(self): ...\n"
        "if x:\n    def h(): ...\nclass _B: ...\n"
    )
    assert undocumented(source) == ["the module", "A.f", "h"]


# SQL

SQL = re.compile(
    r"\bSELECT\b|\bINSERT (OR \w+ )?INTO\b|\bDELETE FROM\b|\bUPDATE \w+ SET\b|\bPRAGMA\b|\bMATCH\b|"
    r"\b(CREATE|DROP|ALTER) (VIRTUAL )?(TABLE|INDEX)\b|\bBEGIN IMMEDIATE\b|\bROLLBACK\b|\bCOMMIT\b"
)


def sql(source: str) -> list[str]:
    """The keywords of SQL in a module's texts, docstrings left out."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | Documented)
        and ast.get_docstring(node)
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        match[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        for match in [SQL.search(node.value)]
        if match is not None
    ]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in SOURCES
        if path.parent.name != "index"
        and name_of(path) not in ("embedding/cache.py", "embedding/journal_mode.py")
    ],
    ids=name_of,
)
def test_only_the_index_and_the_cache_of_embeddings_speak_sql(path: Path) -> None:
    assert sql(path.read_text("utf-8")) == []


def test_sql_is_noticed() -> None:
    assert sql((PACKAGE / "index/lookup.py").read_text("utf-8"))
    assert sql("'A docstring with SELECT'\nx = 'to select from'\n") == []
    assert sql("x = f'DELETE FROM {table}'\n") == ["DELETE FROM"]


# State


def test_no_module_does_work_or_keeps_state_on_import() -> None:
    allowed = (
        ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
        ast.Assign, ast.AnnAssign, ast.If, ast.Expr,
    )  # fmt: skip
    strange: list[str] = []
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            calls = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
            if calls or not isinstance(node, allowed):
                strange.append(f"{name_of(path)}:{node.lineno}")
        strange += [
            f"{name_of(path)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Global)
        ]
    assert strange == []
