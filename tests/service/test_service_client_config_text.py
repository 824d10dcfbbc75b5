"""One server put into and taken out of configuration files: nothing else changes, to the byte."""

import json
import tomllib
from itertools import permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vaultmem.model.errors import Refused
from vaultmem.service.client_config_text import (
    ConfigForm,
    ConfigShape,
    servers,
    with_server,
    without_server,
)
from vaultmem.service.server_entry import Put, ServerEntry

JSON = ConfigShape(ConfigForm.JSON, "mcpServers")
TOML = ConfigShape(ConfigForm.TOML, "mcp_servers")
NAME = "vaultmem"
ENTRY = ServerEntry(
    "/opt/vault mem/bin/vaultmem",
    ("--vault", '/home/mara/My "notes"\\é 日本\x7f', "mcp"),
    {"VAULTMEM_STATE_DIR": "/home/mara/state"},
)
OTHER_ENTRY = ServerEntry("C:\\vaultmem.exe", ("--vault", "D:\\Notes", "mcp"))
WRITTEN = ENTRY.written()


def add(text: str | None, shape: ConfigShape = JSON, entry: ServerEntry = ENTRY) -> str:
    edited = with_server(text, shape, NAME, Put(entry))
    assert edited.text is not None
    return edited.text


def remove(text: str | None, shape: ConfigShape = JSON) -> str | None:
    return without_server(text, shape, NAME).text


def insertion(old: str, new: str) -> str:
    """What stands in the new text at one place and in the old one nowhere."""
    ahead = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
    for start in range(ahead, -1, -1):
        if new.endswith(old[start:]) and old[:start] == new[:start]:
            return new[start : len(new) - len(old[start:])]
    raise AssertionError(f"{new!r} is not {old!r} with one insertion")


# Documents, by example

REALISTIC = """\
{
  // what Code starts
  "mcpServers": {
    /* files, two folders */
    "files": {
      "command": "npx", // from npm
      "args": ["-y", "server-files", "/tmp"],
      "env": { "API_KEY": "a-secret-of-another-server" },
    },
    "web": { "url": "https://example.org/mcp" }, // remote
  },
  "theme": "dark",
}
"""

EMPTY = ["", " ", "\n", "\r\n", " \t\n ", "\ufeff", "\ufeff\n"]
WITHOUT_TABLE = [
    "{}",
    "{}\n",
    "{ }",
    "{\n}\n",
    "{\r\n}\r\n",
    "{ // nothing yet\n}",
    "{/* nothing\nyet */}",
    "\n\n{}",
    "// ahead\n{}\n// behind",
    "\ufeff{}",
    '{"a": 1}',
    '{ "a": 1 }',
    '{"a":1,}',
    '{\n"a": 1\n}',
    '{\n\t"a": 1,\n\t"b": {"c": 2},\n}\n',
    '{\r\n    "a": 1\r\n}\r\n',
    '{ /* a\nb */ "a": 1}',
    '{ // a\n\n  "a": 1 // b\n}',
    '{\r\r\n  "a": 1}',
    '{\r  "a": 1}',
    '{"a": 1, /* { "mcpServers": {} } */ "b": "{ \\"mcpServers\\": 1 // }"}',
]
EMPTY_TABLE = [
    '{"mcpServers": {}}',
    '{"mcpServers": { }}',
    '{\n  "mcpServers": {}\n}\n',
    '{\n  "a": 1,\n  "mcpServers": {\n  }\n}\n',
    '{\n  "mcpServers": { // none\n  },\n}',
    '{\n  "mcpServers":\n  {\n    // "old": {}\n  }\n}\n',
]
WITH_OTHERS = [
    REALISTIC,
    REALISTIC.replace("\n", "\r\n"),
    REALISTIC.replace("  ", "\t").removesuffix("\n"),
    '{"mcpServers":{"a":{"command":"x"}}}',
    '{"mcpServers": { "a": {"command": "x"}, "b": {"command": "y"} }, "z": null}',
    '{"mcpServers": {\n  "a": {"command": "x"}}}',
    '{"mcpServers": { // one\n // two\n "a": {"command": "x"},\n\n}}',
    '{"mcpServers": { /* one */ "a": {"command": "x"}, /* two */ }}',
    '{"mcpServers": { /* one\n */\n /* two */ "a": {"command": "x"} // three\n}}',
]


