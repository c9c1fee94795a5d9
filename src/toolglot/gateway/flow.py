"""The answer flow: from a decoded request to the last byte of its answer, without I/O, clock or randomness.

It is a generator of commands (`gateway/commands.py`), which a driver carries out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, final

from msgspec import Struct

from toolglot.config.schema import Retries
from toolglot.errors import ApiError, ErrorKind, UpstreamDecodeError, UpstreamError, unreadable
from toolglot.gateway.commands import (
    END,
    Await,
    BeginStream,
    Done,
    Failed,
    Flow,
    Offload,
    Outcome,
    Raised,
    ReplyBegun,
    Send,
    Shutdown,
    Silent,
    Steps,
    StreamEnd,
    Wait,
    WholeAnswer,
    WholeReply,
    Write,
)
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.upstream_errors import RESTING, end_broken_stream, is_answer, resting_error, transport_error
from toolglot.translate import ExchangeCore
from toolglot.upstream.breaker import Breaker, Ticket
from toolglot.upstream.http_client import PreparedCall
from toolglot.upstream.offload import LARGE
from toolglot.upstream.remedies import MAX_REMEDIES
from toolglot.upstream.replay.unmatched import CODE as NO_RECORDING
from toolglot.upstream.retry import retry_delay, should_fall_back
from toolglot.upstream.transport import Transport, TransportError, UpstreamCall

T = TypeVar("T")

TRAILING_SECONDS = 5.0
"""Seconds of silence allowed after the stop reason. Usage may follow, but arrives at once; an end marker is optional,
and Gemini has none."""


Failure: TypeAlias = ApiError | TransportError


# Records and protocols of a flow


class Stream(Protocol):
    """The stream of a translation, for example `toolglot.streaming.StreamTranslation`."""

    @property
    def ended(self) -> bool: ...
    @property
    def fault(self) -> ApiError | None: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def may_retry(self) -> bool:
        """Whether `pending_retry` can return a value other than None."""
        ...

    @property
    def settled(self) -> bool: ...
    @property
    def pending_retry(self) -> object | None: ...
    def feed(self, data: bytes) -> bytes: ...
    def close(self) -> bytes: ...
    def break_off(self, error: ApiError, *, broken: bool = True) -> bytes: ...
    def fail(self, error: ApiError) -> bytes: ...


class Translation(Protocol):
    """One request and its answer, between a client and one target."""

    body: bytes
    """The first request for the upstream."""
    size: int
    """Size of the client's request in bytes. A thread processes large ones."""
    transport: Transport
    limit: int
    """Maximum size of an answer in bytes."""

    def call(self, body: bytes) -> UpstreamCall | PreparedCall: ...
    def remedy(self, context: FlowContext, error: ApiError) -> Steps[bytes | None]:
        """Return the request without the refused part, or None if no remedy is known."""
        ...

    @property
    def pending_retry(self) -> object | None:
        """Not None if a whole answer has a call that cannot be run, so that the model must be asked again."""
        ...

    def ask_again(self, stream: Stream | None) -> bytes:
        """Return the retry request for the model."""
        ...

    def decode_error(self, reply: WholeReply) -> ApiError: ...
    def label(self, headers: Mapping[str, str]) -> None:
        """Record the headers of a reply. A recorded reply also sets the labels of the answer or error."""
        ...

    def with_reply_headers(self, error: ApiError) -> ApiError:
        """Add the headers of the last reply that the client gets unchanged to its error."""
        ...

    def decode_at_once(self, body: bytes) -> bytes | None:
        """Translate a whole answer for the client; None if this needs `decode_answer`."""
        ...

    def decode_answer(self, context: FlowContext, body: bytes) -> Steps[bytes]: ...
    def as_text(self, context: FlowContext, error: ApiError) -> Steps[Translation | None]:
        """Translate a request that was refused because of its tools again, with tools as text."""
        ...

    def open_stream(self) -> Stream: ...
    def early_fault(self, stream: Stream) -> ApiError | None:
        """Return an error that came before any content. It counts as the request's error, which may be retried."""
        ...

    def accept(self, context: FlowContext, before: ApiError | None) -> Steps[None] | None:
        """Use this answer for the client. `before` is the error of an earlier target. Returns the remaining work."""
        ...

    def discard(self) -> None:
        """Discard the answer that was started last."""
        ...

    def release(self) -> None:
        """Free the request, which is not needed once the stream has started."""
        ...


