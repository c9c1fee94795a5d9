"""Entries of `tool_calls` that are not of the API's form: a whole answer and a stream give the client the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.exchanges import NAMES, folded, read_events

from toolglot import Exchange
from toolglot.dialects import DIALECTS
from toolglot.errors import UpstreamError
from toolglot.ir import Response, ToolCall

FUNCTION = {"name": "f", "arguments": '{"a":1}'}
CALLS: dict[str, dict[str, Any]] = {
    "of another type": {"id": "a", "type": "builtin_function", "function": FUNCTION},
    "of a type that is no text": {"id": "a", "type": 1, "function": FUNCTION},
    "of a wrong type": {"id": "a", "type": "custom", "function": FUNCTION},
    "without a type": {"id": "a", "function": FUNCTION},
}
NO_CALLS: dict[str, dict[str, Any]] = {
    "empty": {},
    "only a type": {"type": "function"},
    "empty function": {"type": "function", "function": {}},
    "only an id": {"id": "a"},
    "no name": {"id": "a", "type": "function", "function": {"arguments": "{}"}},
    "of an unknown kind": {"id": "a", "type": "shell", "shell": {"command": "ls"}},
}


def whole(entry: dict[str, Any], finish: str) -> bytes:
    message = {"role": "assistant", "content": "hi", "tool_calls": [entry]}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()


def streamed(entry: dict[str, Any], finish: str) -> bytes:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "hi"}, {"tool_calls": [{"index": 0, **entry}]}, {}]
    frames = []
    for number, delta in enumerate(deltas):
        choice = {"index": 0, "delta": delta, "finish_reason": finish if number == 2 else None}
        chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        frames.append(b"data: %b\n\n" % json.dumps(chunk).encode())
    return b"".join(frames) + b"data: [DONE]\n\n"


def received(client: str, entry: dict[str, Any], finish: str) -> tuple[list[tuple[str, Any]], str]:
    """The calls and the stop reason that a client gets in a whole answer; empty and the code of the error if it gets
    one. The stream is the same."""
    answers = [_whole_answer(client, entry, finish), _stream_answer(client, entry, finish)]
    assert answers[0] == answers[1]
    return answers[0]


def _whole_answer(client: str, entry: dict[str, Any], finish: str) -> tuple[list[tuple[str, Any]], str]:
    try:
        answer = Exchange(client, "openai_chat").response(whole(entry, finish))
    except UpstreamError as error:
        return [], error.error.code or ""
    return _summary(DIALECTS[client].decode_response(answer))


def _stream_answer(client: str, entry: dict[str, Any], finish: str) -> tuple[list[tuple[str, Any]], str]:
    translation = Exchange(client, "openai_chat").stream()
    written = translation.feed(streamed(entry, finish)) + translation.close()
    if translation.fault is not None:
        return [], translation.fault.code or ""
    return _summary(folded(read_events(client, [written])))


def _summary(response: Response) -> tuple[list[tuple[str, Any]], str]:
    calls = [(call.name, json.loads(call.arguments)) for call in response.content if isinstance(call, ToolCall)]
    return calls, response.stop.reason


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("client", NAMES)
def test_a_call_is_read_by_its_members_and_not_by_its_type(client: str, kind: str) -> None:
    calls, stop = received(client, CALLS[kind], "tool_calls")
    assert calls == [("f", {"a": 1})]
    assert stop == "tool_calls"


@pytest.mark.parametrize("kind", CALLS)
def test_a_chat_client_gets_the_entry_as_it_came(kind: str) -> None:
    data = whole(CALLS[kind], "tool_calls")
    again = Exchange("openai_chat", "openai_chat", verbatim=False).response(data)
    assert json.loads(again)["choices"][0]["message"]["tool_calls"] == [CALLS[kind]]


@pytest.mark.parametrize("kind", NO_CALLS)
@pytest.mark.parametrize("client", [name for name in NAMES if name != "openai_chat"])
def test_an_answer_that_stops_for_calls_that_cannot_be_given_is_an_error(client: str, kind: str) -> None:
    assert received(client, NO_CALLS[kind], "tool_calls") == ([], "malformed_tool_call")


@pytest.mark.parametrize("kind", ["empty", "only a type", "empty function"])
@pytest.mark.parametrize("client", NAMES)
def test_an_empty_entry_of_an_answer_without_calls_is_left_out(client: str, kind: str) -> None:
    assert received(client, NO_CALLS[kind], "stop") == ([], "end")


def test_the_type_of_a_call_in_a_history_stays_in_its_own_dialect() -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALLS["of another type"]]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    assert json.loads(Exchange("openai_chat", "openai_chat", verbatim=False).request(body))["messages"] == messages
    sent = json.loads(Exchange("openai_chat", "anthropic").request(body))["messages"]
    assert [block["type"] for message in sent[1:] for block in message["content"]] == ["tool_use", "tool_result"]