@pytest.mark.parametrize("text", [None, *EMPTY, *WITHOUT_TABLE, *EMPTY_TABLE, *WITH_OTHERS])
def test_taking_out_what_was_put_in_gives_the_same_bytes(text: str | None) -> None:
    new = add(text)
    assert servers(new, JSON)[NAME].entry == ENTRY
    assert remove(new) == text


@pytest.mark.parametrize("text", [None, *EMPTY, *WITHOUT_TABLE, *EMPTY_TABLE, *WITH_OTHERS])
def test_putting_in_twice_is_putting_in_once(text: str | None) -> None:
    new = add(text)
    again = with_server(new, JSON, NAME, Put(ENTRY))
    assert (again.text, again.diff, again.changed) == (new, (), False)


@pytest.mark.parametrize("text", [None, *EMPTY, *WITHOUT_TABLE, *EMPTY_TABLE, *WITH_OTHERS])
def test_an_entry_that_was_changed_in_between_leaves_no_byte_either(text: str | None) -> None:
    assert remove(add(add(text), entry=OTHER_ENTRY)) == text


def test_taking_out_what_is_not_there_changes_nothing() -> None:
    for text in [None, *EMPTY, *WITHOUT_TABLE, *EMPTY_TABLE, *WITH_OTHERS]:
        edited = without_server(text, JSON, NAME)
        assert (edited.text, edited.changed) == (text, False)


def test_an_entry_goes_before_the_others_and_is_laid_out_as_they_are() -> None:
    text = '{\n\t"mcpServers": { // servers\n\t\t// the first\n\t\t"a": {"command": "x"}\n\t}\n}\n'
    entry = ServerEntry("/bin/vaultmem", ("mcp",))
    assert add(text, entry=entry) == (
        '{\n\t"mcpServers": { // servers\n'
        '\t\t"vaultmem": {\n\t\t\t"command": "/bin/vaultmem",\n\t\t\t"args": [\n\t\t\t\t"mcp"\n'
        "\t\t\t]\n\t\t},\n"
        '\t\t// the first\n\t\t"a": {"command": "x"}\n\t}\n}\n'
    )


def test_a_file_that_was_made_for_the_entry_is_deleted_again() -> None:
    made = add(None)
    assert json.loads(made) == {"mcpServers": {NAME: WRITTEN}}
    assert made.endswith("}\n")
    assert without_server(made, JSON, NAME).text is None


def test_a_table_that_was_made_stays_when_a_person_put_something_in_it() -> None:
    made = add('{\n  "a": 1\n}\n')
    more = made.replace('"mcpServers": {', '"mcpServers": {\n    "mine": {"command": "x"},')
    left = remove(more)
    assert left is not None
    assert json.loads(left) == {"mcpServers": {"mine": {"command": "x"}}, "a": 1}
    commented = made.replace('"mcpServers": {', '"mcpServers": { // my servers')
    assert "// my servers" in (remove(commented) or "")


def test_what_a_person_or_the_client_added_to_the_entry_stays_when_it_is_updated() -> None:
    added = {"type": "stdio", "disabled": True, "timeout": 90, "autoApprove": ["search"]}
    old = WRITTEN | added | {"env": {"PATH": "/bin", "VAULTMEM_STATE_DIR": "/elsewhere"}}
    text = json.dumps({"mcpServers": {NAME: old, "b": {"command": "y"}}}, indent=2)
    new = json.loads(add(text))
    assert new["mcpServers"][NAME] == WRITTEN | added | {"env": {"PATH": "/bin", **ENTRY.env}}
    assert list(new["mcpServers"]) == [NAME, "b"]
    assert not with_server(json.dumps(new), JSON, NAME, Put(ENTRY)).changed