class CallGate(Protocol):
    """Decides whether a call may be made, and learns from its result: a `Breaker`, or a member of a pool."""

    def enter(self, now: float) -> Ticket | None: ...
    def may_retry(self, failure: Failure) -> bool: ...
    def on_stream_start(self, ticket: Ticket) -> None: ...
    def leave(self, ticket: Ticket) -> None: ...
    def settle(self, ticket: Ticket, error: Failure | None, now: float) -> object: ...


class UpstreamTarget(Struct, frozen=True, eq=False, kw_only=True):
    name: str
    breaker: Breaker | CallGate
    prepare: Callable[[FlowContext], Steps[Translation]]
    retries: Retries = Retries()
    describe: Callable[[ApiError], ApiError] = lambda error: error
    """Convert the upstream's error to the client's."""
    label: str = ""
    """Name for errors and logs; empty: `name`."""
    describe_rest: Callable[[float], ApiError] | None = None
    """The client's error if no call may be made at this time; None: that of the breaker."""
    is_next_member: bool = False
    """Another member of the previous target's pool, not a fallback."""
    lesser_kinds: frozenset[ErrorKind] = frozenset()
    """Errors that the client gets only if no other target has another one."""


class Environment(Struct, frozen=True, eq=False):
    """Sources of time and randomness."""

    now: Callable[[], float]
    """Monotonic seconds."""
    random: Callable[[], float]
    wall_clock: Callable[[], float]


class FlowContext(Struct, eq=False, kw_only=True):
    """State of one request that a flow and its driver share."""

    record: RequestRecord
    environment: Environment
    is_streaming: bool = False
    encode_keepalive: Callable[[], bytes] = lambda: b""
    keepalive_seconds: float = 15.0
    """Silence after which the client gets a keep-alive."""
    encode_fault: Callable[[FlowContext, ApiError], bytes] = lambda context, error: b""
    """Encode an error inside a stream that has only keep-alives so far."""
    describe_failure: Callable[[Exception, RequestRecord], ApiError | None] = lambda failure, record: None
    """The client's error for a failure of this gateway; None if the client is gone."""
    hide: Callable[[ApiError], ApiError] = lambda error: error
    """Removes credentials from an error."""
    on_failure: Callable[[RequestRecord, str, ApiError], None] = lambda record, name, error: None
    """Called for each target that failed, except for the error that the client gets."""
    cuts: bool = False
    """Cut the client's connection if the upstream breaks off."""
    admit: Callable[[FlowContext], Steps[ApiError | None]] | None = None
    """Checks a call to the upstream in the record. Returns the error if it may not be made."""
    when_sent: Callable[[], object] | None = None
    """Work to do while the upstream works."""
    begun: bool = False
    """True if the head of a stream was written, so no other answer can replace it."""
    prepared: Translation | None = None
    """The translation for the first target, if it is ready."""
    exchange: ExchangeCore | None = None
    """The exchange with the last target that was called."""
    translation: Translation | None = None
    """The translation of the answer that the client gets."""
    stream: Stream | None = None
    """The stream that the client gets."""

    def end(self, failure: ApiError) -> StreamEnd:
        """Return the end of a started stream that no target can continue, even if it has only keep-alives so far."""
        if self.cuts and failure.is_broken_off:
            self.note(self.hide(failure))
            return StreamEnd(b"", is_cut=True)
        return StreamEnd(self.fail(failure))

    def fail(self, failure: ApiError) -> bytes:
        """Return the last bytes of a started stream that cannot continue."""
        error = self.hide(failure)
        self.note(error)
        return self.encode_fault(self, error) if self.stream is None else self.stream.fail(error)

    def note(self, error: ApiError) -> None:
        self.record.error, self.record.message = error.kind, error.message


