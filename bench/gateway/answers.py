"""What the upstream of the benchmark answers, in four dialects: a text and a call of one tool.

The texts have marks, which the upstream fills in (`bench/native/common.h`): the number in a mark's time is its place.
A stream is a list of chunks, each of which goes out in a write of its own when there is a pace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

Dialect = Literal["anthropic", "openai_chat", "openai_responses", "gemini"]

TEXT_CHUNKS = 187
"""Chunks of a stream that carry text, and with it a mark: these are what is counted."""
BRIEF_CHUNKS = 3
"""Of a brief one, whose first chunk is what matters."""

TOOL = "Read"
ARGUMENTS = {"file_path": "/tmp/some/file_name.txt"}
PIECES = ('{"fi', "le_pa", 'th":', '"/tm', "p/so", "me/fi", "le_na", "me.tx", 't"}')
CALL_ID = "call_abc123XYZ456"
SENTENCE = "Let me read the file and see what it says about the configuration of the server before I change it."
OUTPUT_TOKENS = 200
INPUT_TOKENS: dict[Dialect, int] = {"openai_chat": 1234, "anthropic": 1235, "openai_responses": 1236, "gemini": 1237}
"""Each API has a number of its own, which tells by which one a gateway has asked."""

STREAMS = {"stream": TEXT_CHUNKS, "brief": BRIEF_CHUNKS}
CHUNK_END = b"\x1e"


def mark(place: int) -> str:
    return f"T{place:019}N{0:010}"


def text(place: int) -> str:
    return f"{mark(place)} tok"


def plain_answers() -> dict[Dialect, dict[str, Any]]:
    said = f"{mark(0)} {SENTENCE}"
    return {
        "openai_chat": {
            **_chat_head("chat.completion"),
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": said,
                        "refusal": None,
                        "annotations": [],
                        "tool_calls": [_chat_call(json.dumps(ARGUMENTS))],
                    },
                    "logprobs": None,
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": _CHAT_USAGE,
        },
        "anthropic": {
            **_ANTHROPIC_HEAD,
            "content": [
                {"type": "text", "text": said},
                {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": ARGUMENTS},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS["anthropic"], "output_tokens": OUTPUT_TOKENS},
        },
        "openai_responses": _response("completed", [_message(said), _call()]),
        "gemini": _gemini([{"text": said}, _GEMINI_CALL], finished=True),
    }


def _chat_head(kind: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012",
        "object": kind,
        "created": 1763164800,
        "model": "gpt-4o-mini-2024-07-18",
        "service_tier": "default",
        "system_fingerprint": "fp_560af6e559",
    }


def _chat_call(arguments: str) -> dict[str, Any]:
    return {"id": CALL_ID, "type": "function", "function": {"name": TOOL, "arguments": arguments}}


_CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS["openai_chat"],
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS["openai_chat"] + OUTPUT_TOKENS,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}

_ANTHROPIC_HEAD = {
    "id": "msg_01AbCdEfGhIjKlMnOpQrStUv",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
}


def _message(said: str) -> dict[str, Any]:
    content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": said}]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}


def _call(arguments: str = json.dumps(ARGUMENTS), status: str = "completed") -> dict[str, Any]:
    return {
        "id": "fc_1",
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": CALL_ID,
        "name": TOOL,
    }


def _response(status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": INPUT_TOKENS["openai_responses"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT_TOKENS["openai_responses"] + OUTPUT_TOKENS,
    }
    return {
        "id": "resp_0123456789abcdef",
        "object": "response",
        "created_at": 1763164800,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-4o-mini-2024-07-18",
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if status == "completed" else None,
    }


_GEMINI_CALL = {"functionCall": {"name": TOOL, "args": ARGUMENTS}}


def _gemini(parts: list[dict[str, Any]], *, finished: bool) -> dict[str, Any]:
    """An answer, or a chunk of one: both have the same shape."""
    usage = {"promptTokenCount": INPUT_TOKENS["gemini"], "totalTokenCount": INPUT_TOKENS["gemini"] + OUTPUT_TOKENS}
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": "STOP"} if finished else {})],
        "usageMetadata": usage | {"candidatesTokenCount": OUTPUT_TOKENS},
        "modelVersion": "gemini-2.5-flash",
        "responseId": "AbCdEfGhIjKlMnOpQrSt",
    }


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _chat_chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return f"data: {_compact({**_chat_head('chat.completion.chunk'), 'choices': [choice], 'usage': None})}\n\n"


def _chat_stream(length: int) -> Iterator[str]:
    yield _chat_chunk({"role": "assistant", "content": "", "refusal": None})
    for place in range(length):
        yield _chat_chunk({"content": text(place)})
    yield _chat_chunk({"tool_calls": [{"index": 0, **_chat_call("")}]})
    for piece in PIECES:
        yield _chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield _chat_chunk({}, "tool_calls")
    yield f"data: {_compact({**_chat_head('chat.completion.chunk'), 'choices': [], 'usage': _CHAT_USAGE})}\n\n"
    yield "data: [DONE]\n\n"


def _events(*values: dict[str, Any]) -> str:
    return "".join(f"event: {value['type']}\ndata: {_compact(value)}\n\n" for value in values)


def _anthropic_stream(length: int) -> Iterator[str]:
    usage = {"input_tokens": INPUT_TOKENS["anthropic"], "output_tokens": 1}
    empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield _events(
        {"type": "message_start", "message": {**_ANTHROPIC_HEAD, **empty}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    )
    for place in range(length):
        delta = {"type": "text_delta", "text": text(place)}
        yield _events({"type": "content_block_delta", "index": 0, "delta": delta})
    block = {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": {}}
    yield _events(
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": block},
    )
    for piece in PIECES:
        delta = {"type": "input_json_delta", "partial_json": piece}
        yield _events({"type": "content_block_delta", "index": 1, "delta": delta})
    yield _events({"type": "content_block_stop", "index": 1})
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    yield _events({"type": "message_delta", "delta": stop, "usage": {"output_tokens": OUTPUT_TOKENS}})
    yield _events({"type": "message_stop"})


def _responses_chunks(length: int) -> Iterator[list[dict[str, Any]]]:
    whole = "".join(text(place) for place in range(length))
    empty = {**_message(""), "status": "in_progress", "content": []}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    in_text = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    in_call = {"item_id": "fc_1", "output_index": 1}
    yield [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.in_progress", "response": _response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **in_text, "part": part},
    ]
    for place in range(length):
        yield [{"type": "response.output_text.delta", **in_text, "delta": text(place), "logprobs": []}]
    yield [
        {"type": "response.output_text.done", **in_text, "text": whole, "logprobs": []},
        {"type": "response.content_part.done", **in_text, "part": {**part, "text": whole}},
        {"type": "response.output_item.done", "output_index": 0, "item": _message(whole)},
        {"type": "response.output_item.added", "output_index": 1, "item": _call("", "in_progress")},
    ]
    for piece in PIECES:
        yield [{"type": "response.function_call_arguments.delta", **in_call, "delta": piece}]
    arguments = "".join(PIECES)
    yield [
        {"type": "response.function_call_arguments.done", **in_call, "arguments": arguments},
        {"type": "response.output_item.done", "output_index": 1, "item": _call(arguments)},
    ]
    yield [{"type": "response.completed", "response": _response("completed", [_message(whole), _call(arguments)])}]


def _responses_stream(length: int) -> Iterator[str]:
    number = 0
    for chunk in _responses_chunks(length):
        numbered = [{**event, "sequence_number": number + place} for place, event in enumerate(chunk)]
        number += len(chunk)
        yield _events(*numbered)


def _gemini_stream(length: int) -> Iterator[str]:
    for place in range(length):
        yield f"data: {_compact(_gemini([{'text': text(place)}], finished=False))}\r\n\r\n"
    yield f"data: {_compact(_gemini([_GEMINI_CALL], finished=True))}\r\n\r\n"


def streams(length: int = TEXT_CHUNKS) -> dict[Dialect, list[str]]:
    """The chunks of each dialect's stream, as many of them with text."""
    return {
        "openai_chat": list(_chat_stream(length)),
        "anthropic": list(_anthropic_stream(length)),
        "openai_responses": list(_responses_stream(length)),
        "gemini": list(_gemini_stream(length)),
    }


def write_answers(folder: Path) -> None:
    """The files that the upstream reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for dialect, answer in plain_answers().items():
        (folder / f"{dialect}.plain").write_text(_compact(answer))
    for kind, length in STREAMS.items():
        for dialect, chunks in streams(length).items():
            (folder / f"{dialect}.{kind}").write_bytes(b"".join(chunk.encode() + CHUNK_END for chunk in chunks))
