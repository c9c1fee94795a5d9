"""Plays answer flows without sockets, clocks or sleeps: outcomes in, a transcript of what the flow said out.

    stage = Stage("ab", stream=True)                    # two targets
    transcript(answer(stage.context, stage.targets), [BEGUN, b"a."])   # 'send a ask | - | = A.'

`-` is a wait for what happens next, `=` stands before the result.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from toolglot.config.schema import Retries
from toolglot.errors import ApiError, ErrorKind
from toolglot.gateway.commands import (
    Await,
    BeginStream,
    Failed,
    Offload,
    ReplyBegun,
    Send,
    Signal,
    Steps,
    StreamEnd,
    Wait,
    WholeAnswer,
    WholeReply,
    Write,
)
from toolglot.gateway.flow import Environment, FlowContext, Stream, UpstreamTarget
from toolglot.gateway.request_record import RequestRecord
from toolglot.upstream.breaker import Breaker, Ticket
from toolglot.upstream.transport import Reply, Transport, TransportError, UpstreamCall

BEGUN = ReplyBegun({})
RESET = Failed(TransportError("reset", "broke"))
REFUSED = Failed(TransportError("connect", "no way"))
LATE = Failed(TransportError("timeout", "late"))

KINDS: dict[int, ErrorKind] = {
    400: "bad_request",
    401: "authentication",
    404: "not_found",
    429: "rate_limit",
    500: "server",
    529: "overloaded",
}


def status(code: int, body: bytes = b"") -> WholeReply:
    return WholeReply(code, {}, body)


def whole(body: bytes) -> WholeReply:
    return status(200, body)


class CountingBreaker(Breaker):
    """`open` counts the calls that were let through and of which nothing was said yet."""

    def __init__(self, failures: int = 3, rest: float = 30.0) -> None:
        super().__init__(failures, rest)
        self.open = 0

    def enter(self, now: float) -> Ticket | None:
        ticket = super().enter(now)
        self.open += ticket is not None
        return ticket

    def leave(self, ticket: Ticket) -> None:
        self.open -= 1
        super().leave(ticket)

    def settle(self, ticket: Ticket, error: Any, now: float) -> None:
        self.open -= 1
        super().settle(ticket, error, now)


class UpperCaseStream:
    """Translates to capital letters. `.` ends the stream, `;` names its stop reason, `!` is an error, `_` is nothing;
    after `?` the model is to be asked once more, and `#` makes the translation fail."""

    may_retry = True

    def __init__(self) -> None:
        self.ended = self.settled = self.is_cut = False
        self.pending_retry: object | None = None
        self.fault: ApiError | None = None

    def feed(self, data: bytes) -> bytes:
        if data == b"!":
            return self.fail(ApiError(kind="overloaded", message="said in the stream", status=529))
        if data == b"#":
            raise ValueError("a defect")
        self.settled = self.settled or b";" in data
        self.pending_retry = self if data.endswith(b"?") else None
        self.ended = data.endswith(b".")
        return data.replace(b"_", b"").upper()

    def close(self) -> bytes:
        if self.pending_retry is not None:
            return b""
        self.ended = True
        return b"<END>" if self.settled else self.fail(ApiError(kind="server", message="cut"))

    def break_off(self, error: ApiError, *, broken: bool = True) -> bytes:
        return self.close() if self.settled else self.fail(error)

    def fail(self, error: ApiError) -> bytes:
        self.ended, self.fault = True, error
        return b"<%b>" % error.kind.encode()


class NoTransport:
    """The name of a target, for transcripts."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def send(self, call: UpstreamCall) -> Reply:
        raise NotImplementedError

    async def close(self) -> None: ...


async def _nothing() -> None: ...


