"""What a recorded answer has of ours that is never the same twice: its time, from a clock, and its id, from chance.

Whoever gives the answer again feeds both in, so that the same bytes come of it.
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
from toolglot.recordings.frames import Cutter, payload_of
from toolglot.recordings.read import Recording
from toolglot.wire import json


class Label(Struct, frozen=True):
    """`created` and `completed` are in Unix seconds; None where nobody can tell."""

    created: int | None = None
    answer_id: str = ""
    completed: int | None = None

    def clock(self) -> float | None:
        """The time at which the answer ended."""
        return self.completed


def label_of(recording: Recording) -> Label:
    """The time that the client was told; where its dialect tells none, the time of the request."""
    start = start_of(recording)
    created = None if start is None else start.created
    if created is None:
        created = _time_in_words(recording.body)
    started = _time(recording.head.time) if created is None else created
    return Label(started, answer_id(recording.head.id), completed_of(recording))


_COMPLETED = re.compile(rb'"completed_at": ?(\d+)')


def completed_of(recording: Recording) -> int | None:
    """The time that the client was told for the end of its answer."""
    told = _COMPLETED.findall(recording.body)
    return int(told[-1]) if told else None


def answer_id(request_id: str) -> str:
    """The id of an answer to this request, where its upstream tells none."""
    return request_id.replace("req_", "resp_")


def start_of(recording: Recording) -> Start | None:
    """How the recorded answer begins, as its client reads it; None where it is none."""
    if recording.response is None or recording.response.status != 200 or not recording.pieces:
        return None
    return first_start(recording.head.client, recording.body)


def first_start(client: str, answer: bytes) -> Start | None:
    """How an answer begins, streamed or whole."""
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


def _time_in_words(answer: bytes) -> int | None:
    """Gemini's, which is no part of an event."""
    cutter = Cutter()
    frame = next(iter((*cutter.feed(answer), *cutter.close())), b"")
    try:
        value = json.decode_frame(payload_of(frame))
    except DecodeError:
        return None
    told = value.get("createTime") if isinstance(value, dict) else None
    return _time(told) if isinstance(told, str) else None


def _time(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None
