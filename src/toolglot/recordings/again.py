"""The upstream's recorded bytes through today's code, frame by frame, watched from inside.

Where the recording does not tell how the model was configured, settings are tried until today's request is the recorded
one; where none makes it, the usual ones are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from toolglot.dialect import StreamEncoder, capabilities
from toolglot.dialects import find
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.errors import DecodeError, ToolglotError, UpstreamError, unreadable
from toolglot.events import Event, Fault, unfold
from toolglot.ir import Request, Tool, with_native
from toolglot.passes import Context, RequestPass
from toolglot.passes.history_policy import settle, with_policy
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Loss, Receipt
from toolglot.recordings.format import CallSettings
from toolglot.recordings.label import label_of
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.settings import layers_of, quirks_of, text_calls_of
from toolglot.translate import Exchange


class Changed(Struct, frozen=True):
    """What a pass did to the request."""

    name: str
    lines: tuple[Loss, ...]


class Done(Struct, frozen=True):
    """What came of some bytes of the upstream."""

    events: tuple[Event, ...] = ()
    written: bytes = b""
    lines: tuple[Loss, ...] = ()


class Spy:
    """A stream encoder that remembers the events it is given."""

    text_around = None

    def __init__(self, encoder: StreamEncoder) -> None:
        self._encoder = encoder
        self.events: list[Event] = []

    def feed(self, event: Event) -> bytes:
        self.events.append(event)
        return self._encoder.feed(event)

    def keepalive(self) -> bytes:
        return self._encoder.keepalive()

    def taken(self) -> tuple[Event, ...]:
        events, self.events = tuple(self.events), []
        return events


class Again:
    """One attempt. `refused` is why today's code does not make its request; `same`: it makes the recorded one."""

    def __init__(self, recording: Recording, attempt: Attempt) -> None:
        self._attempt = attempt
        self.streams = attempt.request.stream
        self.changes: list[Changed] = []
        self.refused: str | None = None
        self.same = False
        self._served_tools: set[str] = set()
        self.exchange = self._made(recording, attempt)
        self._told = len(self.exchange.receipt)
        self._spy = Spy(self.exchange.client.stream_encoder(self.exchange.asked, self.exchange.receipt))
        self._translation = self.exchange.stream(self._spy)
        # Where bytes go through as they are, nobody encodes, and an answer that is to be whole is encoded at its end: a
        # decoder beside them knows what they say.
        beside = self.exchange.verbatim or not self.streams
        self._beside = self.exchange.upstream.stream_decoder(Receipt()) if beside else None

    def _made(self, recording: Recording, attempt: Attempt) -> Exchange:
        if not recording.request.data:
            return Exchange(recording.head.client, attempt.request.dialect)
        first: tuple[Exchange, list[Changed], str | None] | None = None
        for exchange, changes in _candidates(recording, attempt, self._served_tools.__contains__):
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

    def again(self) -> bool:
        """Does the next attempt go on with this answer, because it had a wrong call in it?"""
        if self._translation.wants_again is None:
            return False
        self._translation.again()
        return True

    def feed(self, frame: bytes) -> Done:
        """A frame of a stream. Where the client wants the answer whole, nothing is written for it."""
        written = self._translation.feed(frame) if self.streams else b""
        return self._done(frame, written)

    def close(self) -> Done:
        written = self._translation.close()
        told = self._spy.taken()
        return Done(told if self._beside is None else tuple(self._beside.close()), written, self._lines())

    def whole(self, body: bytes) -> Done:
        """An answer that is no stream."""
        try:
            written = self.exchange.response(body)
            answer = self.exchange.restored or self.exchange.answered
            events = tuple(unfold(answer)) if answer is not None else ()
        except UpstreamError as error:
            return Done((Fault(error.error),), lines=self._lines())
        except DecodeError as error:
            return Done((Fault(unreadable(error)),), lines=self._lines())
        except ToolglotError:
            return Done(lines=self._lines())
        return Done(events, written, self._lines())

    def failed(self, body: bytes) -> Done:
        """An answer that is an error."""
        response = self._attempt.response
        assert response is not None
        return Done((Fault(self.exchange.upstream.decode_error(response.status, response.headers, body)),))

    def _done(self, frame: bytes, written: bytes) -> Done:
        beside: tuple[Event, ...] = ()
        if self._beside is not None:
            with suppress(RecursionError):
                beside = tuple(self._beside.feed(frame))
            self._spy.taken()
        return Done((*self._spy.taken(), *beside), written, self._lines())

    def _lines(self) -> tuple[Loss, ...]:
        if len(self.exchange.receipt) == self._told:
            return ()
        lines = tuple(islice(self.exchange.receipt, self._told, None))
        self._told += len(lines)
        return lines