def test_an_address_of_that_name_gives_way_to_the_program_as_a_whole() -> None:
    old = {"type": "http", "url": "http://127.0.0.1:9000/mcp", "headers": {"a": "b"}}
    new = json.loads(add(json.dumps({"mcpServers": {NAME: old}})))
    assert new["mcpServers"][NAME] == WRITTEN


def test_an_entry_in_a_transport_keeps_what_stands_beside_it() -> None:
    transport = {
        "type": "stdio",
        "command": "/x/vaultmem",
        "args": ["--vault", "/notes", "mcp", "--tools", "all"],
        "env": {"K": "v"},
    }
    beside = {"disabled": True, "autoApprove": ["search"], "timeout": 99}
    text = json.dumps({"mcpServers": {NAME: {"transport": transport, **beside}}})
    new = json.loads(add(text))["mcpServers"][NAME]
    assert new == {
        "transport": {
            "type": "stdio",
            "command": ENTRY.command,
            "args": [*ENTRY.args, "--tools", "all"],
            "env": {"K": "v", **ENTRY.env},
        },
        **beside,
    }
    present = servers(add(text), JSON)[NAME]
    assert (present.off, present.entry and present.entry.command) == (True, ENTRY.command)


@pytest.mark.parametrize("switch", [{"disabled": True}, {"enabled": False}])
def test_a_server_that_is_switched_off_stays_so_even_if_all_else_goes(
    switch: dict[str, bool],
) -> None:
    for old in ({"command": "docker", "args": ["x"]}, {"url": "http://127.0.0.1:1/mcp"}):
        text = json.dumps({"mcpServers": {NAME: old | switch}})
        put = with_server(text, JSON, NAME, Put(ENTRY, whole=True)).text
        assert put is not None
        assert json.loads(put)["mcpServers"][NAME] == WRITTEN | switch
        assert servers(put, JSON)[NAME].off


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("vaultmem", ["--cache-dir", "/c", "mcp"], ["--vault", "/n", "--cache-dir", "/c", "mcp"]),
        ("vaultmem", ["--cache-dir=/c", "--vault=/o", "mcp"], ["--vault", "/n", "--cache-dir=/c"]),
        ("vaultmem", ["--log", "mcp", "--vault", "/o", "mcp", "-x"], ["--vault", "/n", "--log"]),
        ("uvx", ["--from", "vaultmem[a]", "vaultmem", "--log", "x", "mcp"], ["--vault", "/n"]),
        ("uvx", ["vaultmem", "--vault", "/o", "--log", "x", "mcp"], ["--vault", "/n", "--log"]),
        ("python3", ["-P", "-m", "vaultmem", "--log", "x", "mcp"], ["--vault", "/n", "--log"]),
    ],
)
def test_options_ahead_of_the_command_stay(command: str, old: list[str], new: list[str]) -> None:
    entry = ServerEntry("/v", ("--vault", "/n", "mcp"))
    text = json.dumps({"mcpServers": {NAME: {"command": command, "args": old}}})
    written = add(text, entry=entry)
    args = json.loads(written)["mcpServers"][NAME]["args"]
    assert args[: len(new)] == new
    own = [
        part for part in old if part not in ("--vault", "/o", "--vault=/o", "-P", "-m", "--from")
    ]
    assert [part for part in args if part not in ("--vault", "/n")] == [
        part for part in own if "vaultmem" not in part
    ]
    assert add(written, entry=entry) == written


def test_options_behind_the_command_do_not_win_over_those_of_the_entry() -> None:
    entry = ServerEntry("/v", ("--vault", "/n", "--cache-dir", "/c", "mcp"))
    behind = ["--vault", "/o", "--tools", "all", "--http", "--port", "5", "--cache-dir=/o"]
    old = {"command": "vaultmem", "args": ["mcp", *behind]}
    new = json.loads(add(json.dumps({"mcpServers": {NAME: old}}), entry=entry))
    assert new["mcpServers"][NAME]["args"] == [*entry.args, "--tools", "all"]