@final
class BegunStream(Struct, eq=False):
    """The first streamed answer of any target, up to its first bytes."""

    target: UpstreamTarget
    translation: Translation
    stream: Stream
    headers: Mapping[str, str]
    first: bytes
    held: int
    """Number of upstream bytes that led to no output yet."""
    is_over: bool
    """True if the upstream's body is complete."""
    ticket: Ticket


@final
class RefusedCall(Struct, frozen=True, eq=False):
    """A call that this gateway does not make: the client's key has reached a limit."""

    error: ApiError


# The flow


def answer(context: FlowContext, targets: Iterable[UpstreamTarget]) -> Flow:
    """Ask the targets in order until one answers, then relay its answer.

    Until the first byte of an answer, everything may be retried; afterwards nothing. Keep-alives do not count.
    """
    try:
        found = yield from find_answer(context, targets)
        targets = ()  # a long stream must not keep unused targets in memory
        if type(found) is WholeAnswer:
            return found
        if type(found) is BegunStream:
            return (yield from relay_stream(context, found))
        if isinstance(found, ApiError) and context.begun:
            return context.end(found)
        return found
    except Exception as failure:
        # Once something was written, only the stream itself can report the error.
        if not context.begun or (error := context.describe_failure(failure, context.record)) is None:
            raise
        return context.end(error)


def find_answer(context: FlowContext, targets: Iterable[UpstreamTarget]) -> Steps[WholeAnswer | BegunStream | ApiError]:
    """Return the first answer of any target, or else the most informative error. Other errors are logged."""
    errors: list[ApiError] = []
    failed: list[tuple[str, ApiError]] = []
    returned: ApiError | None = None
    try:
        number = -1
        for target in targets:
            number += not target.is_next_member
            context.record.fallbacks = number
            translation, context.prepared = context.prepared, None
            if translation is None:
                translation = yield from target.prepare(context)
            breaker, now = target.breaker, context.environment.now
            ticket = breaker.enter(now())
            failure: Failure
            refusal: ApiError | None = None
            if ticket is None:
                failure = describe_rest(target, now())
            else:
                try:
                    outcome = yield from ask_target(context, target, translation, ticket, errors[0] if errors else None)
                except BaseException:
                    breaker.leave(ticket)
                    raise
                if type(outcome) is WholeAnswer:
                    breaker.settle(ticket, None, 0.0)
                    return outcome
                if type(outcome) is BegunStream:
                    breaker.on_stream_start(ticket)
                    return outcome
                if type(outcome) is Shutdown:
                    breaker.leave(ticket)
                    return outcome.error
                if type(outcome) is RefusedCall:  # it says nothing about the upstream
                    breaker.leave(ticket)
                    failure = refusal = outcome.error
                else:
                    failure = outcome
                    breaker.settle(ticket, failure, now())
            error = refusal or describe(target, failure)
            failed.append((target.label or target.name, error))
            # The error of an open breaker is less informative than another upstream's error.
            is_lesser = error.code == RESTING or error.kind in target.lesser_kinds
            errors.insert(len(errors) if is_lesser else 0, error)
            if not should_fall_back(failure):
                break
        returned = errors[0]
        return returned
    finally:
        for name, error in failed:
            if error is not returned:
                context.on_failure(context.record, name, error)


def describe(target: UpstreamTarget, failure: Failure) -> ApiError:
    if isinstance(failure, TransportError):
        return transport_error(target.label or target.name, failure)
    return target.describe(failure)


