"""From options to a gateway, a model and servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.chat.scripted import Nowhere
from toolglot.chat import startup
from toolglot.chat.startup import ChatOptions, ChatSetup, prepare_chat
from toolglot.config.problems import ConfigError
from toolglot.server.startup import StartOptions

ALONE = ChatOptions(start_options=StartOptions(discover=False))


def begun(options: ChatOptions) -> ChatSetup:
    return asyncio.run(prepare_chat(options, {}, Nowhere()))


def configured(folder: Path, text: str) -> ChatOptions:
    file = folder / "toolglot.toml"
    file.write_text(text)
    return ChatOptions(start_options=StartOptions(discover=False, file=file))


LOCAL = """
[upstreams.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
"""
SERVERS = """
[mcp.servers.one]
command = "one"
[mcp.servers.two]
command = "two"
"""


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of this machine counts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_without_anything_the_demo_answers_with_the_bundled_tools() -> None:
    start = begun(ALONE)
    assert (start.model, list(start.servers)) == ("demo", ["example"])
    assert start.told[0].startswith("This is the demo")
    assert {"demo", *startup.DEMO_MODELS} <= set(start.gateway.router.names())


@pytest.mark.parametrize(
    ("options", "servers"),
    [
        (replace(ALONE, tools=False), []),
        (replace(ALONE, example=False), []),
        (replace(ALONE, mcp=("example",)), ["example"]),
    ],
)
def test_the_bundled_tools_can_be_left_out(options: ChatOptions, servers: list[str]) -> None:
    assert list(begun(options).servers) == servers


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (LOCAL, "demo"),
        (LOCAL + 'models = ["llama"]', "llama"),
        (LOCAL + 'default_model = "llama"', "demo"),
        ('default_upstream = "local"\n' + LOCAL + 'default_model = "llama"', "local/llama"),
        (LOCAL + '[models.best]\nupstream = "local"', "best"),
    ],
)
def test_the_only_model_or_the_configured_default_answers(text: str, model: str, tmp_path: Path) -> None:
    start = begun(configured(tmp_path, text))
    assert start.model == model
    assert "demo-gemini" not in start.gateway.upstreams


SEVERAL = LOCAL + 'models = ["llama", "qwen"]'


def test_one_of_several_models_is_chosen_by_the_user(tmp_path: Path) -> None:
    offered: list[str] = []

    async def choose(names: Sequence[str]) -> str:
        offered.extend(names)
        return names[-1]

    start = asyncio.run(prepare_chat(configured(tmp_path, SEVERAL), {}, Nowhere(), choose))
    assert (start.model, offered) == ("qwen", ["llama", "qwen"])


def test_a_script_is_told_which_models_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        begun(configured(tmp_path, SEVERAL))
    assert str(told.value) == "--model: choose one of 2 models: llama, qwen"
    assert begun(replace(configured(tmp_path, SEVERAL), model="llama")).model == "llama"


def test_configured_servers_are_attached_unless_some_are_named(tmp_path: Path) -> None:
    options = configured(tmp_path, SERVERS)
    assert list(begun(options).servers) == ["one", "two"]
    assert list(begun(replace(options, mcp=("two",))).servers) == ["two"]
    assert list(begun(replace(options, example=True)).servers) == ["one", "two", "example"]


def test_servers_of_other_programs_files_are_attached(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"files": {"command": "npx", "args": ["server"]}}}))
    start = begun(replace(ALONE, start_options=StartOptions(discover=False, mcp_files=(file,))))
    assert list(start.servers) == ["files"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (replace(ALONE, model="gpt-9"), "--model: no upstream serves the model 'gpt-9'"),
        (replace(ALONE, mcp=("exampel",)), "--mcp: there is no MCP server `exampel`"),
    ],
)
def test_what_does_not_exist_is_refused(options: ChatOptions, why: str) -> None:
    with pytest.raises(ConfigError) as told:
        begun(options)
    assert str(told.value).startswith(why)


def test_without_the_package_mcp_the_demo_still_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    start = begun(ALONE)
    assert start.servers == {}
    assert start.missing == start.told[-1:]
    assert "which comes with the extra `mcp`: in a clone of toolglot, pip install '.[mcp]'" in start.told[-1]
    named = tmp_path / "servers.json"
    named.write_text(json.dumps({"mcpServers": {"files": {"command": "npx"}}}))
    for options, place in (
        (replace(ALONE, example=True), "--example-tools"),
        (replace(ALONE, mcp=("example",)), "--mcp"),
        (replace(ALONE, start_options=StartOptions(discover=False, mcp_files=(named,))), "--mcp-config"),
        (configured(tmp_path, SERVERS), str(tmp_path)),
    ):
        with pytest.raises(ConfigError, match=r"pip install '\.\[mcp\]'") as told:
            begun(options)
        assert str(told.value).startswith(place)