def test_an_option_that_the_entry_sets_takes_the_place_of_an_older_one() -> None:
    entry = ServerEntry("/v", ("--vault", "/n", "--cache-dir", "/new", "mcp"))
    old = {"command": "vaultmem", "args": ["--cache-dir", "/old", "--log-level", "debug", "mcp"]}
    new = json.loads(add(json.dumps({"mcpServers": {NAME: old}}), entry=entry))
    assert new["mcpServers"][NAME]["args"] == [*entry.args[:-1], "--log-level", "debug", "mcp"]


@pytest.mark.parametrize("shape", [JSON, TOML])
def test_a_variable_that_is_unset_now_is_taken_out_and_no_other(shape: ConfigShape) -> None:
    text = add(None, shape, ServerEntry("/v", ("mcp",), {"VAULTMEM_X": "1", "MINE": "2"}))
    put = Put(ServerEntry("/v", ("mcp",)), unset=("VAULTMEM_X", "VAULTMEM_Y"))
    edited = with_server(text, shape, NAME, put)
    assert edited.text is not None
    present = servers(edited.text, shape)[NAME].entry
    assert present is not None
    assert present.env == {"MINE": "2"}
    assert any("VAULTMEM_X" in line for line in edited.diff if line.startswith("-"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1', "line 1"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3"),
        ("{,}", "line 1"),
        ('{"a": [1,,]}', "line 1"),
        ('{"a": [,]}', "line 1"),
        ('{\n"a": 1 /* no end', "line 2, a comment begins that has no end"),
        ("// nothing but a comment", "expecting value"),
        ('{"a": NaN}', "NaN"),
        ("{'a': 1}", "line 1"),
        ('{"a": 1} {"b": 2}', "extra data"),
        ("[1, 2]", "no object"),
        ("7", "no object"),
        ('{"mcpServers": []}', '"mcpServers" is no object'),
        ('{"mcpServers": null}', '"mcpServers" is no object'),
        ('{"mcpServers": {},\n"mcpServers": {}}', "twice, again in line 2"),
        ('{"mcpServers": {"a": {}, "a": {}}}', 'names "a" twice'),
        ("\u00a0", "line 1"),
        ('{"a": ' + "[" * 100_000, "nests too deep"),
        ('{"a": ' + "9" * 5000 + "}", "a number is too long"),
    ],
)
def test_json_that_cannot_be_read_for_certain_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused) as putting:
        with_server(text, JSON, NAME, Put(ENTRY))
    assert said in str(putting.value)
    with pytest.raises(Refused):
        without_server(text, JSON, NAME)


def test_a_comment_that_would_swallow_what_follows_is_kept_from_it() -> None:
    text = '{"mcpServers": { // mine\n  "vaultmem": {"command": "x"}, "a": {"command": "y"}}}'
    left = remove(text)
    assert left == '{"mcpServers": { // mine\n   "a": {"command": "y"}}}'


# What is shown


def test_a_diff_shows_the_entry_and_nothing_that_others_say() -> None:
    for text in WITH_OTHERS:
        secret = text.replace('"x"', '"a-secret-of-another-server"')
        for diff in (
            with_server(secret, JSON, NAME, Put(ENTRY)).diff,
            without_server(add(secret), JSON, NAME).diff,
        ):
            shown = "\n".join(diff)
            assert "/opt/vault mem/bin/vaultmem" in shown
            assert "secret" not in shown
            assert "example.org" not in shown


