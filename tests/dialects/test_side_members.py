"""Side members of a wrong type cost an answer no more than themselves, whole or streamed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES, folded, read_events, write_events
from toolglot import Exchange
from toolglot.dialects import DIALECTS
from toolglot.errors import UpstreamDecodeError, UpstreamError
from toolglot.events import unfold
from toolglot.ir import Response, Stop, Text, ToolCall, Usage
from toolglot.receipt import Receipt

WRONG: tuple[Any, ...] = ("x", "", "60", 5, 1.5, True, [1], {"a": 1})
ANSWER = Response(
    id="r_1",
    model="m",
    content=(Text(text="Hello"), ToolCall(id="call_1", name="f", arguments='{"a":1}')),
    stop=Stop("tool_calls"),
    usage=Usage(input_tokens=60, output_tokens=7, cached_tokens=3, reasoning_tokens=2),
    created=1_700_000_000,
)
CALLS_AT_END = {name: "anthropic" if name == "openai_chat" else "openai_chat" for name in JSON_NAMES}
"""A client of another dialect for each upstream."""


def summary(response: Response) -> tuple[str, list[tuple[str, Any]], str]:
    text = "".join(block.text for block in response.content if isinstance(block, Text))
    calls = [(block.name, json.loads(block.arguments)) for block in response.content if isinstance(block, ToolCall)]
    return text, calls, response.stop.reason


WANTED = ("Hello", [("f", {"a": 1})], "tool_calls")


def places_of(value: Any, names: frozenset[str], path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        if key in ("arguments", "args", "input") and isinstance(member, dict):
            continue
        if key in names:
            yield (*path, key)
        yield from places_of(member, names | ({"prompt_tokens"} if key == "usage" else frozenset()), (*path, key))


def replaced(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return changed


def is_tag(dialect: str, path: tuple[str | int, ...]) -> bool:
    """Is this the member that says what a block or an event is? Without it nothing can be read."""
    return path[-1] == "type" or (dialect == "openai_responses" and path[-1] in ("text", "status"))


def document_of(dialect: str) -> Any:
    return json.loads(DIALECTS[dialect].encode_response(ANSWER, None, Receipt()))


def frames_of(dialect: str) -> list[tuple[bytes, bytes]]:
    stream = write_events(dialect, unfold(ANSWER))
    return DIALECTS[dialect].stream.framing.documents(stream)


def stream_of(dialect: str, frames: list[tuple[bytes, bytes]]) -> bytes:
    if DIALECTS[dialect].stream.framing.is_bare:
        return b"".join(data + b"\n" for _, data in frames)
    return b"".join((b"event: %b\n" % name if name else b"") + b"data: %b\n\n" % data for name, data in frames)


WHOLE = [
    (dialect, path)
    for dialect in JSON_NAMES
    for path in places_of(document_of(dialect), DIALECTS[dialect].answer.side_members)
    if not is_tag(dialect, path)
]
STREAMED = [
    (dialect, number, path)
    for dialect in JSON_NAMES
    for number, (_, data) in enumerate(frames_of(dialect))
    if data.startswith(b"{")
    for path in places_of(json.loads(data), DIALECTS[dialect].answer.side_members)
    if not is_tag(dialect, path) and path[-1] != "index"
]


def _path(value: Any) -> str | None:
    return ".".join(map(str, value)) if isinstance(value, tuple) else None


@pytest.mark.parametrize(("dialect", "path"), WHOLE, ids=_path)
def test_a_whole_answer_keeps_its_content(dialect: str, path: tuple[str | int, ...]) -> None:
    client = CALLS_AT_END[dialect]
    for wrong in WRONG:
        data = json.dumps(replaced(document_of(dialect), path, wrong)).encode()
        written = Exchange(client, dialect).response(data)
        assert summary(DIALECTS[client].decode_response(written)) == WANTED, wrong


@pytest.mark.parametrize(("dialect", "number", "path"), STREAMED, ids=_path)
def test_a_stream_keeps_its_content(dialect: str, number: int, path: tuple[str | int, ...]) -> None:
    client, frames = CALLS_AT_END[dialect], frames_of(dialect)
    for wrong in WRONG:
        name, data = frames[number]
        changed = json.dumps(replaced(json.loads(data), path, wrong)).encode()
        stream = stream_of(dialect, [*frames[:number], (name, changed), *frames[number + 1 :]])
        translation = Exchange(client, dialect).stream()
        written = translation.feed(stream) + translation.close()
        assert translation.fault is None, wrong
        assert summary(folded(read_events(client, [written]))) == WANTED, wrong


CHAT_SIDE = {
    "usage": "x",
    "x_groq": "x",
    "object": 5,
    "id": True,
    "model": ["m"],
    "created": {"a": 1},
    "system_fingerprint": [1],
}
IN_MESSAGE = {"annotations": "x", "reasoning": 5, "reasoning_content": True}


@pytest.mark.parametrize("name", [*CHAT_SIDE, *IN_MESSAGE, "custom"])
@pytest.mark.parametrize("streams", [False, True])
def test_members_of_other_chat_servers_cost_no_answer_and_are_reported(name: str, streams: bool) -> None:
    call: dict[str, Any] = {"id": 7, "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    if name == "custom":
        call["custom"] = 5
    message: dict[str, Any] = {"role": "assistant", "content": "Hello", "tool_calls": [call]}
    top: dict[str, Any] = {"id": "c", "model": "m"}
    (top if name in CHAT_SIDE else message).update(
        {name: {**CHAT_SIDE, **IN_MESSAGE}[name]} if name != "custom" else {}
    )
    choice = {"index": 0, "delta" if streams else "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({**top, "choices": [choice]}).encode()
    exchange = Exchange("anthropic", "openai_chat")
    if streams:
        written = exchange.stream().feed(b"data: %b\n\ndata: [DONE]\n\n" % body)
        received = folded(read_events("anthropic", [written]))
    else:
        received = DIALECTS["anthropic"].decode_response(exchange.response(body))
    assert summary(received) == WANTED
    assert [block.id for block in received.content if isinstance(block, ToolCall)] == ["7"]
    if streams or name != "object":  # which means nothing
        assert any(name in line.where for line in exchange.receipt), list(exchange.receipt)


COUNTS = {"numbers in strings": {"prompt_tokens": "60", "completion_tokens": "7", "total_tokens": ""}}


@pytest.mark.parametrize("place", ["usage", "choices[0].usage"])
@pytest.mark.parametrize("streams", [False, True])
def test_counts_in_strings_and_beside_the_message_are_read(streams: bool, place: str) -> None:
    usage = COUNTS["numbers in strings"]
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    choice["delta" if streams else "message"] = {"role": "assistant", "content": "Hello"}
    body: dict[str, Any] = {"id": "c", "model": "m", "choices": [choice]}
    (body if place == "usage" else choice)["usage"] = usage
    exchange, data = Exchange("anthropic", "openai_chat"), json.dumps(body).encode()
    if streams:
        written = exchange.stream().feed(b"data: %b\n\ndata: [DONE]\n\n" % data)
        received = folded(read_events("anthropic", [written])).usage
    else:
        received = DIALECTS["anthropic"].decode_response(exchange.response(data)).usage
        again = json.loads(Exchange("openai_chat", "openai_chat", verbatim=False).response(data))
        assert (again if place == "usage" else again["choices"][0])["usage"] == usage
    assert received is not None
    assert (received.input_tokens, received.output_tokens) == (60, 7)
    assert not exchange.receipt.losses


CONTENT: dict[str, tuple[str | int, ...]] = {
    "openai_chat": ("choices", 0, "message", "content"),
    "anthropic": ("content", 0, "text"),
    "gemini": ("candidates", 0, "content", "parts", 0, "text"),
    "ollama": ("message", "content"),
}
"""Where a text is. In a Responses answer, a part without a text is kept unchanged, and is a loss for other clients."""


@pytest.mark.parametrize("dialect", CONTENT)
def test_content_of_a_wrong_type_is_still_an_error(dialect: str) -> None:
    data = json.dumps(replaced(document_of(dialect), CONTENT[dialect], 5)).encode()
    with pytest.raises((UpstreamDecodeError, UpstreamError)):
        Exchange(CALLS_AT_END[dialect], dialect).response(data)
