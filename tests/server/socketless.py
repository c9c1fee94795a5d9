"""Requests and answers as they come from sockets, for tests of the gateway without sockets (`bench/socketless.py`)."""

from __future__ import annotations

import json
from typing import Any

TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {}}}}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Please read it."},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I will."},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "It says nothing."}]},
]
HEADERS = {"host": "localhost", "content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def asked(*, stream: bool = False, talk: list[dict[str, Any]] = TALK) -> bytes:
    """A plain request of a client of Messages, as it comes from the socket."""
    fields = {"model": "m", "max_tokens": 100, "messages": talk, "system": "Be brief.", "tools": [TOOL]}
    body = compact({**fields, "stream": stream})
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    return f"POST /v1/messages HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def chunk(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    fields = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + compact({**fields, "usage": None}) + b"\n\n"


def arguments(text: str) -> bytes:
    return chunk(tool_calls=[{"index": 0, "function": {"arguments": text}}])


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def framed(frames: list[bytes]) -> bytes:
    """Frames, each in a chunk of its own, as servers send them."""
    return b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames)


ANSWER = compact(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "It is empty.", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
)
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