SECRET = "s\\u0065cret-\u00e9"
OUR_JSON_WITH_SECRETS = """\
{"mcpServers": {"vaultmem": { // secret-\u00e9
  "command": "vaultmem", "args": ["KEY=SECRET", "http://me:SECRET@host/", "--shown", "mcp"],
  "env": {"KEY": "SECRET", /* secret-\u00e9
  "*/ "PIN": 31337, "VAULTMEM_EMBEDDER_NAME": "minilm", "OLLAMA_HOST": "http://me:SECRET@h"},
  "headers": {"Authorization": "SECRET"}, "oauth": [{"id": "SECRET"}], "timeout": 90,
  "transport": {"env": {"K": "SECRET"}}, "url": "http://127.0.0.1/mcp?token=SECRET"}}}
""".replace("SECRET", SECRET)
OUR_TOML_WITH_SECRETS = """\
[mcp_servers.vaultmem] # secret-\u00e9
command = "vaultmem" # secret-\u00e9
# secret-\u00e9
args = [ # secret-\u00e9
  "KEY=SECRET", "--shown", "mcp",
]
env = { "A.B" = "SECRET", 'KEY' = 'secret-\u00e9', VAULTMEM_EMBEDDER_NAME = "minilm" }
startup_timeout_sec = 90
bearer = \"\"\"SECRET\"\"\"
[mcp_servers.vaultmem.http_headers] # secret-\u00e9
Authorization = "SECRET"
PIN = 31337
""".replace("SECRET", SECRET)


@pytest.mark.parametrize(
    ("text", "shape"), [(OUR_JSON_WITH_SECRETS, JSON), (OUR_TOML_WITH_SECRETS, TOML)]
)
def test_a_diff_shows_no_value_of_the_entry_that_a_person_put_there(
    text: str, shape: ConfigShape
) -> None:
    text = text.replace('  "transport": {"env": {"K": "' + SECRET + '"}}, ', "  ")
    if shape is TOML:
        subtable = text.replace("env = { ", "[mcp_servers.vaultmem.env]\n").replace(" }\n", "\n")
        head, _, rest = subtable.partition("[mcp_servers.vaultmem.env]\n")
        pairs, _, tail = rest.partition("\n")
        tables = tail.partition("[")
        moved = "\n".join(pairs.split(", "))
        texts = [text, f"{head}{tables[0]}[mcp_servers.vaultmem.env]\n{moved}\n[{tables[2]}"]
    else:
        texts = [text]
    for whole in texts:
        for edited in (
            with_server(whole, shape, NAME, Put(ENTRY)),
            without_server(whole, shape, NAME),
        ):
            shown = "\n".join(edited.diff)
            assert edited.changed
            assert "VAULTMEM_EMBEDDER_NAME" in shown
            assert "minilm" in shown
            assert "--shown" in shown
            assert "KEY" in shown
            assert "cret-" not in shown
            assert "31337" not in shown
        updated = with_server(whole, shape, NAME, Put(ENTRY)).text
        assert updated is not None
        assert "31337" in updated


def test_a_diff_shows_no_argument_of_a_program_that_is_not_vaultmem() -> None:
    text = '{"mcpServers": {"vaultmem": {"command": "docker", "args": ["--pass", "secret"]}}}'
    for edited in (
        with_server(text, JSON, NAME, Put(ENTRY, whole=True)),
        without_server(text, JSON, NAME, foreign=True),
    ):
        assert "docker" in "".join(edited.diff)
        assert "secret" not in "".join(edited.diff)


def test_a_comma_taken_off_another_entry_is_shown_without_the_entry() -> None:
    text = '{"mcpServers": {\n "a": {"env": {"KEY": "secret"}},\n "vaultmem": {"command": "x"}\n}}'
    edited = without_server(text, JSON, NAME)
    assert edited.text == '{"mcpServers": {\n "a": {"env": {"KEY": "secret"}}\n}}'
    assert edited.diff == ("@@ -2,2 +2 @@", "- …,", '- "vaultmem": {"command": "x"}', "+ …")


def test_a_diff_is_one_that_patch_understands_where_nothing_is_hidden() -> None:
    edited = with_server(REALISTIC, JSON, NAME, Put(ServerEntry("v", ("mcp",))))
    assert edited.diff == (
        "@@ -3,0 +4,6 @@",
        '+    "vaultmem": {',
        '+      "command": "v",',
        '+      "args": [',
        '+        "mcp"',
        "+      ]",
        "+    },",
    )


# Documents, by chance