class UpperCase:
    """A translation to capital letters."""

    def __init__(self, name: str, body: bytes = b"ask") -> None:
        self.body = body
        self.size = len(body)
        self.transport: Transport = NoTransport(name)
        self.limit = 100
        self.pending_retry: object | None = None
        self.accepted_after: list[str | None] = []
        self.discarded = 0

    def call(self, body: bytes) -> UpstreamCall:
        return UpstreamCall(url="", headers={}, body=body)

    def remedy(self, context: FlowContext, error: ApiError) -> Steps[bytes | None]:
        yield from ()
        return b"less" if "too much" in error.message else None

    def ask_again(self, stream: Stream | None) -> bytes:
        self.pending_retry = None
        if isinstance(stream, UpperCaseStream):
            stream.pending_retry = None
        return b"again"

    def decode_error(self, reply: WholeReply) -> ApiError:
        return ApiError(kind=KINDS[reply.status], status=reply.status, message=reply.body.decode())

    def label(self, headers: Mapping[str, str]) -> None: ...

    def with_reply_headers(self, error: ApiError) -> ApiError:
        return error

    def as_text(self, context: FlowContext, error: ApiError) -> Steps[UpperCase | None]:
        if "tools" not in error.message:
            return None
        yield Await(_nothing)
        return UpperCase("a", b"text")

    def decode_at_once(self, body: bytes) -> bytes | None:
        if b"later" in body:
            return None
        return self._decode(body)

    def decode_answer(self, context: FlowContext, body: bytes) -> Steps[bytes]:
        yield Await(_nothing)
        return self._decode(body)

    def _decode(self, body: bytes) -> bytes:
        self.pending_retry = self if body.endswith(b"?") else None
        return body.upper()

    def open_stream(self) -> UpperCaseStream:
        return UpperCaseStream()

    def early_fault(self, stream: Stream) -> ApiError | None:
        return stream.fault

    def accept(self, context: FlowContext, before: ApiError | None) -> Steps[None] | None:
        self.accepted_after.append(None if before is None else before.kind)
        return None

    def discard(self) -> None:
        self.discarded += 1

    def release(self) -> None:
        self.body = b""


class Stage:
    """A context, and targets by their names."""

    def __init__(self, names: str = "a", *, stream: bool = False, attempts: int = 3, body: bytes = b"ask") -> None:
        self.now = 0.0
        self.record = RequestRecord(id="r", method="POST", path="/", started=0.0)
        self.breakers = {name: CountingBreaker() for name in names}
        self.translations = {name: UpperCase(name, body) for name in names}
        self.failed: list[tuple[str, str]] = []
        retries = Retries(attempts=attempts, first_wait=1.0, longest_wait=8.0)
        self.targets = [
            UpstreamTarget(name=name, breaker=self.breakers[name], prepare=self._prepare(name), retries=retries)
            for name in names
        ]
        self.context = FlowContext(
            record=self.record,
            environment=Environment(lambda: self.now, lambda: 1.0, lambda: 0.0),
            is_streaming=stream,
            encode_keepalive=lambda: b":beat",
            encode_fault=lambda context, error: b"<%b>" % error.kind.encode(),
            describe_failure=lambda failure, record: ApiError(kind="server", message=str(failure)),
            on_failure=lambda record, name, error: self.failed.append((name, error.kind)),
        )

    def _prepare(self, name: str) -> Any:
        def prepare(context: FlowContext) -> Steps[UpperCase]:
            yield from ()
            return self.translations[name]

        return prepare

    @property
    def open(self) -> int:
        return sum(breaker.open for breaker in self.breakers.values())


def shown(said: Any) -> str:
    match said:
        case Send(transport=NoTransport() as transport, call=call):
            return f"send {transport.name} {call.body.decode()}"
        case Wait(seconds):
            return f"wait {seconds:g}"
        case BeginStream(headers):
            return "begin early" if headers is None else "begin"
        case Write(data):
            return f"write {data.decode()}"
        case Await():
            return "await"
        case Offload(size):
            return f"offload {size}"
        case WholeAnswer(body):
            return f"= whole {body.decode()}"
        case StreamEnd(data, is_cut):
            return "= " + data.decode() + (" cut" if is_cut else "")
        case ApiError():
            return f"= error {said.status} {said.kind}"
        case Signal():
            return repr(said)
    assert isinstance(said, bytes)
    return said.decode() or "-"


def play(flow: Generator[Any, Any, Any], outcomes: Iterable[Any]) -> list[str]:
    """What a flow says to these outcomes. `BeginStream`, `Write` and `RELEASE` are answered at once."""
    said: list[str] = []
    left = list(outcomes)
    outcome: Any = None
    while True:
        try:
            command = flow.send(outcome)
        except StopIteration as end:
            said.append(shown(end.value))
            assert not left, f"not heard: {left}"
            return said
        said.append(shown(command))
        if isinstance(command, BeginStream | Write | Signal):
            outcome = None
        elif left:
            outcome = left.pop(0)
        else:
            return said


def transcript(flow: Generator[Any, Any, Any], outcomes: Iterable[Any]) -> str:
    return " | ".join(play(flow, outcomes))
