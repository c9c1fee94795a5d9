"""A recorded exchange, run again through today's code, for its own client or for one of another dialect.

The recording tells the dialects, the models, how they were set and what was said, by tools and by the store, too. An
older one does not tell how models were set. That is found by trying: the settings with which today's requests are the
recorded ones, or the nearest to them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from toolglot.dialects import DIALECTS, STORED, find
from toolglot.errors import DecodeError, LossError, RefusedError, ToolglotError, UnknownDialectError
from toolglot.recordings.comparison import Comparison, Outcome, compared
from toolglot.recordings.read import Recording
from toolglot.recordings.rerun.scene import Question, Settings, play, rounds_of
from toolglot.recordings.rerun.stored import RecordedStore
from toolglot.recordings.settings import why_not_again
from toolglot.recordings.wording import decoded
from toolglot.server.responses_state import expand
from toolglot.textcalls import FORMATS
from toolglot.translate import Exchange
from toolglot.upstream.replay.matching import request_document
from toolglot.upstream.tool_mode import uses_tools
from toolglot.wire import json

_JSON = "application/json"
_PROTOBUF = "application/x-protobuf"


class Rerun(Struct, frozen=True):
    outcome: Outcome
    comparison: Comparison


class NotRerunError(ToolglotError):
    """This exchange cannot be run again by itself."""


class NothingToRerunError(NotRerunError):
    """The gateway refused the request by itself, for reasons that are not in the recording: its configuration, or what
    it had stored."""

    def __init__(self) -> None:
        super().__init__("refused before any upstream was asked: nothing to replay")


async def rerun(recording: Recording, client: str | None = None) -> Rerun:
    """The exchange today. `client` is the dialect of whoever asks, the recorded one unless it is told.

    Raises:
        NothingToRerunError: no upstream was asked, and today's code would ask one.
        NotRerunError: it cannot be run again by itself.
    """
    _refuse(recording)
    if _was_refused(recording) and client not in (None, recording.head.client):
        raise NothingToRerunError
    question = await question_of(recording, client or recording.head.client)
    best: Rerun | None = None
    for settings in _candidates(recording):
        outcome = await play(recording, question, settings)
        if outcome.sent and _was_refused(recording):
            raise NothingToRerunError
        if outcome.sent and not recording.attempts:
            raise NotRerunError("no upstream was asked, and which there were the recording does not tell")
        made = Rerun(outcome, compared(recording, outcome, request_document))
        if best is None or _distance(made) < _distance(best):
            best = made
        if not made.comparison.differs:
            break
    assert best is not None
    return best


def _was_refused(recording: Recording) -> bool:
    return not recording.attempts and recording.response is not None and recording.response.status >= 400


def _distance(made: Rerun) -> tuple[int, int]:
    requests = made.comparison.requests
    return sum(map(len, requests)), len(made.comparison.answer) + len(made.comparison.receipt)


def _refuse(recording: Recording) -> None:
    for dialect in (recording.head.client, *(attempt.request.dialect for attempt in recording.attempts)):
        if dialect not in DIALECTS:
            raise NotRerunError(str(UnknownDialectError(dialect, tuple(DIALECTS))))
    if recording.served and recording.at_hand is None:
        raise NotRerunError("tools were run by the gateway in between, whose results are not in the recording")
    if not recording.attempts and recording.response is None:
        cut = None if recording.end is None else recording.end.cut
        raise NotRerunError(f"the recording is cut: {cut}" if cut else "the recording ends before anything was sent")
    if why := why_not_again(recording):
        raise NotRerunError(why)
    if recording.head.client != STORED or any(line.what == "history" for line in recording.reads):
        return
    asked = _members(recording.request.data)
    sent = _members(recording.attempts[0].request.data) if recording.attempts else {}
    for name in ("previous_response_id", "conversation"):
        if asked.get(name) is not None and sent.get(name) is None:
            if _was_refused(recording):
                raise NothingToRerunError
            raise NotRerunError(f"it goes on from what the gateway has stored ({name}), which is not in the recording")


def _members(data: bytes) -> dict[str, object]:
    try:
        value = json.decode_frame(data)
    except DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


async def question_of(recording: Recording, client: str) -> Question:
    """What the client asked, or what one of another dialect would have asked for the same: that one sends all of the
    conversation itself.

    Raises:
        NotRerunError: another dialect cannot ask for that.
    """
    request = recording.request
    if client == recording.head.client:
        return Question(client=client, path=request.path, headers=request.headers, body=request.data)
    exchange = Exchange(recording.head.client, client, verbatim=False)
    try:
        body = await _with_history(recording)
        body = exchange.request(body, model=recording.head.model, stream=recording.head.stream)
    except (DecodeError, LossError, RefusedError) as error:
        raise NotRerunError(f"a client of {client} cannot ask this: {error}") from None
    headers = {"content-type": find(client).headers.sent.get("content-type", _JSON)}
    return Question(client=client, path=exchange.path, headers=headers, body=body)


async def _with_history(recording: Recording) -> bytes:
    """The request with what it goes on from. Raises `RefusedError`."""
    if recording.head.client != STORED or not recording.reads:
        return recording.request.data
    store = RecordedStore(recording)
    try:
        return (await expand(recording.request.data, store, "")).body
    finally:
        await store.close()


def _candidates(recording: Recording) -> Iterator[Settings]:
    """Settings that the recorded model may have had, the likeliest first. Those that are told need not be tried."""
    yield Settings()
    if recording.results:
        # Whether there was time for another round no recording tells.
        yield Settings(rounds=len(rounds_of(recording)))
    if recording.attempts and all(attempt.request.settings is not None for attempt in recording.attempts):
        return
    yield Settings(verbatim=False)
    request = decoded(recording.head.client, recording.request.data)
    if request is None or not uses_tools(request):
        return
    several = len(recording.attempts) > 1
    if not _has_tools(recording):
        for text_format in FORMATS:
            yield Settings(tools=text_format)
            if several:
                yield Settings(tools=text_format, bad_calls="ask")
    yield Settings(rescue=True)
    if several:
        yield Settings(rescue=True, bad_calls="ask")


def _has_tools(recording: Recording) -> bool:
    """Were tools sent natively, or calls?"""
    first = recording.attempts[0].request if recording.attempts else None
    if first is None:
        return True
    try:
        return uses_tools(find(first.dialect).decode_request(first.data))
    except (DecodeError, RecursionError):
        return True
