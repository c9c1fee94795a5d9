"""A member in a nonstandard form does not cost the answer, and blank calls are ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import fold, read_stream, translate_response, translate_stream
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Fault
from toolglot.ir import Text

LOOSE: list[tuple[str, Any]] = [
    ("id", 5),
    ("model", 7),
    ("created", 1712345678.25),
    ("created", "1712345678"),
    ("created", ""),
    ("created", "now"),
    ("system_fingerprint", False),
    ("usage", []),
    ("usage", ""),
    ("usage", False),
    ("choices.index", "0"),
    ("choices.index", 0.0),
    ("choices.index", None),
    ("choices.finish_reason", False),
    ("choices.logprobs", []),
    ("message.tool_calls", {}),
    ("message.tool_calls", ""),
    ("message.tool_calls", False),
    ("message.function_call", []),
    ("message.function_call", {}),
    ("message.function_call", {"name": None, "arguments": None}),
    ("message.function_call", {"name": "", "arguments": ""}),
    ("message.refusal", False),
    ("message.reasoning_content", False),
    ("message.annotations", ""),
]


def document(holder: str, path: str = "", value: Any = None) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": "Hello"}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if holder == "message" else None}
    body: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    owners = {"message": message, "choices": choice, "": body}
    owner, _, name = path.rpartition(".")
    if path:
        owners[owner][name] = value
    return json.dumps({**body, "choices": [{**choice, holder: message}]}).encode()


def streamed(*chunks: bytes, finish: str = "stop") -> bytes:
    last = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    frames = (*chunks, json.dumps(last).encode(), b"[DONE]")
    return b"".join(b"data: %b\n\n" % frame for frame in frames)


@pytest.mark.parametrize(("path", "value"), LOOSE)
def test_a_loose_member_does_not_cost_the_answer(path: str, value: Any) -> None:
    whole = translate_response(document("message", path, value), "openai_chat", "anthropic")
    assert [block["text"] for block in json.loads(whole.data)["content"]] == ["Hello"]
    stream = translate_stream([streamed(document("delta", path, value))], "openai_chat", "anthropic")
    assert fold(read_stream([b"".join(stream)], "anthropic")).content == (Text(text="Hello"),)
    assert not [*whole.receipt.losses, *stream.receipt.losses]


def test_ids_and_times_of_another_form_are_kept() -> None:
    for path, value, written in (("id", 5, "5"), ("created", 1712345678.25, 1712345678), ("created", "7", 7)):
        answer = json.loads(
            translate_response(document("message", path, value), "openai_chat", "openai_responses").data
        )
        assert answer["id" if path == "id" else "created_at"] == written


@pytest.mark.parametrize(("path", "value"), [("choices", {}), ("choices", 7), ("message.content", 7)])
def test_what_cannot_be_put_right_is_an_error_with_its_place(path: str, value: Any) -> None:
    body = json.loads(document("message", path if "." in path else "", value))
    body = body if "." in path else {**body, path: value}
    with pytest.raises(DecodeError, match=path.rpartition(".")[2]):
        translate_response(json.dumps(body).encode(), "openai_chat", "anthropic")


BLANK = {"index": 0, "id": "", "type": "function", "function": {"name": "", "arguments": ""}}


def test_a_blank_call_is_ignored() -> None:
    whole = translate_response(document("message", "message.tool_calls", [BLANK]), "openai_chat", "anthropic")
    assert [block["type"] for block in json.loads(whole.data)["content"]] == ["text"]
    stream = translate_stream([streamed(document("delta", "message.tool_calls", [BLANK]))], "openai_chat", "anthropic")
    assert b"message_stop" in b"".join(stream)


def test_a_blank_call_with_the_finish_reason_tool_calls_is_an_error() -> None:
    body = json.loads(document("message", "message.tool_calls", [BLANK]))
    body["choices"][0]["finish_reason"] = "tool_calls"
    with pytest.raises(UpstreamError, match="without a name"):
        translate_response(json.dumps(body).encode(), "openai_chat", "anthropic")
    data = streamed(document("delta", "message.tool_calls", [BLANK]), finish="tool_calls")
    assert isinstance([*read_stream([data], "openai_chat")][-1], Fault)


def test_a_call_may_follow_its_empty_beginning() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}
    chunks = [document("delta", "message.tool_calls", [entry]) for entry in (BLANK, call)]
    (_, found) = fold(read_stream([streamed(*chunks, finish="tool_calls")], "openai_chat")).content
    assert getattr(found, "name", None) == "look"
