"""Run a recorded exchange through the current code, for its own client or for a client of another dialect. The
recording has the dialects, the models, their settings and the whole conversation, including the data of tools and the
store. Older recordings lack the models' settings. They are found by trial: the settings with which the new requests
equal the recorded ones, or come closest.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from toolglot.dialects import DIALECTS, STORED, find
from toolglot.errors import DecodeError, LossError, RefusedError, ToolglotError, UnknownDialectError
from toolglot.gateway.features.responses_history import expand
from toolglot.recordings.comparison import Comparison, RerunOutcome, compare_rerun
from toolglot.recordings.read import Recording
from toolglot.recordings.recorded_settings import missing_content
from toolglot.recordings.rerun.recorded_store import RecordedStore
from toolglot.recordings.rerun.replay_setup import ReplayQuestion, ReplaySettings, call_rounds, replay_question
from toolglot.recordings.summaries import decode_request
from toolglot.textcalls import FORMATS
from toolglot.translate import ExchangeCore
from toolglot.upstream.replay.matching import request_document
from toolglot.upstream.tool_mode import uses_tools
from toolglot.wire import json

_JSON = "application/json"


class Rerun(Struct, frozen=True):
    outcome: RerunOutcome
    comparison: Comparison


class NotRerunError(ToolglotError):
    """This exchange cannot be run again by itself."""


class NothingToRerunError(NotRerunError):
    """The gateway itself refused the request, for reasons that are not in the recording: its configuration, or its
    stored data.
    """

    def __init__(self) -> None:
        super().__init__("refused before any upstream was contacted: nothing to replay")


async def rerun(recording: Recording, client: str | None = None) -> Rerun:
    """Run the exchange with the current code. `client` is the dialect of the caller, by default the recorded one.
    Raises: NothingToRerunError: no upstream was called, and the current code would call one. NotRerunError: it cannot
    be run again by itself.
    """
    _check_rerunnable(recording)
    if _was_refused(recording) and client not in (None, recording.head.client):
        raise NothingToRerunError
    question = await make_question(recording, client or recording.head.client)
    best: Rerun | None = None
    for settings in _candidate_settings(recording):
        outcome = await replay_question(recording, question, settings)
        if outcome.sent and _was_refused(recording):
            raise NothingToRerunError
        if outcome.sent and not recording.attempts:
            raise NotRerunError("no upstream was contacted, and the recording does not say which ones were configured")
        made = Rerun(outcome, compare_rerun(recording, outcome, request_document))
        if best is None or _difference_count(made) < _difference_count(best):
            best = made
        if not made.comparison.differs:
            break
    assert best is not None
    return best


def _was_refused(recording: Recording) -> bool:
    return not recording.attempts and recording.response is not None and recording.response.status >= 400


def _difference_count(made: Rerun) -> tuple[int, int]:
    requests = made.comparison.requests
    return sum(map(len, requests)), len(made.comparison.answer) + len(made.comparison.receipt)


def _check_rerunnable(recording: Recording) -> None:
    for dialect in (recording.head.client, *(attempt.request.dialect for attempt in recording.attempts)):
        if dialect not in DIALECTS:
            raise NotRerunError(str(UnknownDialectError(dialect, tuple(DIALECTS))))
    if recording.served and recording.at_hand is None:
        raise NotRerunError("tools were run by the gateway in between, whose results are not in the recording")
    if not recording.attempts and recording.response is None:
        cut = None if recording.end is None else recording.end.cut
        raise NotRerunError(f"the recording is cut: {cut}" if cut else "the recording ends before anything was sent")
    if why := missing_content(recording):
        raise NotRerunError(why)
    if recording.head.client != STORED or any(line.what == "history" for line in recording.reads):
        return
    asked = _members(recording.request.data)
    sent = _members(recording.attempts[0].request.data) if recording.attempts else {}
    for name in ("previous_response_id", "conversation"):
        if asked.get(name) is not None and sent.get(name) is None:
            if _was_refused(recording):
                raise NothingToRerunError
            raise NotRerunError(
                f"it continues a conversation that the gateway stored ({name}), which is not in the recording"
            )


def _members(data: bytes) -> dict[str, object]:
    try:
        value = json.decode_frame(data)
    except DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


async def make_question(recording: Recording, client: str) -> ReplayQuestion:
    """Return the client's request, or the equivalent request of another dialect, which contains the whole conversation.

    Raises:
        NotRerunError: another dialect cannot express it.
    """
    request = recording.request
    if client == recording.head.client:
        return ReplayQuestion(client=client, path=request.path, headers=request.headers, body=request.data)
    exchange = ExchangeCore(recording.head.client, client, verbatim=False)
    try:
        body = await _request_with_history(recording)
        body = exchange.request(body, model=recording.head.model, stream=recording.head.stream)
    except (DecodeError, LossError, RefusedError) as error:
        raise NotRerunError(f"a client of {client} cannot ask this: {error}") from None
    headers = {"content-type": find(client).headers.sent.get("content-type", _JSON)}
    return ReplayQuestion(client=client, path=exchange.path, headers=headers, body=body)


async def _request_with_history(recording: Recording) -> bytes:
    """Return the request with the conversation that it continues. Raises `RefusedError`."""
    if recording.head.client != STORED or not recording.reads:
        return recording.request.data
    store = RecordedStore(recording)
    try:
        return (await expand(recording.request.data, store, "")).body
    finally:
        await store.close()


def _candidate_settings(recording: Recording) -> Iterator[ReplaySettings]:
    """Yield settings that the recorded model may have had, the most likely first. Recorded settings need no trying."""
    yield ReplaySettings()
    if recording.results:
        # No recording says whether there was time for another round.
        yield ReplaySettings(rounds=len(call_rounds(recording)))
    if recording.attempts and all(attempt.request.settings is not None for attempt in recording.attempts):
        return
    yield ReplaySettings(verbatim=False)
    request = decode_request(recording.head.client, recording.request.data)
    if request is None or not uses_tools(request):
        return
    several = len(recording.attempts) > 1
    if not _sent_native_tools(recording):
        for text_format in FORMATS:
            yield ReplaySettings(tools=text_format)
            if several:
                yield ReplaySettings(tools=text_format, bad_calls="ask")
    yield ReplaySettings(rescue=True)
    if several:
        yield ReplaySettings(rescue=True, bad_calls="ask")


def _sent_native_tools(recording: Recording) -> bool:
    """Return whether tools or calls were sent natively."""
    first = recording.attempts[0].request if recording.attempts else None
    if first is None:
        return True
    try:
        return uses_tools(find(first.dialect).decode_request(first.data))
    except (DecodeError, RecursionError):
        return True