def describe_rest(target: UpstreamTarget, now: float) -> ApiError:
    if target.describe_rest is not None:
        return target.describe_rest(now)
    assert isinstance(target.breaker, Breaker)
    return resting_error(target.name, target.breaker, now)


def ask_target(
    context: FlowContext, target: UpstreamTarget, translation: Translation, ticket: Ticket, before: ApiError | None
) -> Steps[WholeAnswer | BegunStream | Failure | RefusedCall | Shutdown]:
    """Call one target with its retries, plus one call with tools as text and a few with remedies."""
    record, body = context.record, translation.body
    attempt, remedies, is_text = 0, 0, False
    while True:
        if context.admit is not None and (refusal := (yield from context.admit(context))) is not None:
            return RefusedCall(refusal)
        attempt += 1
        record.count_call(target.name)
        outcome = yield from call_once(context, target, translation, ticket, body)
        if type(outcome) is WholeAnswer or type(outcome) is BegunStream:
            if type(outcome) is WholeAnswer and translation.pending_retry is not None:
                attempt, body = 0, (yield from ask_again(context, translation, None))
                continue
            context.translation = translation
            if (left := translation.accept(context, before)) is not None:
                yield from left
            return outcome
        if isinstance(outcome, ApiError):
            outcome = translation.with_reply_headers(outcome)
            if outcome.code == NO_RECORDING:
                return outcome  # it quotes the request, whose text must not count as a refusal
            if not is_text:
                other = yield from translation.as_text(context, outcome)
                if other is not None:
                    is_text, translation, body = True, other, other.body
                    record.mended += 1
                    continue
            if remedies < MAX_REMEDIES:
                remedy = yield from translation.remedy(context, outcome)
                if remedy is not None and remedy != body:
                    remedies, body = remedies + 1, remedy
                    record.mended += 1
                    continue
        stopped = outcome if isinstance(outcome, Shutdown) else (yield from back_off(context, target, attempt, outcome))
        if stopped is not None:
            return stopped


def back_off(
    context: FlowContext, target: UpstreamTarget, attempt: int, failure: Failure
) -> Steps[Failure | Shutdown | None]:
    """Wait until the same call may be repeated, and return None. Returns the failure if it may not."""
    if not target.breaker.may_retry(failure):
        return failure
    environment = context.environment
    wait = retry_delay(target.retries, attempt, failure, environment.random(), environment.wall_clock())
    if wait is None:
        return failure
    outcome = yield Wait(wait)
    return outcome if isinstance(outcome, Shutdown) else None


def call_once(
    context: FlowContext, target: UpstreamTarget, translation: Translation, ticket: Ticket, body: bytes
) -> Steps[WholeAnswer | BegunStream | Failure | Shutdown]:
    """Make one call, up to a whole answer or the first bytes of a stream."""
    outcome = yield Send(translation.transport, translation.call(body), translation.limit, context.is_streaming)
    while type(outcome) is Silent:
        outcome = yield from keep_alive(context, outcome)
    reply = read_reply(translation, outcome)
    try:
        if type(reply) is WholeReply:
            decoded = translation.decode_at_once(reply.body)
            if decoded is None:
                decoded = yield from translation.decode_answer(context, reply.body)
            return WholeAnswer(decoded, reply.headers)
        if type(reply) is not ReplyBegun:
            return reply
        begun = yield from begin_stream(context, target, translation, ticket, reply)
        if type(begun) is not BegunStream:
            translation.discard()
        return begun
    except UpstreamError as error:
        translation.discard()
        return error.error
    except UpstreamDecodeError as error:
        translation.discard()
        return unreadable(error)
    except BaseException:
        translation.discard()
        raise


