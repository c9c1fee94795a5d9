"""MCP servers as other programs write them down: what becomes of each member, and what is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.config import json_document
from toolglot.config.file_watch import FileWatch
from toolglot.config.load import Loaded, load_config
from toolglot.config.mcp_checks import NAME, nearest_valid_name
from toolglot.config.problems import ConfigError
from toolglot.config.schema import McpServerConfig
from toolglot.server.startup import StartOptions, load_options

ENVIRON = {"TOKEN": "secret-token", "HOME": "/home/me", "PORT": "8080"}


class Told(NamedTuple):
    """An entry of a file, the server that it becomes, and the notes, after the place and the name."""

    who: str
    entry: dict[str, Any]
    server: dict[str, Any] | None
    notes: tuple[str, ...] = ()


TOLD = [
    Told(
        "Claude Desktop",
        {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "${TOKEN}", "EMPTY": ""}},
        {"command": "npx", "args": ("-y", "server"), "env": {"KEY": "secret-token", "EMPTY": ""}},
    ),
    Told(
        "Claude Code",
        {"type": "http", "url": "https://h.example/mcp?x=1", "headers": {"Authorization": "Bearer ${TOKEN:-none}"}},
        {"url": "https://h.example/mcp?x=1", "headers": {"Authorization": "Bearer secret-token"}},
    ),
    Told(
        "Cursor",
        {"command": "${userHome}/bin/server", "args": ["${workspaceFolder}${/}data", "${env:TOKEN}"]},
        {"command": "/home/me/bin/server", "args": ("{folder}/data", "secret-token")},
    ),
    Told(
        "VS Code",
        {"type": "stdio", "command": "uvx", "args": ["server"], "dev": {"watch": "**"}, "gallery": True},
        {"command": "uvx", "args": ("server",)},
        (": ignored: `dev`, `gallery`",),
    ),
    Told(
        "Gemini CLI",
        {
            "httpUrl": "http://localhost:${PORT}/mcp",
            "url": "http://localhost/sse",
            "headers": {"x-key": "$TOKEN"},
            "timeout": 600000,
            "trust": True,
            "excludeTools": ["rm"],
        },
        {
            "url": "http://localhost:8080/mcp",
            "headers": {"x-key": "secret-token"},
            "timeout": 600.0,
            "policy": "auto",
            "tools": {"rm": "never"},
        },
        (".timeout: 600000 is read as milliseconds",),
    ),
    Told(
        "Gemini CLI with a choice of tools",
        {"command": "s", "includeTools": ["a", "b"], "excludeTools": ["b"]},
        {"command": "s", "tools": {"*": "never", "a": "ask", "b": "never"}},
    ),
    Told(
        "Cline",
        {"command": "node", "args": ["s.js"], "disabled": False, "autoApprove": ["read", "list"], "timeout": 90},
        {"command": "node", "args": ("s.js",), "tools": {"read": "auto", "list": "auto"}, "timeout": 90.0},
    ),
    Told(
        "Roo",
        {"type": "streamable-http", "url": "https://h.example", "alwaysAllow": ["x"], "disabledTools": ["y"]},
        {"url": "https://h.example", "tools": {"x": "auto", "y": "never"}},
    ),
    Told("switched off", {"command": "s", "disabled": True}, None, (": skipped: it is disabled",)),
    Told("not switched on", {"command": 7, "enabled": False}, None, (": skipped: it is disabled",)),
    Told("Windsurf", {"serverUrl": "https://h.example/mcp"}, {"url": "https://h.example/mcp"}),
    Told(
        "Copilot's agent",
        {"type": "local", "command": "s", "tools": ["*"], "cwd": "sub"},
        {"command": "s", "cwd": "{folder}/sub"},
    ),
    Told(
        "opencode",
        {"type": "local", "command": ["bun", "x", "s"], "environment": {"A": "b"}},
        {"command": "bun", "args": ("x", "s"), "env": {"A": "b"}},
    ),
    Told(
        "ours",
        {"command": "s", "policy": "never", "tools": {"read_*": "auto"}, "by_header": False, "protocol": "handshake"},
        {"command": "s", "policy": "never", "tools": {"read_*": "auto"}, "by_header": False, "protocol": "handshake"},
    ),
    Told(
        "a value that only looks like a file of ours",
        {"command": "s", "env": {"DATABASE_URL": "file:dev.db"}},
        {"command": "s", "env": {"DATABASE_URL": "file:dev.db"}},
    ),
]


def placed(value: Any, folder: Path) -> Any:
    """The value with the folder for what stands for it."""
    match value:
        case dict():
            return {name: placed(inner, folder) for name, inner in value.items()}
        case tuple():
            return tuple(placed(inner, folder) for inner in value)
        case str():
            return value.replace("{folder}", str(folder))
    return value


def with_file(folder: Path, document: Any, config: str = "", environ: dict[str, str] = ENVIRON) -> Loaded:
    (folder / "mcp.json").write_text(document if isinstance(document, str) else json.dumps(document, indent=2))
    path = folder / "toolglot.toml"
    path.write_text(config or "[mcp]\nfiles = ['mcp.json']\n")
    return load_config(path, environ)


@pytest.mark.parametrize("root", ["mcpServers", "servers"])
@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.who)
def test_an_entry_of_another_program_is_understood(tmp_path: Path, told: Told, root: str) -> None:
    loaded = with_file(tmp_path, {root: {"it": told.entry}})
    servers = loaded.config.mcp.servers
    assert servers == ({"it": McpServerConfig(**placed(told.server, tmp_path))} if told.server else {})
    assert tuple(note.partition(f": {root}.it")[2] for note in loaded.notes) == told.notes
    assert all(note.startswith(f"{tmp_path}/mcp.json:") for note in loaded.notes)
    assert loaded.config.mcp.files == (str(tmp_path / "mcp.json"),)
    assert "secret" not in repr(loaded).replace(str(tmp_path), "")


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.who)
def test_the_same_entry_may_stand_in_our_own_file(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "toolglot.yaml"
    path.write_text(json.dumps({"mcpServers": {"it": told.entry}}))
    loaded = load_config(path, ENVIRON)
    assert loaded.config.mcp.servers == (
        {"it": McpServerConfig(**placed(told.server, tmp_path))} if told.server else {}
    )
    assert tuple(note.partition(": mcpServers.it")[2] for note in loaded.notes) == told.notes


WRONG: list[tuple[str, str, list[str]]] = [
    ("the old transport", '{"mcpServers": {"a": {"type": "sse", "url": "https://h"}}}', [
        "mcp.json:1:23: mcpServers.a.type: the transport `sse` was replaced in 2025 and is not supported; most such "
        "servers also offer Streamable HTTP: `type: http`",
    ]),
    ("no transport", '{"mcpServers": {"a": {"type": "smoke", "command": "s"}}}', [
        "mcp.json:1:23: mcpServers.a.type: unknown transport; supported: stdio and http",
    ]),
    ("a question", '{"servers": {"a": {"command": "s",\n "env": {"K": "${input:key}"}}}}', [
        "mcp.json:2:2: servers.a.env: `${input:key}` is an interactive input of another program; use an "
        "environment variable instead: `${NAME}`",
    ]),
    ("nothing to start", '{"mcpServers": {"a": {"args": []}}}', [
        "mcp.json:1:17: mcpServers.a: `command` or `url` is missing; set the program to start, or the address "
        "of a running server",
    ]),
    ("a reference", '{"mcpServers": {"a": {"httpUrl": "https://${HOTS}/x"}}}', [
        "mcp.json:1:23: mcpServers.a.url: the environment variable HOTS is not set; "
        "set it, or add a default: `${HOTS:-default}`",
    ]),
    ("types", '{"mcpServers": {"a": {"command": "s", "args": "x", "env": {"N": 1}, "autoApprove": true}, "b": 3}}', [
        "mcp.json:1:39: mcpServers.a.args: expected a list, got text",
        "mcp.json:1:60: mcpServers.a.env.N: expected text, got a whole number",
        "mcp.json:1:69: mcpServers.a.autoApprove: expected a list of tool names",
        "mcp.json:1:91: mcpServers.b: expected a table of names and values",
    ]),
    ("values", '{"mcpServers": {"a": {"command": "s", "env": {"N": 1}, "timeout": -1}}}', [
        "mcp.json:1:47: mcpServers.a.env.N: expected text, got a whole number",
        "mcp.json:1:56: mcpServers.a.timeout: expected a number > 0.0",
    ]),
    ("no servers", '{"command": "s"}', [
        "mcp.json:1: it has neither `mcpServers` nor VS Code's `servers`",
    ]),
    ("a list", "[]", ["mcp.json:1: expected an object with `mcpServers`"]),
    ("a list of servers", '{"mcpServers": []}', [
        "mcp.json:1:2: mcpServers: expected a table of names and values",
    ]),
    ("no JSON", '{"mcpServers": {\n  "a": nothing}}', ["mcp.json:2:8: not JSON: a value is expected"]),
    ("nothing", " \n", ["mcp.json:2:1: not JSON: it is empty"]),
    ("a name twice", '{"mcpServers": {"a": {}, "a": {}}}', ["mcp.json:1:26: mcpServers.a: duplicate field"]),
    ("an end", '{"mcpServers": {}', ["mcp.json:1:18: not JSON: `,` or `}` is expected"]),
    ("a name", "{mcpServers: {}}", ["mcp.json:1:2: not JSON: a name in `\"` is expected"]),
    ("no colon", '{"a" 1}', ["mcp.json:1:6: a: not JSON: a `:` is expected"]),
    ("more", "{} {}", ["mcp.json:1:4: not JSON: extra text after the end"]),
    ("depth", "[" * 10_000, ["mcp.json:1:66: nested too deeply"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problems"), [pytest.param(text, told, id=what) for what, text, told in WRONG])
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        with_file(tmp_path, text)
    assert [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems] == problems


def test_a_missing_file_is_told_where_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        with_file(tmp_path, {}, "[mcp]\nfiles = ['away.json']\n")
    told = f"{tmp_path}/away.json: no such file or directory"
    assert str(caught.value) == f"{tmp_path}/toolglot.toml:2:10: mcp.files[0]: {told}"
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"HOME": str(tmp_path)}, tmp_path / "none", [tmp_path / "away.json"])
    assert str(caught.value) == told


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="more than 1048576 bytes"):
        with_file(tmp_path, " " * (1 << 21))
    (tmp_path / "b.json").write_bytes(b'{"a":\n"\xff"}')
    with pytest.raises(ConfigError, match=r"b\.json:2: not UTF-8"):
        load_config(None, {"HOME": str(tmp_path)}, tmp_path / "none", [tmp_path / "b.json"])


def test_the_configurations_own_server_counts_first_and_then_the_files_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    entries = {name: {"command": "other"} for name in "abc"}
    (tmp_path / "other.json").write_text(json.dumps({"mcpServers": entries}))
    loaded = with_file(
        tmp_path,
        {"mcpServers": {"a": {"command": "file"}, "b": {"command": "file"}}},
        "[mcp]\nfiles = ['mcp.json', '~/other.json', './mcp.json']\n[mcp.servers.a]\ncommand = 'own'\n",
    )
    assert {name: server.command for name, server in loaded.config.mcp.servers.items()} == {
        "a": "own",
        "b": "file",
        "c": "other",
    }
    assert [note.partition(": ")[2] for note in loaded.notes] == [
        "mcpServers.a: not used: the configuration has a server with this name",
        "mcpServers.a: not used: the configuration has a server with this name",
        f"mcpServers.b: not used: {tmp_path}/mcp.json has a server with this name",
    ]


def test_files_of_the_command_line_count_as_if_the_configuration_had_named_them(tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text('{"mcpServers": {"more": {"command": "s"}}}')
    path = tmp_path / "toolglot.toml"
    path.write_text("[models.a]\nupstream = 'demo'\nmcp = ['more']\n")
    relative = Path(os.path.relpath(tmp_path / "more.json"))
    loaded = load_config(path, {}, mcp_files=[relative])
    assert loaded.config.mcp.files == (str(tmp_path / "more.json"),)
    assert list(loaded.config.mcp.servers) == ["more"]
    with pytest.raises(ConfigError, match=r"there is no MCP server `more`; add one: `\[mcp\.servers\.more\]`"):
        load_config(path, {})
    alone = load_config(None, {"HOME": str(tmp_path)}, tmp_path / "none", [relative])
    assert (alone.path, list(alone.config.mcp.servers)) == (None, ["more"])


def test_a_gateway_gets_the_files_of_its_command_line(tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text('{"mcpServers": {"more": {"url": "http://127.0.0.1:1/mcp"}}}')
    start_options = StartOptions(mcp_files=(tmp_path / "more.json",), upstreams=("openai_chat=http://127.0.0.1:2/v1",))
    config, _, notes = load_options(start_options, {"HOME": str(tmp_path)})
    assert (list(config.mcp.servers), notes) == (["more"], ())


def test_a_name_that_does_not_fit_is_made_to_fit_and_told(tmp_path: Path) -> None:
    names = ["my.server", "my server", "my_server_2", "a__b", "ü", "x" * 40, "fine-1"]
    loaded = with_file(tmp_path, {"mcpServers": {name: {"command": "s"} for name in names}})
    made = ["my_server", "my_server_2", "my_server_2_2", "a_b", "server", "x" * 32, "fine-1"]
    assert list(loaded.config.mcp.servers) == made
    assert [note.rpartition(": ")[2] for note in loaded.notes] == [f"renamed to `{name}`" for name in made[:-1]]


@given(st.text(max_size=50))
def test_every_name_can_be_made_to_fit(name: str) -> None:
    made = nearest_valid_name(name)
    assert NAME.fullmatch(made)
    assert nearest_valid_name(made) == made


def test_editors_may_write_comments_and_a_comma_behind_the_last(tmp_path: Path) -> None:
    text = """// my servers
    {
    \t"mcpServers": { /* one * of them */
    \t\t"a": {"command": "s", "args": ["//no comment", "/* nor this */",],},
    \t},
    }
    """
    loaded = with_file(tmp_path, text)
    assert loaded.config.mcp.servers["a"].args == ("//no comment", "/* nor this */")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from([None, 2, "\t"]),
)
def test_json_is_read_as_json_and_every_member_has_a_place(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    read, places = json_document.parse(text, "a.json")
    assert read == value
    if isinstance(value, dict):
        assert {path[0] for path in places if path} == set(value)
    lines = text.split("\n")
    assert all(column <= len(lines[line - 1]) + 1 for line, column in places.values())


def test_the_folder_of_an_editors_own_folder_is_the_workspace(tmp_path: Path) -> None:
    folder = tmp_path / ".vscode"
    folder.mkdir()
    (folder / "mcp.json").write_text('{"servers": {"a": {"command": "s", "cwd": "${workspaceFolder}/x"}}}')
    loaded = load_config(None, {"HOME": str(tmp_path)}, tmp_path / "none", [folder / "mcp.json"])
    assert loaded.config.mcp.servers["a"].cwd == str(tmp_path / "x")


def test_a_folder_in_the_configuration_is_relative_to_it(tmp_path: Path) -> None:
    config = "[mcp.servers.a]\ncommand = 's'\ncwd = 'sub'\n"
    assert with_file(tmp_path, "{}", config).config.mcp.servers["a"].cwd == str(tmp_path / "sub")


def test_a_watch_follows_several_files_and_others_later(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")
    watch = FileWatch(one)
    two.write_text("3")
    assert not watch.changed()
    one.write_text("4")
    watch.follow([one, two])
    assert watch.changed()
    two.write_text("5")
    assert watch.changed()
    watch.follow([one])
    two.write_text("6")
    assert not watch.changed()
