"""Recorded exchanges made by hand: real bytes of both sides, and times that are the same in every run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from toolglot.recordings.format import (
    VERSION,
    AnyLine,
    ClientData,
    ClientResponse,
    ReceiptLines,
    RecordedClientRequest,
    RecordingEnd,
    RecordingHead,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
    body_members,
    encoder,
)
from toolglot.recordings.read import Recording, read_recording
from toolglot.translate import ExchangeCore
from toolglot.wire import json

Line = TypeVar("Line", RecordedClientRequest, UpstreamRequest, UpstreamData, ClientData)

STEP = 0.05
CREATED = 1767323046
"""A second later than the request came."""
SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}


def _with(line: Line, data: bytes) -> Line:
    return replace(line, **body_members(data))


def lines_of(recording: Iterable[AnyLine]) -> bytes:
    return b"".join(encoder.encode(line) + b"\n" for line in recording)


def as_recording(lines: Iterable[AnyLine]) -> Recording:
    return read_recording(lines_of(lines))


def exchange(
    client: str,
    upstream: str,
    request: dict[str, Any] | bytes,
    answer: bytes | Sequence[bytes],
    *,
    model: str | None = None,
    identity: str = "req_1",
    time: str = "2026-01-02T03:04:05Z",
) -> list[AnyLine]:
    """One exchange as the gateway writes it down. An answer in pieces is a stream; one that is not is a document."""
    body = request if isinstance(request, bytes) else json.encode(request)
    streams = not isinstance(answer, bytes)
    made = ExchangeCore(client, upstream, model=model, created=CREATED, answer_id=identity.replace("req_", "resp_"))
    asked = made.client.decode_request(body)
    sent = made.request(body, model=asked.model or "gemini-3-pro", stream=streams)
    assert made.sent is not None
    assert made.asked is not None
    lines: list[AnyLine] = [
        RecordingHead(version=VERSION, id=identity, time=time, client=client, model=made.asked.model, stream=streams),
        _with(RecordedClientRequest(path=made.client.path(made.asked), headers=JSON), body),
        _with(
            UpstreamRequest(
                at=STEP,
                upstream="there",
                dialect=upstream,
                model=made.sent.model,
                stream=streams,
                url=f"https://example.com{made.path}",
            ),
            sent,
        ),
        UpstreamResponse(at=2 * STEP, headers=SSE if streams else JSON),
    ]
    lines += _streamed(made, answer) if not isinstance(answer, bytes) else _whole(made, answer)
    receipt = [{"severity": r.severity, "where": r.where, "what": r.what, "why": r.why} for r in made.receipt]
    at = lines[-1].at + STEP
    return [*lines, ReceiptLines(at=at, lines=receipt), RecordingEnd(at=at, stop="end", usage={"input_tokens": 3})]


def _streamed(made: ExchangeCore, answer: Iterable[bytes]) -> list[AnyLine]:
    translation = made.stream()
    lines: list[AnyLine] = []
    at = 2 * STEP
    begun = False
    for piece in [*answer, b""]:
        at = round(at + STEP, 3)
        lines.append(_with(UpstreamData(at=at), piece) if piece else UpstreamEnd(at=at))
        written = translation.feed(piece) if piece else translation.close()
        if written:
            lines += [] if begun else [ClientResponse(at=at, headers=SSE)]
            lines.append(_with(ClientData(at=at), written))
            begun = True
    return lines


def _whole(made: ExchangeCore, answer: bytes) -> list[AnyLine]:
    written = made.response(answer)
    return [
        _with(UpstreamData(at=3 * STEP), answer),
        UpstreamEnd(at=3 * STEP),
        ClientResponse(at=4 * STEP, headers=JSON),
        _with(ClientData(at=4 * STEP), written),
    ]