def read_reply(translation: Translation, outcome: Outcome) -> ReplyBegun | WholeReply | Failure | Shutdown:
    """Return the reply if it is an answer; otherwise the reason why it is not."""
    if type(outcome) is not WholeReply:
        if type(outcome) is not ReplyBegun:
            return unanswered(outcome)
        translation.label(outcome.headers)
        return outcome
    translation.label(outcome.headers)
    return outcome if is_answer(outcome.status, outcome.headers) else translation.decode_error(outcome)


def unanswered(outcome: Outcome) -> TransportError | Shutdown:
    """Return the reason why an answer is missing or incomplete."""
    if type(outcome) is Failed:
        return outcome.error
    assert type(outcome) is Shutdown
    return outcome


def begin_stream(
    context: FlowContext, target: UpstreamTarget, translation: Translation, ticket: Ticket, reply: ReplyBegun
) -> Steps[BegunStream | Failure | Shutdown]:
    """Read until there is something to write. An error before that counts as the request's error."""
    stream, first, held, is_over = translation.open_stream(), b"", 0, False
    while not first and not is_over and not stream.ended and stream.pending_retry is None:
        outcome = yield b""
        while type(outcome) is Silent:
            outcome = yield from keep_alive(context, outcome)
        if type(outcome) is bytes:
            held += len(outcome)
            first = yield from feed(context, stream, outcome, held)
        elif outcome is END:
            first, is_over = stream.close(), True
        else:
            return unanswered(outcome)
    fault = translation.early_fault(stream)
    if fault is not None:
        return fault
    return BegunStream(target, translation, stream, reply.headers, first, 0 if first else held, is_over, ticket)


def relay_stream(context: FlowContext, begun: BegunStream) -> Steps[StreamEnd]:
    """Relay a started stream to its end."""
    stream, target, may_retry = begun.stream, begun.target, begun.stream.may_retry
    breaker, held, is_over = target.breaker, begun.held, begun.is_over
    # Buffers are released while a stream is silent: there may be thousands of streams.
    pieces = [begun.first]
    headers: Mapping[str, str] | None = begun.headers
    failure: Failure | None = None
    context.stream = stream
    try:
        if context.begun:
            headers = None
        elif not stream.ended:
            context.begun = True
            yield BeginStream(headers)
            headers = None
        begun.first, begun.headers = b"", {}
        begun.translation.release()
        while True:
            while not (is_over or stream.ended or (may_retry and stream.pending_retry is not None)):
                outcome = yield pieces.pop()
                if type(outcome) is bytes:
                    held += len(outcome)
                    if held <= LARGE:
                        pieces.append(stream.feed(outcome))
                    else:
                        pieces.append((yield from feed(context, stream, outcome, held)))
                    if pieces[0]:
                        held = 0
                    outcome = None
                elif type(outcome) is Silent:
                    pieces.append(break_silence(context, stream, outcome))
                else:
                    is_over = True
                    if outcome is END:
                        pieces.append(stream.close())
                    elif type(outcome) is Failed:
                        pieces.append(end_broken_stream(stream, target.name, outcome.error))
                        failure = outcome.error if stream.fault is not None else None
                    else:
                        assert type(outcome) is Shutdown
                        pieces.append(context.fail(outcome.error))
            if stream.ended or stream.pending_retry is None:
                break
            if pieces[0]:
                yield Write(pieces.pop())
            piece, is_over, failure = yield from continue_stream(context, begun)
            pieces = [piece]
    except BaseException:
        breaker.leave(begun.ticket)
        raise
    breaker.settle(begun.ticket, failure, 0.0 if failure is None else context.environment.now())
    if stream.fault is not None:
        context.note(stream.fault)
    return StreamEnd(pieces[0], stream.is_cut, headers)


def feed(context: FlowContext, stream: Stream, chunk: bytes, held: int) -> Steps[bytes]:
    """Translate a chunk for the client. `held` bytes of the upstream are not written yet."""
    if may_end_large_event(held, chunk):
        return (yield from offload(context, held, partial(stream.feed, chunk)))
    return stream.feed(chunk)


