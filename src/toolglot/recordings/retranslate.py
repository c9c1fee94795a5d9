"""Run the upstream's recorded bytes through the current code, frame by frame, and observe each step. If the recording
lacks the model's configuration, settings are tried until the new request equals the recorded one. If none matches, the
defaults are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from msgspec import Struct

from toolglot.capabilities import change_capabilities
from toolglot.dialect import StreamEncoder, capabilities
from toolglot.dialects import find
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.errors import DecodeError, ToolglotError, UpstreamError, unreadable
from toolglot.events import Event, Fault, unfold
from toolglot.ir import Request, Tool, with_native
from toolglot.passes import Context, RequestPass
from toolglot.passes.history_policy import merge_layers, with_policy
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt, ReceiptLine
from toolglot.recordings.answer_label import answer_label
from toolglot.recordings.format import CallSettings
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.recorded_settings import recorded_history, recorded_quirks, recorded_text_calls
from toolglot.translate import ExchangeCore


class PassChange(Struct, frozen=True):
    """The change that a pass made to the request."""

    name: str
    lines: tuple[ReceiptLine, ...]


class TranslatedFrame(Struct, frozen=True):
    """The result of some bytes of the upstream."""

    events: tuple[Event, ...] = ()
    written: bytes = b""
    lines: tuple[ReceiptLine, ...] = ()


class EncoderSpy:
    """A stream encoder that remembers its events."""

    delta_template = None

    def __init__(self, encoder: StreamEncoder) -> None:
        self._encoder = encoder
        self.events: list[Event] = []

    def feed(self, event: Event) -> bytes:
        self.events.append(event)
        return self._encoder.feed(event)

    def keepalive(self) -> bytes:
        return self._encoder.keepalive()

    def take_events(self) -> tuple[Event, ...]:
        events, self.events = tuple(self.events), []
        return events


class RetranslatedAttempt:
    """One attempt. `refused` is the reason why the current code does not make the request. `same`: it makes the
    recorded request.
    """

    def __init__(self, recording: Recording, attempt: Attempt) -> None:
        self._attempt = attempt
        self.streams = attempt.request.stream
        self.changes: list[PassChange] = []
        self.refused: str | None = None
        self.same = False
        self._served_tools: set[str] = set()
        self.exchange = self._make_exchange(recording, attempt)
        self._told = len(self.exchange.receipt)
        self._spy = EncoderSpy(self.exchange.client.stream_encoder(self.exchange.asked, self.exchange.receipt))
        self._translation = self.exchange.stream(self._spy)
        # Forwarded bytes are not encoded, and a whole answer is encoded at its end: a second decoder reads their
        # events.
        beside = self.exchange.verbatim or not self.streams
        self._beside = self.exchange.upstream.stream_decoder(Receipt()) if beside else None

    def _make_exchange(self, recording: Recording, attempt: Attempt) -> ExchangeCore:
        if not recording.request.data:
            return ExchangeCore(recording.head.client, attempt.request.dialect)
        first: tuple[ExchangeCore, list[PassChange], str | None] | None = None
        for exchange, changes in _candidate_exchanges(recording, attempt, self._served_tools.__contains__):
            sent, refused = b"", None
            try:
                sent = exchange.request(
                    recording.request.data, model=recording.head.model, stream=attempt.request.stream
                )
            except ToolglotError as error:
                refused = str(error)
            if sent == attempt.request.data:
                self.changes, self.same = changes, True
                return exchange
            if first is None:
                first = (exchange, changes, refused)
                self._served_tools |= _added_tools(recording, attempt, sent)
        assert first is not None
        exchange, self.changes, self.refused = first
        return exchange

    def is_retried(self) -> bool:
        """Return whether the next attempt continues this answer because of an invalid call."""
        if self._translation.pending_retry is None:
            return False
        self._translation.encode_retry()
        return True

    def feed(self, frame: bytes) -> TranslatedFrame:
        """Translate a frame of a stream. If the client requested a whole answer, nothing is written for it."""
        written = self._translation.feed(frame) if self.streams else b""
        return self._translated(frame, written)

    def close(self) -> TranslatedFrame:
        written = self._translation.close()
        told = self._spy.take_events()
        return TranslatedFrame(told if self._beside is None else tuple(self._beside.close()), written, self._lines())

    def whole(self, body: bytes) -> TranslatedFrame:
        """Translate an answer that is not a stream."""
        try:
            written = self.exchange.response(body)
            answer = self.exchange.restored or self.exchange.answered
            events = tuple(unfold(answer)) if answer is not None else ()
        except UpstreamError as error:
            return TranslatedFrame((Fault(error.error),), lines=self._lines())
        except DecodeError as error:
            return TranslatedFrame((Fault(unreadable(error)),), lines=self._lines())
        except ToolglotError:
            return TranslatedFrame(lines=self._lines())
        return TranslatedFrame(events, written, self._lines())

    def failed(self, body: bytes) -> TranslatedFrame:
        """Translate an answer that is an error."""
        response = self._attempt.response
        assert response is not None
        return TranslatedFrame((Fault(self.exchange.upstream.decode_error(response.status, response.headers, body)),))

    def _translated(self, frame: bytes, written: bytes) -> TranslatedFrame:
        beside: tuple[Event, ...] = ()
        if self._beside is not None:
            with suppress(RecursionError):
                beside = tuple(self._beside.feed(frame))
            self._spy.take_events()
        return TranslatedFrame((*self._spy.take_events(), *beside), written, self._lines())

    def _lines(self) -> tuple[ReceiptLine, ...]:
        if len(self.exchange.receipt) == self._told:
            return ()
        lines = tuple(islice(self.exchange.receipt, self._told, None))
        self._told += len(lines)
        return lines


def _added_tools(recording: Recording, attempt: Attempt, sent: bytes) -> set[str]:
    """Return the tools that the gateway ran itself: offered to the upstream, but not sent by the client."""
    if not recording.runs_tools:
        return set()
    upstream = find(attempt.request.dialect)
    try:
        offered = _tool_names(upstream.decode_request(attempt.request.data))
        return offered - (_tool_names(upstream.decode_request(sent)) if sent else set())
    except (DecodeError, RecursionError):
        return set()


def _tool_names(request: Request) -> set[str]:
    return {tool.name for tool in request.tools if isinstance(tool, Tool)}


def _candidate_exchanges(
    recording: Recording, attempt: Attempt, serves: Callable[[str], bool]
) -> Iterator[tuple[ExchangeCore, list[PassChange]]]:
    if (settings := attempt.request.settings) is not None:
        yield _make_candidate(recording, attempt, settings, serves if recording.runs_tools else None)
        return
    yield _make_candidate(recording, attempt, serves=serves if recording.runs_tools else None)
    yield _make_candidate(recording, attempt, CallSettings(verbatim=False))
    if not _tools_became_text(recording, attempt):
        return
    # imported here, because recordings with native tools do not need all formats
    from toolglot.textcalls import FORMATS

    for name in FORMATS:
        yield _make_candidate(recording, attempt, CallSettings(text_format=name))
        yield _make_candidate(recording, attempt, CallSettings(text_format=name, bad_calls="ask"))


def _tools_became_text(recording: Recording, attempt: Attempt) -> bool:
    """Return whether the tools were sent as text: the client sent tools and the upstream got none."""
    exchange = ExchangeCore(recording.head.client, attempt.request.dialect)
    try:
        asked = exchange.client.decode_request(recording.request.data)
        sent = exchange.upstream.decode_request(attempt.request.data)
    except (DecodeError, RecursionError):
        return False
    return _has_tools(asked) and not _has_tools(sent)


def _has_tools(request: Request) -> bool:
    return any(isinstance(tool, Tool) for tool in request.tools)


def _make_candidate(
    recording: Recording,
    attempt: Attempt,
    settings: CallSettings | None = None,
    serves: Callable[[str], bool] | None = None,
) -> tuple[ExchangeCore, list[PassChange]]:
    settings = settings or CallSettings()
    changes: list[PassChange] = []
    label, asked = answer_label(recording), attempt.request
    client, upstream = find(recording.head.client), find(asked.dialect)
    quirks, policy = recorded_quirks(settings), merge_layers(recorded_history(settings))
    passes = with_policy(
        REQUEST_PASSES,
        policy,
        image_tokens=upstream.request.image_tokens,
        leans=lambda request: client.request.refuse_elsewhere(request) is not None,
    )
    exchange = ExchangeCore(
        client,
        upstream,
        model=asked.model or None,
        can=change_capabilities(capabilities(upstream, asked.model), **quirks) if quirks else None,
        passes=[*(_watch_pass(each, changes) for each in passes), *_warp_history_passes(settings, client.name)],
        created=label.created,
        answer_id=label.answer_id,
        clock=label.clock,
        verbatim=settings.verbatim,
        text_calls=recorded_text_calls(settings),
        history_format=policy.merged.calls,
        keeps_state=settings.keeps_state,
        can_cut=settings.can_cut,
        issuer=settings.issuer,
        cache_marks=settings.cache_marks,
        prefix_repeats=settings.prefix_repeats,
        serves=serves,
    )
    return exchange, changes


def _warp_history_passes(settings: CallSettings, client: str) -> Iterator[RequestPass]:
    """Yield the pass for Warp's form of the conversation."""
    if settings.warp_history is None or client == WARP:
        return
    fields: dict[str, Any] = {"history": "text" if settings.warp_history == "text" else "native"}
    fields |= {} if settings.disable_warp_tools else {"settings": {"supported_tools": []}}
    yield lambda request, context: with_native(request, WARP, **fields)


def _watch_pass(request_pass: RequestPass, changes: list[PassChange]) -> RequestPass:
    name = f"{request_pass.__module__.rpartition('.')[2]}.{getattr(request_pass, '__name__', 'pass')}"

    def watch(request: Request, context: Context) -> Request:
        told = len(context.receipt)
        made = request_pass(request, context)
        lines = tuple(context.receipt)[told:]
        if made is not request or lines:
            changes.append(PassChange(name, lines))
        return made

    return watch
