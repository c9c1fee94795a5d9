"""Small sound streams of every dialect, to be broken one rule at a time."""

from __future__ import annotations

import json
from typing import Any

from tests.warp_server import frames, story
from toolglot.dialects import DIALECTS

Fields = dict[str, Any]


def sse(events: list[Fields], named: bool) -> bytes:
    """Events as bytes, with an `event:` line for those dialects that have one."""
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event, separators=(',', ':'))}\n\n"
        for event in events
    ]
    return "".join(lines).encode()


def chunk(delta: Fields, finish: str | None = None, **more: Any) -> Fields:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
        **more,
    }


def call(index: int, arguments: str, call_id: str = "", name: str = "") -> Fields:
    head = {"id": call_id, "type": "function"} if call_id else {}
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"tool_calls": [{"index": index, **head, "function": function}]}


CHAT: list[Fields] = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hello"}),
    chunk(call(0, "", "call_a", "f")),
    chunk(call(0, '{"a":')),
    chunk(call(0, "1}")),
    chunk(call(1, "{}", "call_b", "g")),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
]
DONE = b"data: [DONE]\n\n"


def chat(events: list[Fields]) -> bytes:
    return sse(events, named=False) + DONE


def block(index: int, content: Fields, *deltas: Fields) -> list[Fields]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


ANTHROPIC: list[Fields] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 1},
        },
    },
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "c2ln"},
    ),
    *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hello"}),
    {"type": "ping"},
    *block(
        2,
        {"type": "tool_use", "id": "toolu_a", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": "1}"},
    ),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
]


def anthropic(events: list[Fields]) -> bytes:
    return sse(events, named=True)


MESSAGE: Fields = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}
CALL: Fields = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_a",
    "name": "f",
    "arguments": '{"a":1}',
}
RESPONSE: Fields = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
_PART: Fields = {"type": "output_text", "text": "", "annotations": []}
_TEXT: Fields = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
_ARGUMENTS: Fields = {"item_id": "fc_1", "output_index": 1}


def _response(**fields: Any) -> Fields:
    return {**RESPONSE, **fields}


RESPONSES: list[Fields] = [
    {"type": "response.created", "response": _response(status="in_progress")},
    {"type": "response.in_progress", "response": _response(status="in_progress")},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**MESSAGE, "status": "in_progress", "content": []},
    },
    {"type": "response.content_part.added", **_TEXT, "part": _PART},
    {"type": "response.output_text.delta", **_TEXT, "delta": "Hel", "logprobs": []},
    {"type": "response.output_text.delta", **_TEXT, "delta": "lo", "logprobs": []},
    {"type": "response.output_text.done", **_TEXT, "text": "Hello", "logprobs": []},
    {"type": "response.content_part.done", **_TEXT, "part": MESSAGE["content"][0]},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    {
        "type": "response.output_item.added",
        "output_index": 1,
        "item": {**CALL, "status": "in_progress", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", **_ARGUMENTS, "delta": '{"a":1}'},
    {"type": "response.function_call_arguments.done", **_ARGUMENTS, "arguments": '{"a":1}', "name": "f"},
    {"type": "response.output_item.done", "output_index": 1, "item": CALL},
    {
        "type": "response.completed",
        "response": _response(
            status="completed",
            output=[MESSAGE, CALL],
            usage={
                "input_tokens": 1,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 1,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 2,
            },
        ),
    },
]


def responses(events: list[Fields]) -> bytes:
    """Numbered in order, unless an event brings its own number."""
    return sse([{"sequence_number": number, **event} for number, event in enumerate(events)], named=True)


def candidate(*parts: Fields, **more: Any) -> Fields:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}


GEMINI: list[Fields] = [
    candidate({"text": "Hello"}),
    candidate({"functionCall": {"id": "a", "name": "f", "args": {"some_key": 1}}, "thoughtSignature": "c2lnbmVk"}),
    {
        **candidate({"text": ""}, finishReason="STOP"),
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "m",
        "responseId": "r",
    },
]


def gemini(events: list[Fields]) -> bytes:
    return sse(events, named=False)


WARP: list[Fields] = [
    *story.opening(),
    *story.spoken("Hel", "lo"),
    story.add(story.called(4, "call-a", "f", {"a": 1})),
    story.finished(),
]


def warp(events: list[Fields]) -> bytes:
    return frames.stream(events)


OLLAMA: list[Fields] = [
    {"model": "m", "message": {"role": "assistant", "content": "Hel"}, "done": False},
    {"model": "m", "message": {"role": "assistant", "content": "lo"}, "done": False},
    {
        "model": "m",
        "message": {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_a", "function": {"name": "f", "arguments": {"a": 1}}}],
        },
        "done": False,
    },
    {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 5,
        "eval_count": 3,
    },
]


def ollama(lines: list[Fields]) -> bytes:
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


_STREAMS: dict[str, bytes] = {
    "openai_chat": chat(CHAT),
    "openai_responses": responses(RESPONSES),
    "anthropic": anthropic(ANTHROPIC),
    "gemini": gemini(GEMINI),
    "warp": warp(WARP),
    "ollama": ollama(OLLAMA),
}
WHOLE_CALLS = frozenset({"gemini", "warp", "ollama"})
"""Dialects whose streams have a call whole or not at all."""

SOUND = {name: stream for name, stream in _STREAMS.items() if name in DIALECTS}