gaps = st.lists(
    st.sampled_from([" ", "  ", "\n", "\t", "// x\n", "/* y */", '/* , } " \n */', "// {\n\n"]),
    max_size=3,
).map("".join)
keys = st.one_of(
    st.sampled_from(["a", "b", "mcpServers", "command", "env", "// no", "/* no */", ", }", 'q"\\']),
    st.text(max_size=6),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=6)
)


@st.composite
def written_value(draw: st.DrawFn, depth: int = 2) -> str:
    """A value as a person might lay it out."""
    if depth and draw(st.booleans()):
        if draw(st.booleans()):
            return draw(written_object(depth=depth - 1))
        parts: list[str] = draw(st.lists(written_value(depth=depth - 1), max_size=3))
        return written_list(draw, parts, "[]")
    return json.dumps(draw(scalars), ensure_ascii=draw(st.booleans()))


def written_list(draw: st.DrawFn, parts: list[str], brackets: str) -> str:
    inner = ",".join(f"{draw(gaps)}{part}{draw(gaps)}" for part in parts)
    trailing = f",{draw(gaps)}" if draw(st.booleans()) and parts else ""
    return f"{brackets[0]}{inner}{draw(gaps) if not parts else ''}{trailing}{brackets[1]}"


@st.composite
def written_object(
    draw: st.DrawFn, depth: int = 1, table: str | None = None, reserved: str = ""
) -> str:
    names = draw(st.lists(keys.filter(lambda k: k != reserved), max_size=3, unique=True))
    members = [
        f"{json.dumps(name)}{draw(gaps)}:{draw(gaps)}{draw(written_value(depth=depth))}"
        for name in names
    ]
    if table is not None:
        members.insert(
            draw(st.integers(0, len(members))), f'"{reserved}"{draw(gaps)}:{draw(gaps)}{table}'
        )
    return written_list(draw, members, "{}")


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A configuration file: with or without a table of servers, comments and all."""
    table = None
    if draw(st.booleans()):
        table = draw(written_object(depth=2, reserved=NAME))
    root = draw(written_object(table=table, reserved="mcpServers"))
    text = draw(gaps) + root + draw(gaps)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return ("\ufeff" if draw(st.booleans()) else "") + text


@given(documents())
def test_any_document_comes_back_as_it_was(text: str) -> None:
    new = add(text)
    assert insertion(text, new)
    assert add(new) == new
    assert remove(new) == text
    assert remove(add(new, entry=OTHER_ENTRY)) == text


NAMES = ("vaultmem", "two", "three")


def put_in_and_taken_out(
    text: str | None, shape: ConfigShape, ins: list[str], outs: list[str]
) -> str | None:
    """The text after servers of several names have come and gone."""
    for number, name in enumerate(ins):
        text = with_server(text, shape, name, Put((ENTRY, OTHER_ENTRY)[number % 2])).text
    for name in outs:
        text = without_server(text, shape, name).text
    return text


orders = st.permutations(NAMES)


@pytest.mark.parametrize("text", [None, *EMPTY, *WITHOUT_TABLE, *EMPTY_TABLE, *WITH_OTHERS])
def test_servers_of_several_names_leave_no_byte_behind_in_any_order(text: str | None) -> None:
    for ins in permutations(NAMES):
        for outs in permutations(NAMES):
            assert put_in_and_taken_out(text, JSON, list(ins), list(outs)) == text


@given(documents(), orders, orders)
def test_servers_of_several_names_leave_any_document_as_it_was(
    text: str, ins: list[str], outs: list[str]
) -> None:
    assume(not set(NAMES) & set(servers(text, JSON)))
    assert put_in_and_taken_out(text, JSON, ins, outs) == text


@given(documents(), st.booleans())
def test_another_server_that_is_added_later_survives(text: str, ahead: bool) -> None:
    new = add(text)
    at = new.index('"vaultmem": {')
    decoder = json.JSONDecoder()
    _, end = decoder.raw_decode(new, at + len('"vaultmem": '))
    mine = '"mine": {"command": "m"}'
    later = f"{new[:at]}{mine}, {new[at:]}" if ahead else f"{new[:end]}, {mine}{new[end:]}"
    named = servers(later, JSON)
    left = remove(later)
    assert left is not None
    del named[NAME]
    assert servers(left, JSON) == named
    assert "mine" in named


# TOML

CODEX = """\
model = "gpt" # the default
notice = '''
[mcp_servers.vaultmem]
'''

