"""What a plain gateway leaves unloaded: it takes memory, and time at the start, that most never need."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.server.process import serving

CONFIG = """
[upstreams.chat]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
"""

UNLOADED = {
    "toolglot.chat": "it is another command",
    "toolglot.doctor": "it is another command",
    "toolglot.export": "it is another command",
    "toolglot.recordings.rerun": "it is another command",
    "toolglot.tool_server": "it is another command",
    "toolglot.dialects.gemini": "neither an upstream nor a client has spoken it",
    "toolglot.dialects.openai_responses": "neither an upstream nor a client has spoken it",
    "toolglot.dialects.warp.request": "it needs an extra",
    "toolglot.textcalls.engine": "tools are native",
    "toolglot.textcalls.prompts": "tools are native",
    "toolglot.upstream.demo.agent": "nobody has asked for the demo",
    "toolglot.upstream.demo.text_model": "nobody has asked for the demo",
    "google.protobuf": "Warp alone needs it",
    "opentelemetry": "nobody wants traces",
    "mcp": "there are no MCP servers",
    "rich": "nothing is drawn",
    "yaml": "the file is no YAML",
    "difflib": "nothing was misspelt",
    "html": "no prompt is read",
}
"""Each with the reason why it is not needed."""

_IMPORTED = re.compile(r"^import time:[ \d|]+\| +([\w.]+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[frozenset[str]]:
    """The modules of a gateway that is ready and has answered nothing."""
    environment = {"PYTHONPROFILEIMPORTTIME": "1"}
    with serving(tmp_path_factory.mktemp("loaded"), CONFIG, environment=environment) as gateway:
        yield frozenset(_IMPORTED.findall(gateway.log))


def test_modules_are_told_as_they_are_loaded(loaded: frozenset[str]) -> None:
    assert loaded >= {"toolglot", "toolglot.server.run", "toolglot.upstream.http_client.transport", "uvicorn"}


@pytest.mark.parametrize("name", UNLOADED)
def test_a_plain_gateway_leaves_unloaded_what_it_does_not_need(name: str, loaded: frozenset[str]) -> None:
    assert not [module for module in loaded if f"{module}.".startswith(f"{name}.")], UNLOADED[name]