def may_end_large_event(held: int, chunk: bytes) -> bool:
    """Return whether this chunk may end an event that is large enough for a thread. Until it ends, an event is only
    collected, which is cheap."""
    return held > LARGE and (b"\n" in chunk or b"\r" in chunk)


def continue_stream(context: FlowContext, begun: BegunStream) -> Steps[tuple[bytes, bool, Failure | None]]:
    """Ask the model again in the middle of its stream, because it wrote a call that cannot be run. The second answer
    continues the first. Returns the bytes to write, whether the stream has ended, and the failure if any."""
    target, stream, translation = begun.target, begun.stream, begun.translation
    attempt, body = 0, (yield from ask_again(context, translation, stream))
    while True:
        if context.admit is not None and (refusal := (yield from context.admit(context))) is not None:
            return context.fail(refusal), True, None
        attempt += 1
        context.record.count_call(target.name)
        outcome = yield Send(translation.transport, translation.call(body), translation.limit, context.is_streaming)
        while type(outcome) is Silent:
            outcome = yield from keep_alive(context, outcome)
        reply = read_reply(translation, outcome)
        if isinstance(reply, ReplyBegun):
            return b"", False, None
        assert not isinstance(reply, WholeReply)
        failed = reply if isinstance(reply, Shutdown) else (yield from back_off(context, target, attempt, reply))
        if isinstance(failed, Shutdown):
            return context.fail(failed.error), True, None
        if failed is not None:
            return context.fail(describe(target, failed)), True, failed


def ask_again(context: FlowContext, translation: Translation, stream: Stream | None) -> Steps[bytes]:
    context.record.asked_again += 1
    return (yield from offload(context, translation.size, partial(translation.ask_again, stream)))


def break_silence(context: FlowContext, stream: Stream, silent: Silent) -> bytes:
    """Return the bytes to write when a stream is silent: its end, if the upstream has sent the stop reason."""
    if stream.settled and silent.upstream >= TRAILING_SECONDS:
        return stream.close()
    return context.encode_keepalive() if silent.client >= context.keepalive_seconds else b""


def keep_alive(context: FlowContext, silent: Silent) -> Steps[Outcome]:
    """Write the head of the stream and a keep-alive if one is due, and keep waiting. Whole answers have none."""
    if not context.is_streaming or silent.client < context.keepalive_seconds:
        return (yield b"")
    if not context.begun:
        context.begun = True
        yield BeginStream()
    return (yield context.encode_keepalive())


def offload(context: FlowContext, size: int, work: Callable[[], T]) -> Steps[T]:
    """Return the result of work on `size` bytes. Small work runs at once, large work in a thread."""
    if size <= LARGE:
        return work()
    result: T = yield from wait_for(context, Offload(size, work))
    return result


def await_result(context: FlowContext, call: Callable[[], Awaitable[T]]) -> Steps[T]:
    """Return the result of a coroutine, or raise its exception."""
    result: T = yield from wait_for(context, Await(call))
    return result


def result_of(command: Await | Offload) -> Steps[Any]:
    """Return the result of an operation, or raise its exception. Nothing is written meanwhile."""
    outcome = yield command
    while type(outcome) is Silent:
        outcome = yield b""
    return unwrap(outcome)


def wait_for(context: FlowContext, command: Await | Offload) -> Steps[Any]:
    """Return the result of an operation. Keep-alives are written meanwhile."""
    outcome = yield command
    while type(outcome) is Silent:
        outcome = yield from keep_alive(context, outcome)
    return unwrap(outcome)


def unwrap(outcome: Outcome) -> Any:
    """Return the result of an operation from its outcome, or raise its exception."""
    if type(outcome) is Raised:
        raise outcome.error
    if type(outcome) is Shutdown:
        raise StoppedError(outcome.error)
    assert type(outcome) is Done
    return outcome.value


class StoppedError(Exception):
    """Raised in a flow when the server shuts down."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error
