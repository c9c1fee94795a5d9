"""The callback driver on a connection and an upstream that only remember: every way that a request can go, in order."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from tests.gateway.stage import Stage, UpperCase
from toolglot.config.schema import ServerConfig
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.client_answer import AnswerSource
from toolglot.gateway.client_request import ClientRequest
from toolglot.gateway.commands import Flow, Result
from toolglot.gateway.flow import FlowContext, answer, await_result
from toolglot.gateway.known_heads import RequestHead
from toolglot.gateway.received import ReceivedRequest
from toolglot.gateway.sweep import DriverSweep
from toolglot.ir import Request, replace
from toolglot.manifest import Route
from toolglot.server.error_replies import DRAINING
from toolglot.server.security import Caller, Guard
from toolglot.upstream.http_client import AnswerReceiver, Destination, HttpTransport, InFlightRequest, PreparedCall
from toolglot.upstream.offload import LARGE
from toolglot.upstream.transport import Timeouts, TransportError

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


class RememberingClient:
    """A client's connection."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.full = False
        self.written = b""
        self.answers = 0

    def put(self, data: bytes) -> None:
        self.written += data

    def begun(self) -> None: ...

    def answered(self, now: float) -> None:
        self.answers += 1

    def greeting(self, status: int = 200) -> bytes:
        return b"HTTP/1.1 %d\r\n" % status

    def body(self) -> bytes:
        """The chunks of a stream."""
        _, _, chunked = self.written.partition(b"\r\n\r\n")
        parts = []
        while chunked:
            size, _, rest = chunked.partition(b"\r\n")
            count = int(size, 16)
            parts.append(rest[:count] if count else b"|end")
            chunked = rest[count + 2 :]
        return b"".join(parts)