def _added_tools(recording: Recording, attempt: Attempt, sent: bytes) -> set[str]:
    """The tools that the gateway ran itself: the upstream was offered them, and the client did not send them."""
    if not recording.serves:
        return set()
    upstream = find(attempt.request.dialect)
    try:
        offered = _tool_names(upstream.decode_request(attempt.request.data))
        return offered - (_tool_names(upstream.decode_request(sent)) if sent else set())
    except (DecodeError, RecursionError):
        return set()


def _tool_names(request: Request) -> set[str]:
    return {tool.name for tool in request.tools if isinstance(tool, Tool)}


def _candidates(
    recording: Recording, attempt: Attempt, serves: Callable[[str], bool]
) -> Iterator[tuple[Exchange, list[Changed]]]:
    if (settings := attempt.request.settings) is not None:
        yield _exchange(recording, attempt, settings, serves if recording.serves else None)
        return
    yield _exchange(recording, attempt, serves=serves if recording.serves else None)
    yield _exchange(recording, attempt, CallSettings(verbatim=False))
    if not _lost_its_tools(recording, attempt):
        return
    from toolglot.textcalls import FORMATS  # whoever sends tools as they are does not wait for all of them

    for name in FORMATS:
        yield _exchange(recording, attempt, CallSettings(text_format=name))
        yield _exchange(recording, attempt, CallSettings(text_format=name, bad_calls="ask"))


def _lost_its_tools(recording: Recording, attempt: Attempt) -> bool:
    """Did the client send tools, and the upstream got none? Then they were told as text."""
    exchange = Exchange(recording.head.client, attempt.request.dialect)
    try:
        asked = exchange.client.decode_request(recording.request.data)
        sent = exchange.upstream.decode_request(attempt.request.data)
    except (DecodeError, RecursionError):
        return False
    return _has_tools(asked) and not _has_tools(sent)


def _has_tools(request: Request) -> bool:
    return any(isinstance(tool, Tool) for tool in request.tools)


def _exchange(
    recording: Recording,
    attempt: Attempt,
    settings: CallSettings | None = None,
    serves: Callable[[str], bool] | None = None,
) -> tuple[Exchange, list[Changed]]:
    settings = settings or CallSettings()
    changes: list[Changed] = []
    label, asked = label_of(recording), attempt.request
    client, upstream = find(recording.head.client), find(asked.dialect)
    quirks, policy = quirks_of(settings), settle(layers_of(settings))
    passes = with_policy(
        REQUEST_PASSES,
        policy,
        image_tokens=upstream.request.image_tokens,
        leans=lambda request: client.request.refuse_elsewhere(request) is not None,
    )
    exchange = Exchange(
        client,
        upstream,
        model=asked.model or None,
        can=msgspec.structs.replace(capabilities(upstream, asked.model), **quirks) if quirks else None,
        passes=[*(_watched(each, changes) for each in passes), *_telling(settings, client.name)],
        created=label.created,
        answer_id=label.answer_id,
        clock=label.clock,
        verbatim=settings.verbatim,
        text_calls=text_calls_of(settings),
        history_format=policy.said.calls,
        keeps_state=settings.keeps_state,
        can_cut=settings.can_cut,
        issuer=settings.issuer,
        cache_marks=settings.cache_marks,
        prefix_repeats=settings.prefix_repeats,
        serves=serves,
    )
    return exchange, changes


def _telling(settings: CallSettings, client: str) -> Iterator[RequestPass]:
    """How Warp was told of the conversation."""
    if settings.warp_history is None or client == WARP:
        return
    fields: dict[str, Any] = {"history": "text" if settings.warp_history == "text" else "native"}
    fields |= {} if settings.disable_warp_tools else {"settings": {"supported_tools": []}}
    yield lambda request, context: with_native(request, WARP, **fields)


def _watched(request_pass: RequestPass, changes: list[Changed]) -> RequestPass:
    name = f"{request_pass.__module__.rpartition('.')[2]}.{getattr(request_pass, '__name__', 'pass')}"

    def watch(request: Request, context: Context) -> Request:
        told = len(context.receipt)
        made = request_pass(request, context)
        lines = tuple(context.receipt)[told:]
        if made is not request or lines:
            changes.append(Changed(name, lines))
        return made

    return watch
