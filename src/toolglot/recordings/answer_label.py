"""The parts of a recorded answer that come from the gateway and differ every time: its time and its random id.

A replay sets both, so that it gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from toolglot.dialects import find
from toolglot.errors import DecodeError, MissingExtraError, UnknownDialectError, UpstreamError
from toolglot.events import Event, Start, unfold
from toolglot.receipt import Receipt
from toolglot.recordings.frame_cells import FrameSplitter, frame_payload
from toolglot.recordings.read import Recording
from toolglot.wire import json


class AnswerLabel(Struct, frozen=True):
    """Label of an answer. `created` and `completed` are in Unix seconds; None if unknown."""

    created: int | None = None
    answer_id: str = ""
    completed: int | None = None

    def clock(self) -> float | None:
        """Return the time at which the answer ended."""
        return self.completed


def answer_label(recording: Recording) -> AnswerLabel:
    """Return the time in the client's answer; if its dialect has none, the time of the request."""
    start = recorded_start(recording)
    created = None if start is None else start.created
    if created is None:
        created = _create_time(recording.body)
    started = _parse_time(recording.head.time) if created is None else created
    return AnswerLabel(started, answer_id(recording.head.id), completed_time(recording))


_COMPLETED = re.compile(rb'"completed_at": ?(\d+)')


def completed_time(recording: Recording) -> int | None:
    """Return the end time of the answer that the client got."""
    told = _COMPLETED.findall(recording.body)
    return int(told[-1]) if told else None


def answer_id(request_id: str) -> str:
    """Return the id of an answer to this request, if its upstream sends none."""
    return request_id.replace("req_", "resp_")


def recorded_start(recording: Recording) -> Start | None:
    """Return the beginning of the recorded answer, as its client reads it; None if there is no answer."""
    if recording.response is None or recording.response.status != 200 or not recording.pieces:
        return None
    return first_start(recording.head.client, recording.body)


def first_start(client: str, answer: bytes) -> Start | None:
    """Return the beginning of an answer, streamed or whole."""
    for event in _events(client, answer):
        if isinstance(event, Start):
            return event
    return None


def _events(client: str, answer: bytes) -> Iterator[Event]:
    try:
        dialect = find(client)
    except (UnknownDialectError, MissingExtraError):
        return  # of another version, or of a client that cannot be read here
    if dialect.stream.framing.is_document(answer):
        try:
            yield from unfold(dialect.decode_response(answer))
        except (DecodeError, UpstreamError, RecursionError):
            return
    else:
        decoder = dialect.stream_decoder(Receipt())
        for at in range(0, len(answer), _PIECE):  # the rest is not read once the beginning is known
            yield from decoder.feed(answer[at : at + _PIECE])


_PIECE = 4096


def _create_time(answer: bytes) -> int | None:
    """Parse the time of Gemini's API, which is not part of an event."""
    cutter = FrameSplitter()
    frame = next(iter((*cutter.feed(answer), *cutter.close())), b"")
    try:
        value = json.decode_frame(frame_payload(frame))
    except DecodeError:
        return None
    told = value.get("createTime") if isinstance(value, dict) else None
    return _parse_time(told) if isinstance(told, str) else None


def _parse_time(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None