class RememberingSending:
    """A request on its way. `log` is what was asked of it."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def pause(self) -> None:
        self.log.append("pause")

    def resume(self) -> None:
        self.log.append("resume")

    def abort(self) -> None:
        self.log.append("abort")


class RememberingTransport(HttpTransport):
    """Takes calls; a test answers them through `receiver`."""

    def __init__(self) -> None:
        super().__init__(environment={})
        self.bodies: list[bytes] = []
        self.sendings: list[RememberingSending] = []
        self.receiver: AnswerReceiver

    def begin(
        self, destination: Destination, request_head: bytes, body: bytes, timeouts: Timeouts, receiver: AnswerReceiver
    ) -> InFlightRequest | None:
        self.bodies.append(body)
        self.receiver = receiver
        self.sendings.append(RememberingSending())
        return cast("InFlightRequest", self.sendings[-1])


class Prepared(UpperCase):
    def __init__(self, transport: HttpTransport) -> None:
        super().__init__("a")
        self.transport = transport
        self._destination = transport.destination("http://up.test")

    def call(self, body: bytes) -> Any:
        return PreparedCall(self._destination, b"", body, Timeouts())


HEAD = RequestHead(
    path="/ask",
    route=Route("POST", "/ask", "generate"),
    values={},
    client=DIALECTS["openai_chat"],
    stream_lines=b"transfer-encoding: chunked\r\n",
    query={},
    headers={},
    caller=Caller("", ""),
    guard=Guard(ServerConfig()),
)


class NoSource:
    """Nothing is known of the exchange."""

    def client_headers(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        return {}


class RememberingRequest(ClientRequest, kw_only=True):
    """A request of which nothing is reported."""

    closed: int = 0

    def header_lines(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> bytes:
        return b"x-early: yes\r\n" if upstream_headers is None else b""

    def close(self, context: FlowContext, now: float) -> None:
        self.closed += 1


def remember(client: RememberingClient, stage: Stage, dialect: str) -> RememberingRequest:
    head = replace(HEAD, client=DIALECTS[dialect])
    received = ReceivedRequest(client=head.client, request=Request(model="m", stream=True), body=b"")
    nothing: Any = None
    source = cast("AnswerSource", NoSource())
    return RememberingRequest(
        nothing, nothing, head, nothing, stage.record, received, stage.context, None, source, connection=client
    )


class Run:
    """One request, between both."""

    def __init__(
        self,
        *,
        stream: bool,
        attempts: int = 3,
        wrap: Callable[[Flow, FlowContext], Flow] | None = None,
        dialect: str = "openai_chat",
    ):
        self.stage = Stage(stream=stream, attempts=attempts)
        self.stage.context.environment = type(self.stage.context.environment)(
            lambda: self.stage.now, lambda: 0.0, lambda: 0.0
        )
        self.client, self.transport = RememberingClient(), RememberingTransport()
        self.request = remember(self.client, self.stage, dialect)
        self.stage.translations["a"] = Prepared(self.transport)
        self.sweep = DriverSweep(lambda: 15.0)
        context = self.stage.context
        flow = answer(context, self.stage.targets)
        if wrap is not None:
            flow = wrap(flow, context)
        self.driver = CallbackDriver(
            self.request, self.client.loop, context, flow, flow.send, self.sweep, self.stage.record, 0.0, 0.0, stream
        )
        self.driver.start()

    @property
    def upstream(self) -> AnswerReceiver:
        return self.transport.receiver

    def is_over(self) -> bool:
        over = (self.client.answers, self.request.closed, self.stage.open, len(list(self.sweep))) == (1, 1, 0, 0)
        return over and self.driver.response_complete


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(timed())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_a_whole_answer_that_comes_at_once_or_in_pieces() -> None:
    async def work() -> None:
        for at_once in (True, False):
            request = Run(stream=False)
            if at_once:
                request.upstream.on_whole(JSON, b"hi")
            else:
                request.upstream.on_head(200, JSON)
                request.upstream.on_body(b"h")
                request.upstream.on_body(b"i")
                request.upstream.on_end()
            assert request.client.written.endswith(b"content-length: 2\r\nx-request-id: r\r\n\r\nHI")
            assert request.is_over()

    run(work)


def test_a_stream_and_what_its_upstream_says_behind_the_end() -> None:
    async def work() -> None:
        request = Run(stream=True)
        request.upstream.on_head(200, EVENTS)
        for piece in (b"a", b"_", b"b."):
            request.upstream.on_body(piece)
        assert request.client.body() == b"AB.|end"
        request.upstream.on_body(b"more")
        request.upstream.on_end()
        assert request.client.body() == b"AB.|end"
        assert request.is_over()

    run(work)


def test_an_upstream_that_does_not_end_is_given_a_moment() -> None:
    async def work() -> None:
        request = Run(stream=True)
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a.")
        now = request.client.loop.time()
        request.driver.tick(now, 15.0)
        assert request.transport.sendings[0].log == []
        request.driver.tick(now + 2.0, 15.0)
        assert request.transport.sendings[0].log == ["abort"]
        assert request.is_over()

    run(work)


def test_an_upstream_that_does_not_end_is_given_up_although_the_client_has_left_with_its_answer() -> None:
    async def work() -> None:
        request = Run(stream=True)
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a.")
        request.driver.left()
        request.driver.tick(request.client.loop.time() + 2.0, 15.0)
        assert request.transport.sendings[0].log == ["abort"]
        assert request.is_over()

    run(work)


def test_what_an_upstream_says_behind_an_error_is_not_taken_for_the_next_reply() -> None:
    async def work() -> None:
        request = Run(stream=True)
        first = request.upstream
        first.on_head(200, EVENTS)
        first.on_body(b"!")
        assert request.transport.sendings[0].log == ["abort"]
        await until(lambda: len(request.transport.bodies) == 2)
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a.")
        request.upstream.on_end()
        assert request.client.body() == b"A.|end"
        assert request.is_over()

    run(work)


def test_a_stream_that_comes_at_once_and_begins_with_an_error_is_repeated_once() -> None:
    async def work() -> None:
        for packed in (False, True):
            request = Run(stream=True, attempts=2)
            headers = {**EVENTS, "content-encoding": "gzip"} if packed else EVENTS
            request.upstream.on_whole(headers, gzip.compress(b"!") if packed else b"!")
            await until(lambda request=request: len(request.transport.bodies) == 2)  # type: ignore[misc]
            request.upstream.on_whole(headers, gzip.compress(b"a.") if packed else b"a.")
            await until(request.is_over)
            assert request.client.body() == b"A.|end"
            assert len(request.transport.bodies) == 2

    run(work)


def test_a_packed_answer_is_unpacked() -> None:
    async def work() -> None:
        request = Run(stream=False)
        request.upstream.on_whole({**JSON, "content-encoding": "gzip"}, gzip.compress(b"hi"))
        await until(request.is_over)
        assert request.client.written.endswith(b"\r\n\r\nHI")

    run(work)


def test_an_error_is_told_once_retries_are_over() -> None:
    async def work() -> None:
        request = Run(stream=False, attempts=1)
        request.upstream.on_head(401, JSON)
        request.upstream.on_body(b"who?")
        request.upstream.on_end()
        assert request.client.written.startswith(b"HTTP/1.1 401\r\n")
        assert b"who?" in request.client.written
        assert request.is_over()

    run(work)


def test_a_client_that_does_not_look_at_the_status_is_told_an_error_in_a_stream() -> None:
    async def work() -> None:
        request = Run(stream=True, attempts=1, dialect="openai_responses")
        translation = request.stage.translations["a"]
        code = next(iter(DIALECTS["openai_responses"].stream.error_codes))
        cast("Any", translation).decode_error = lambda reply: ApiError(kind="bad_request", code=code, message="no")
        request.upstream.on_head(400, JSON)
        request.upstream.on_end()
        assert request.client.written.startswith(b"HTTP/1.1 200\r\n")
        assert b"response.failed" in request.client.body()
        assert request.client.body().endswith(b"|end")
        assert request.is_over()

    run(work)


def test_an_answer_over_the_limit_is_given_up() -> None:
    async def work() -> None:
        for stream in (False, True):
            request = Run(stream=stream, attempts=1)
            request.upstream.on_head(200, EVENTS if stream else JSON)
            request.upstream.on_body(b"a" * 60)
            request.upstream.on_body(b"b" * 60)
            assert "abort" in request.transport.sendings[0].log
            assert (b"<server>" if stream else b"upstream_too_large") in request.client.written
            assert request.is_over()

    run(work)


def test_silence_is_broken_and_a_settled_stream_ended() -> None:
    async def work() -> None:
        request = Run(stream=True)
        request.driver.tick(16.0, 15.0)
        assert b"x-early: yes" in request.client.written
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a;")
        now = request.client.loop.time()
        request.driver.tick(now, 15.0)
        request.driver.tick(now + 6.0, 15.0)
        assert request.client.body() == b":beatA;<END>|end"
        request.upstream.on_end()
        assert request.is_over()

    run(work)


def test_a_client_that_goes_takes_everything_with_it() -> None:
    async def work() -> None:
        steps: list[Callable[[AnswerReceiver], None]] = [
            lambda upstream: None,
            lambda upstream: upstream.on_head(200, EVENTS),
            lambda upstream: upstream.on_body(b"a"),
            lambda upstream: upstream.on_broken(TransportError("reset", "broke")),
        ]
        for count in range(1, 5):
            request = Run(stream=True)
            for step in steps[: min(count, 3)]:
                step(request.upstream)
            if count == 4:
                request = Run(stream=True)
                request.upstream.on_broken(TransportError("reset", "broke"))
            request.driver.left()
            request.upstream.on_body(b"for nobody")
            await until(lambda request=request: request.request.closed == 1)  # type: ignore[misc]
            assert request.stage.record.cancelled
            assert (request.stage.open, len(list(request.sweep))) == (0, 0)
            await asyncio.sleep(0)
            assert len(request.transport.bodies) == 1

    run(work)


def test_what_comes_while_something_is_awaited_is_told_afterwards() -> None:
    async def work() -> None:
        go_on = asyncio.Event()

        def wrap(flow: Flow, context: FlowContext) -> Flow:
            outcome: Any = None
            try:
                while True:
                    command = flow.send(outcome)
                    if command == b"A":
                        yield from await_result(context, go_on.wait)
                    outcome = yield command
            except StopIteration as end:
                result: Result = end.value
                return result

        request = Run(stream=True, wrap=wrap)
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a")
        request.upstream.on_body(b"b")
        request.upstream.on_body(b"c.")
        request.upstream.on_end()
        request.driver.tick(request.client.loop.time() + 16.0, 15.0)
        assert request.client.body() == b":beat"
        go_on.set()
        await until(request.is_over)
        assert request.client.body() == b":beatABC.|end"
        assert request.transport.sendings[0].log == ["pause"]

    run(work)


def test_the_end_of_the_server_waits_for_a_thread_that_translates() -> None:
    async def work() -> None:
        released = threading.Event()
        request = Run(stream=True)
        translation = request.stage.translations["a"]
        translation.limit = 2 * LARGE
        request.driver._answer_limit = translation.limit
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a")
        stream = request.stage.context.stream
        assert stream is not None
        feed = stream.feed
        cast("Any", stream).feed = lambda data: (released.wait(10), feed(data))[1]
        request.upstream.on_body(b"_" * LARGE + b"b\n")
        request.driver.stop(DRAINING)
        assert not request.driver.response_complete
        released.set()
        await until(lambda: request.driver.response_complete)
        assert request.client.body() == b"AB\n<overloaded>|end"

    run(work)


def test_the_end_of_the_server_ends_a_stream_and_a_retry() -> None:
    async def work() -> None:
        stopped = ApiError(kind="overloaded", status=503, message="draining")
        request = Run(stream=True)
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a")
        request.sweep.stop(stopped)
        assert request.client.body() == b"A<overloaded>|end"
        request = Run(stream=True)
        request.upstream.on_broken(TransportError("reset", "broke"))
        request.sweep.stop(stopped)
        assert request.client.written.startswith(b"HTTP/1.1 503\r\n")
        assert request.is_over()

    run(work)


def test_a_defect_of_ours_is_told_in_the_stream() -> None:
    async def work() -> None:
        request = Run(stream=True)
        request.upstream.on_head(200, EVENTS)
        request.upstream.on_body(b"a")
        request.upstream.on_body(b"#")
        assert request.client.body() == b"A<server>|end"

    run(work)


def test_a_client_that_does_not_read_stops_its_upstream() -> None:
    async def work() -> None:
        request = Run(stream=True)
        request.upstream.on_head(200, EVENTS)
        request.driver.pause()
        request.driver.resume()
        assert request.transport.sendings[0].log == ["pause", "resume"]

    run(work)
