"""Names of tools in recordings: a pattern leaves them alone, because nobody could use a call of another tool; a secret
goes, wherever it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES
from tests.recordings.demos import ASKED
from tests.recordings.rerunning import again, read_all
from tests.server.gateway import at, gateway
from toolglot.config.schema import ModelConfig, RecordConfig
from toolglot.recordings.declared_tools import declared_tool_names
from toolglot.recordings.linear_regex import LinearPattern
from toolglot.recordings.redact import Redactor

CLIENTS = tuple(ASKED)
UPSTREAMS = JSON_NAMES
PATTERNS = ("weather", "(?i)[a-z]*time", "get_")
LONG = "weather_of_" + "x" * 60
SECRET = "canary-7f3a9c2e51"


def record(folder: Path, client: str, upstream: str, body: dict[str, Any], stream: bool = True) -> bytes:
    config = RecordConfig(directory=str(folder), redact=PATTERNS)
    with gateway(at(upstream, "demo:"), record=config) as running:
        return running.ask(client, stream=stream, body=body).body


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_pattern_that_matches_tools_makes_no_difference_to_them(
    tmp_path: Path, client: str, upstream: str, stream: bool
) -> None:
    got = record(tmp_path, client, upstream, ASKED[client], stream)
    (recording,) = read_all(tmp_path)
    assert not again(recording).differs
    for body in (recording.request.data, recording.attempts[0].request.data, recording.body):
        assert b"get_weather" in body
        assert b"get_time" in body
    assert b"the weather in" not in recording.request.data
    for patterns in ((), PATTERNS):
        replaying = at(upstream, f"replay:{tmp_path}")
        with gateway(replaying, record=RecordConfig(redact=patterns)) as running:
            answer = running.ask(client, stream=stream, body=ASKED[client])
        assert answer.status == 200
        assert got.count(b"get_weather") == answer.body.count(b"get_weather") > 0


def test_a_tool_that_has_another_name_upstream_is_the_same_again_with_its_receipt(tmp_path: Path) -> None:
    tools = [{"name": LONG, "input_schema": {"type": "object"}}]
    body = {**ASKED["anthropic"], "tools": tools}
    record(tmp_path, "anthropic", "openai_chat", body)
    (recording,) = read_all(tmp_path)
    assert any("[redacted]" in line["what"] for line in recording.receipt)
    assert again(recording).differences == []


@pytest.mark.parametrize("form", ["hermes_json", "cline_xml"])
def test_what_a_model_is_told_of_tools_in_words_is_the_same_again(tmp_path: Path, form: str) -> None:
    config = RecordConfig(directory=str(tmp_path), redact=PATTERNS)
    models = {"m": ModelConfig(upstream="up", model="x", tools=form)}
    with gateway(at("openai_chat", "demo:"), record=config, models=models) as running:
        assert running.ask("anthropic", stream=True, body=ASKED["anthropic"]).status == 200
    (recording,) = read_all(tmp_path)
    assert b"[redacted]" in recording.attempts[0].request.data
    assert again(recording).requests == [[]]


def redacted(body: Any, *secrets: str) -> Any:
    data = json.dumps(body).encode()
    redactor = Redactor(secrets, [LinearPattern(r"weather|canary-\w+|Alice").find])
    redactor.keep_tool_names(declared_tool_names(data))
    return json.loads(redactor.body(data))


def test_a_secret_goes_also_where_it_is_the_name_of_a_tool() -> None:
    body = {"tools": [{"name": SECRET}, {"name": f"get_{SECRET}"}, {"name": "weather"}]}
    assert redacted(body)["tools"][0] == {"name": SECRET}
    hidden = [{"name": "[redacted]"}, {"name": "get_[redacted]"}, {"name": "weather"}]
    assert redacted(body, SECRET)["tools"] == hidden
    redactor = Redactor((), [LinearPattern("canary").find])
    redactor.keep_tool_names([SECRET])
    redactor.hide([SECRET])
    assert SECRET.encode() not in redactor.body(b'{"name": "%b"}' % SECRET.encode())


def test_a_tool_is_left_alone_where_it_is_named_and_nowhere_else() -> None:
    said = [
        {"role": "user", "name": "Alice", "content": "weather"},
        {"role": "tool", "name": "weather", "content": '{"name": "weather"}'},
    ]
    read = redacted({"tools": [{"name": "weather"}], "weather": 1, "messages": said})
    assert read["messages"][0] == {"role": "user", "name": "[redacted]", "content": "[redacted]"}
    assert read["messages"][1] == {"role": "tool", "name": "weather", "content": '{"name": "[redacted]"}'}
    assert "weather" not in read


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"tools": [{"type": "function", "function": {"name": "a"}}], "functions": [{"name": "b"}]}, {"a", "b"}),
        ({"tools": [{"type": "custom", "custom": {"name": "a"}}, {"type": "function", "name": "b"}]}, {"a", "b"}),
        (
            {"tools": [{"functionDeclarations": [{"name": "a"}]}, {"function_declarations": [{"name": "b"}]}]},
            {"a", "b"},
        ),
        ([{"label": "x", "tools": [{"name": "a"}, {"name": 7}]}], {"a"}),
        ({"tools": 7}, set()),
        ({"name": "a", "messages": [{"name": "b"}]}, set()),
        ("tools", set()),
    ],
)
def test_the_tools_are_those_that_are_declared(body: Any, names: set[str]) -> None:
    assert declared_tool_names(json.dumps(body).encode()) == names


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b'{"tools":' + b"[" * 100_000, b'{"tools": ["\xff"]}'])
def test_what_is_no_request_declares_none(body: bytes) -> None:
    assert declared_tool_names(body) == set()
