"""The recordings: one turn of a model in the wire form of each dialect, and the same turn through toolglot."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolglot.translate import ExchangeCore

from .answers import Answer, Call
from .loopback import pieces

FOLDER = Path(__file__).parent / "recordings"

WEATHER = {"city": "Zürich", "days": 2, "units": {"wind": "km/h"}, "hours": [6, 18.5]}
TIME = {"timezone": "Europe/Zurich"}
TEXT = "Let me check both: Zürich ☂ first."
THINKING = "Two places, two tools.\nAsk both at once."

STOPS = {
    "tool_calls": {
        "openai_chat": "tool_calls",
        "openai_responses": "completed",
        "anthropic": "tool_use",
        "gemini": "STOP",
    },
    "end": {"openai_chat": "stop", "openai_responses": "completed", "anthropic": "end_turn", "gemini": "STOP"},
    "length": {
        "openai_chat": "length",
        "openai_responses": "incomplete:max_output_tokens",
        "anthropic": "max_tokens",
        "gemini": "MAX_TOKENS",
    },
}

_PARALLEL = [Call(None, "get_weather", WEATHER), Call(None, "get_time", TIME)]
TURNS = {
    "parallel_calls": Answer(TEXT, THINKING, _PARALLEL, "tool_calls", 120, 60, 40),
    "interleaved_calls": Answer("", "", _PARALLEL, "tool_calls", 120, 60, 40),
    "no_arguments": Answer("", "", [Call(None, "refresh", {})], "tool_calls", 12, 7, 0),
    "plain_text": Answer(TEXT, "", [], "end", 12, 7, 0),
}
"""What each recording means, the same in every dialect. Ids are the recording's own and are not compared."""

_SIGNATURE = base64.b64encode(b"thinking signature of the recording").decode()
_SECOND = base64.b64encode(b"second opaque state \x00\xff").decode()
STATE = {
    "openai_chat": [],
    "openai_responses": [_SIGNATURE + _SECOND],
    "anthropic": [_SIGNATURE, _SECOND],
    "gemini": [_SIGNATURE],
}
"""What the model of each dialect must get back of the parallel calls, byte for byte, when the turn goes on."""

# Arguments that come in pieces, and blocks that come interleaved, exist in streams only.
STREAMED_ONLY = frozenset({"interleaved_calls"})


def recording(dialect: str, turn: str, *, streams: bool) -> bytes:
    return (FOLDER / dialect / f"{turn}.{'sse' if streams else 'json'}").read_bytes()


def through(
    data: bytes,
    source: str,
    client: str,
    *,
    streams: bool,
    verbatim: bool = False,
    asked: dict[str, Any] | None = None,
) -> bytes:
    """An answer of the source's dialect as the client gets it, who has asked for it with `asked`.

    Where both speak the same dialect toolglot forwards the bytes; here they are decoded and encoded nevertheless,
    unless `verbatim`, so that every encoder meets every SDK.
    """
    exchange = ExchangeCore(client, source)
    if asked is not None:
        exchange.request(json.dumps(asked).encode())
    if not verbatim:
        exchange.verbatim = False
    if not streams:
        return exchange.response(data)
    translation = exchange.stream()
    return b"".join([translation.feed(piece) for piece in pieces(data)] + [translation.close()])


def frames(data: bytes) -> list[bytes]:
    """The server-sent events of a stream, each with its blank line."""
    return [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]


END_MARKS = {
    "openai_chat": b'"finish_reason":"',
    "openai_responses": b"response.completed",
    "anthropic": b"message_delta",
    "gemini": b'"finishReason"',
}


def truncations(dialect: str) -> Iterator[bytes]:
    """The first turn, cut: before each frame up to the one that ends it, and in the middle of each."""
    yield b""
    sent = b""
    for frame in frames(recording(dialect, "parallel_calls", streams=True)):
        if END_MARKS[dialect] in frame:
            return
        yield sent + frame[: len(frame) // 2]
        sent += frame
        yield sent


SOURCES = list(STATE)