[mcp_servers.files]
command = "npx"
args = [
  "-y", # [mcp_servers.vaultmem]
  "]",
]

[mcp_servers.files.env]
API_KEY = "a-secret-of-another-server"

# the last profile
[profiles."a.b"]
model = "o"
"""
TOMLS = [
    "",
    "\n",
    "  ",
    "\ufeff",
    "# nothing",
    "# nothing\n",
    "a = 1",
    "a = 1\n",
    "a = 1\n\n\n",
    "a = nan\n",
    "a = 1\r\n",
    "a = 1\n  ",
    "\ufeffa = 1\n",
    CODEX,
    CODEX.replace("\n", "\r\n"),
    CODEX.removesuffix("\n"),
    "[mcp_servers]\n",
    '[mcp_servers]\nx = { command = "y" }\n',
    '[mcp_servers]\nx.command = "y"\n',
    'mcp_servers.x.command = "y"\n',  # a table within one that dotted keys define is allowed
    "[[mcp_servers.x.rules]]\na = 1\n",
]


@pytest.mark.parametrize("text", [None, *TOMLS])
def test_a_table_that_was_put_in_leaves_no_byte_behind(text: str | None) -> None:
    new = add(text, TOML)
    assert servers(new, TOML)[NAME].entry == ENTRY
    assert add(new, TOML) == new
    assert remove(new, TOML) == text
    updated = add(new, TOML, OTHER_ENTRY)
    assert servers(updated, TOML)[NAME].entry == ServerEntry(
        OTHER_ENTRY.command, OTHER_ENTRY.args, ENTRY.env
    )
    assert remove(updated, TOML) == text
    assert new.startswith(text or "")


@pytest.mark.parametrize("text", [None, *TOMLS])
def test_tables_of_several_names_leave_no_byte_behind_in_any_order(text: str | None) -> None:
    for ins in permutations(NAMES):
        for outs in permutations(NAMES):
            assert put_in_and_taken_out(text, TOML, list(ins), list(outs)) == text


def test_an_address_in_toml_gives_way_as_a_whole() -> None:
    text = '[mcp_servers.vaultmem]\nurl = "http://127.0.0.1:1/mcp"\nenabled = false\n'
    assert servers(text, TOML)[NAME].url == "http://127.0.0.1:1/mcp"
    new = with_server(text, TOML, NAME, Put(ENTRY, whole=True)).text
    assert new is not None
    assert tomllib.loads(new)["mcp_servers"][NAME] == WRITTEN | {"enabled": False}


def test_a_table_is_written_as_codex_reads_it() -> None:
    entry = ServerEntry("/bin/vaultmem", ("--vault", 'a "b"\\c', "mcp"), {"VAULTMEM_X": "y"})
    assert add(None, TOML, entry) == (
        "[mcp_servers.vaultmem]\n"
        'command = "/bin/vaultmem"\n'
        'args = ["--vault", "a \\"b\\"\\\\c", "mcp"]\n'
        'env = { "VAULTMEM_X" = "y" }\n'
    )


OURS_WITH_MORE = """\
a = 1

[mcp_servers."vaultmem"] # mine
startup_timeout_sec = 20
command = "old"
# args follow
args = [
  "--vault",
]

[mcp_servers.vaultmem.env]
VAULTMEM_STATE_DIR = "/old"
PATH = "/bin"

[mcp_servers.vaultmem.tools.search]
approval_mode = "never"

