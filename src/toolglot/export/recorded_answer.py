"""Read the answer that a client got from a recording, even if the answer or the recording breaks off."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Close, Event, Fault, Finish, Fold, Open
from toolglot.ir import Request, Response, Stop
from toolglot.receipt import Receipt
from toolglot.recordings.read import Recording

UNFINISHED_ANSWER = Stop("other")


class RecordedAnswer(Struct, frozen=True):
    """The answer in a recording. `response` is None if the answer has no content. `missing` describes the missing
    parts."""

    response: Response | None = None
    missing: str | None = None


def read_answer(recording: Recording, client: Dialect, asked: Request) -> RecordedAnswer:
    status = recording.response.status if recording.response is not None else 200
    if not recording.body:
        return RecordedAnswer(missing=_missing_reason(recording) or "the recording ends before it")
    if status >= 400:
        headers = recording.response.headers if recording.response is not None else {}
        error = client.decode_error(status, headers, recording.body)
        return RecordedAnswer(missing=f"the client got an error: {error.message or status}")
    if client.upstream.answering is not None:
        client = client.upstream.answering(client, asked)
    if not client.stream.framing.is_document(recording.body):
        return _read_stream(recording, client)
    try:
        return RecordedAnswer(client.decode_response(recording.body))
    except (DecodeError, UpstreamError) as error:
        return RecordedAnswer(missing=_missing_reason(recording) or str(error))


def _read_stream(recording: Recording, client: Dialect) -> RecordedAnswer:
    decoder = client.stream_decoder(Receipt())
    events = [event for piece in recording.pieces for event in decoder.feed(piece.data)]
    return _fold_events([*events, *decoder.close()], _missing_reason(recording))


def _fold_events(events: Iterable[Event], why: str | None) -> RecordedAnswer:
    """Fold the events of a stream. An open block is cut off."""
    fold = Fold()
    still_open: list[int] = []
    missing: str | None = None
    for event in events:
        if isinstance(event, Fault):
            missing = why or event.error.message
            break
        fold.add(event)
        if isinstance(event, Open):
            still_open.append(event.index)
        elif isinstance(event, Close):
            still_open.remove(event.index)
    if missing is not None:
        for index in still_open:
            fold.add(Close(index=index, complete=False))
        fold.add(Finish(stop=UNFINISHED_ANSWER))
    response = fold.response()
    return RecordedAnswer(response if response.content or missing is None else None, missing)


def _missing_reason(recording: Recording) -> str | None:
    end = recording.end
    if end is None:
        return "the recording breaks off"
    if end.cut is not None:
        return f"the recording is cut: {end.cut}"
    if end.cancelled:
        return "the client disconnected"
    return end.message or end.error