# about the next one
[mcp_servers.other]
command = "o"
"""


def test_what_a_person_added_to_the_table_stays_when_it_is_updated() -> None:
    new = add(OURS_WITH_MORE, TOML)
    loaded = tomllib.loads(new)["mcp_servers"]
    assert loaded[NAME] == WRITTEN | {
        "startup_timeout_sec": 20,
        "env": {"PATH": "/bin", **ENTRY.env},
        "tools": {"search": {"approval_mode": "never"}},
    }
    assert '[mcp_servers."vaultmem"] # mine\ncommand =' in new
    assert "# args follow" in new
    assert loaded["other"] == {"command": "o"}
    assert add(new, TOML) == new


def test_the_tables_within_go_as_well_and_the_comments_of_the_next_one_stay() -> None:
    assert remove(OURS_WITH_MORE, TOML) == (
        'a = 1\n\n# about the next one\n[mcp_servers.other]\ncommand = "o"\n'
    )


@pytest.mark.parametrize("ahead", [True, False])
def test_another_table_that_is_added_later_survives(ahead: bool) -> None:
    mine = '\n[mcp_servers.mine]\ncommand = "m"\n'
    for text in TOMLS:
        if ahead and "[mcp_servers]" in text:
            continue
        new = add(text, TOML)
        later = new.replace(
            "[mcp_servers.vaultmem]\ncommand", mine + "\n[mcp_servers.vaultmem]\ncommand"
        )
        later = later if ahead else f"{new}\n{mine}"
        named = servers(later, TOML)
        del named[NAME]
        assert servers(remove(later, TOML), TOML) == named


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "at end of document"),
        ("a = 1\na = 2\n", "line 2"),
        ("mcp_servers = 1\n", "is no table"),
        ("[[mcp_servers]]\na = 1\n", "is no table"),
        ('mcp_servers = { x = { command = "y" } }\n', "inline table or with dotted keys"),
        ('mcp_servers = { vaultmem = { command = "y" } }\n', "by hand"),
        ('[mcp_servers]\nvaultmem = { command = "y" }\n', "by hand"),
        ('[mcp_servers]\nvaultmem.command = "y"\n', "by hand"),
        ('[mcp_servers.vaultmem.env]\nA = "b"\n', "by hand"),
        ("a = " + "[" * 5000, "nests too deep"),
    ],
)
def test_toml_that_cannot_be_changed_safely_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused) as putting:
        with_server(text, TOML, NAME, Put(ENTRY))
    assert said in str(putting.value)


def test_a_table_that_is_written_otherwise_is_not_taken_out() -> None:
    with pytest.raises(Refused, match="by hand"):
        without_server('[mcp_servers]\nvaultmem = { command = "y" }\n', TOML, NAME)


def test_a_diff_of_toml_shows_the_table_alone() -> None:
    for text in TOMLS:
        shown = "\n".join(with_server(text, TOML, NAME, Put(ENTRY)).diff)
        assert "[mcp_servers.vaultmem]" in shown
        assert "secret" not in shown


settings_ = st.sampled_from(
    [
        "k{n} = 1",
        'k{n} = "a # b"',
        "k{n} = '''\n[mcp_servers.vaultmem]\n'''",
        'k{n} = """\\"""\n[x]\n""""',
        'k{n} = [ # a\n  [1, 2],\n  "]",\n]',
        'k{n} = { a = "}", b = [1] } # c',
        '"k.{n}".b = 1',
        "# a comment",
        "",
        "  ",
        "[t{n}]",
        "[ t{n} . 'x' ]",
        '[mcp_servers.s{n}]\ncommand = "c"',
        "[[list]]\nx = 1",
    ]
)


@given(st.lists(settings_, max_size=8), st.booleans(), st.booleans())
def test_any_toml_comes_back_as_it_was(lines: list[str], windows: bool, final: bool) -> None:
    text = "\n".join(line.replace("{n}", str(n)) for n, line in enumerate(lines))
    text += "\n" if final and text else ""
    text = text.replace("\n", "\r\n") if windows else text
    new = add(text, TOML)
    assert servers(new, TOML)[NAME].entry == ENTRY
    assert new.startswith(text)
    assert add(new, TOML) == new
    assert remove(new, TOML) == text
    assert remove(add(new, TOML, OTHER_ENTRY), TOML) == text
