"""One request that crosses in callbacks: what the server's protocol knows as its cycle is the upstream's receiver.

    begin ─▶ on_head ─▶ on_body … ─▶ on_end        the answer is written from inside these, or from `on_whole`
                │           │          │
                └───────────┴──────────┴─▶ hand over, while nothing has been written

Once something has been written there is one way on, as on the general way: to the end, or to an error in the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import time
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from toolglot.direct.answer import Label, answered
from toolglot.direct.plain import PlainRequest
from toolglot.direct.request import Translated
from toolglot.errors import ApiError
from toolglot.gateway.driver import DRAIN_SECONDS
from toolglot.gateway.flow import TRAILING_SECONDS, may_end_large_event
from toolglot.ir import replace
from toolglot.server import failures
from toolglot.server.credentials import also_hiding
from toolglot.server.express.account import Account
from toolglot.server.express.client import Client
from toolglot.server.express.handing import Handed, is_readable
from toolglot.server.express.keeping import keep
from toolglot.server.express.lanes import Lane, Passage, lines
from toolglot.server.express.waiting import Waiting
from toolglot.server.headers import STREAM_HEADERS
from toolglot.server.outcomes import broken_off
from toolglot.server.prefixes import Found
from toolglot.server.record import Record
from toolglot.server.states import Heard
from toolglot.textcalls.settings import BAD_TOOL_CALL
from toolglot.upstream.aside import LARGE, aside
from toolglot.upstream.http_client import Sending
from toolglot.upstream.transport import TransportError, too_large

if TYPE_CHECKING:
    from toolglot.server.service import Service
    from toolglot.streaming import StreamTranslation
    from toolglot.translate import Exchange

_WHOLE = b"content-type: application/json\r\ncontent-length: %d\r\n"
_STREAM = lines(STREAM_HEADERS) + b"transfer-encoding: chunked\r\n"
_NO_REQUEST = PlainRequest(model="", stream=UNSET, settings=(), turns=[], system=[])


class Crossing(Struct, eq=False):
    """`response_complete`, `response_started`, `keep_alive` and `disconnected` are what uvicorn asks a cycle for."""

    _service: Service
    _client: Client
    _lane: Lane
    _passage: Passage
    _asked: Translated
    _waiting: Waiting
    _account: Account
    record: Record
    touched: float
    """When something was written last, or was seen to have been."""
    _limit: int
    _sending: Sending | None = None
    _status: int = 0
    _headers: dict[str, str] = {}
    _pieces: list[bytes] = []
    _received: int = 0
    _exchange: Exchange | None = None
    _translation: StreamTranslation | None = None
    _flowing: StreamTranslation | None = None
    """The same while the client gets what it makes of whatever comes."""
    _held: int = 0
    """Bytes of the stream that nothing has come of yet."""
    _deferred: list[Callable[[], None]] | None = None
    """What else has happened while a thread translates a large event."""
    _seen: int = 0
    """Bytes that had been written when somebody looked."""
    _heard: Heard | None = None
    _last: bytes = b""
    _prefix: Found | None = None
    """The hashes of the request, written once it is answered here."""
    _task: asyncio.Task[None] | None = None
    """What cannot be done in a callback: connecting, keeping state, and translating a large event."""
    response_started: bool = False
    response_complete: bool = False
    keep_alive: bool = True
    disconnected: bool = False

    def begin(self) -> None:
        """Send the request: at once if a connection is idle, else as soon as there is one."""
        lane, asked, head = self._lane, self._asked, self._passage.head
        self._sending = lane.transport.begin(lane.destination, head, asked.body, lane.upstream.timeouts, self)
        if self._sending is None:
            self._task = asyncio.create_task(self._connect())
        # While the upstream is at work.
        hashes = self._service.gateway.prefixes.hash_plain
        words, model = asked.plain.turns[0].words, asked.learnt.model
        self._prefix = hashes(self.record, lane.upstream, words, model, asked.body)

    async def _connect(self) -> None:
        lane, head, body = self._lane, self._passage.head, self._asked.body
        try:
            sending = await lane.transport.connect(lane.destination, head, body, lane.upstream.timeouts, self)
        except TransportError as error:
            self._task = None
            self.on_broken(error)
        else:
            self._task, self._sending = None, sending
            if self._client.full:
                sending.pause()

    # As the upstream's connection sees it

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self._status, self._headers = status, headers
        if not self.disconnected and (status != 200 or not is_readable(headers)):
            self._hand_over()
        elif self.record.stream:
            self._translation = self._translate()

    def on_body(self, data: bytes) -> None:
        size = len(data)
        self._received += size
        flowing = self._flowing
        if flowing is None or self._received > self._limit:
            self._hold(data)
            return
        self._held += size
        if self._held > LARGE and may_end_large_event(self._held, data):
            self._offload(flowing, data)
            return
        written = flowing.feed(data)
        if flowing.ended:
            self._say(flowing, written)
        elif written:
            self._held, size = 0, len(written)
            self.record.bytes_out += size
            self._client.put(b"%x\r\n%b\r\n" % (size, written))

    def _hold(self, data: bytes) -> None:
        """What comes before the answer has begun, or after it, or is too much."""
        if self.disconnected:
            return
        if self._deferred is not None:
            self._received -= len(data)
            self._deferred.append(partial(self.on_body, data))
        elif self._received > self._limit:
            self._too_large()
        elif not self.response_started:
            self._pieces.append(data)
            if self._translation is not None and self._received > LARGE:
                self._hand_over()
            elif self._translation is not None:
                self._say(self._translation, self._translation.feed(data))

    def _offload(self, translation: StreamTranslation, data: bytes) -> None:
        """Translate the end of a large event in a thread. Nothing else is done about this answer meanwhile."""
        self._flowing, self._deferred = None, []
        self.pause()
        self._task = asyncio.create_task(self._translate_aside(translation, data))

    async def _translate_aside(self, translation: StreamTranslation, data: bytes) -> None:
        try:
            written = await aside(self._held, translation.feed, data)
        except Exception as fault:  # a fault of ours: the client waits for what will not come
            self._deferred = self._task = None
            if (error := failures.told(fault, self.record)) is not None:
                self.fail(error)
            return
        if self.disconnected:
            return
        deferred, self._deferred, self._task, self._flowing = self._deferred or [], None, None, translation
        if written or translation.ended:
            self._held = 0
            self._say(translation, written)
        if not self._client.full:
            self.resume()
        for happened in deferred:
            happened()

    def on_end(self) -> None:
        self._sending = None
        if self._deferred is not None:
            self._deferred.append(self.on_end)
            return
        translation = self._translation
        if self.response_complete or self.disconnected:
            self._service.crossings.discard(self)
        elif translation is None:
            self._whole()
        elif not translation.ended:
            self._say(translation, translation.close())

    def on_whole(self, headers: dict[str, str], body: bytes) -> None:
        self._sending = None
        if self.record.stream and body and is_readable(headers):
            self.on_head(200, headers)
            self.on_body(body)
            self.on_end()
            return
        self._status, self._headers, self._received = 200, headers, len(body)
        self._pieces.append(body)
        if self.response_complete or self.disconnected:
            self._service.crossings.discard(self)
        elif not is_readable(headers):
            self._hand_over()
        elif self._received > self._limit:
            self._too_large()
        else:
            self._whole()

    def on_broken(self, error: TransportError) -> None:
        self._sending = None
        if self._deferred is not None:
            self._deferred.append(partial(self.on_broken, error))
            return
        translation = self._translation
        if self.response_complete or self.disconnected:
            self._service.crossings.discard(self)
        elif translation is None or not self.response_started:
            self._hand_over(error)
        elif not translation.ended:
            self._break_off(translation, error)

    # As the client's connection sees it

    def pause(self) -> None:
        """The client does not read as fast as the upstream writes."""
        if self._sending is not None:
            self._sending.pause()

    def resume(self) -> None:
        if self._sending is not None and self._deferred is None:
            self._sending.resume()

    def left(self) -> None:
        """The client has gone."""
        self.disconnected = True
        self._flowing = None
        if not self.response_complete:
            self._service.crossings.leave(self)

    def clear_up(self) -> None:
        """Behind a client that has gone."""
        if self._task is not None:
            self._task.cancel()
        self._give_up()
        self.record.cancelled = True
        self._account.leave()
        self._over(self._client.loop.time())

    # Whole answers

    def _whole(self) -> None:
        if self._received > LARGE:
            self._hand_over()
            return
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        lane, record = self._lane, self.record
        done = answered(self._asked, lane.client, lane.upstream.dialect, body, self._label)
        if done is None:
            self._hand_over()
            return
        written, answer = done
        record.usage, record.stop = answer.usage, answer.stop
        if answer.lines:
            self._asked.lines = (*self._asked.lines, *answer.lines)
        self._account.settle(None)
        self._note_prefix()
        record.first_byte = now = self._client.loop.time()
        record.bytes_out = size = len(written)
        self._client.put(self._head(_WHOLE % size, written))
        self._finish(now)

    def _note_prefix(self) -> None:
        if self._prefix is not None:
            self._service.gateway.prefixes.write(self.record, self._lane.upstream.name, self._prefix)

    def _label(self) -> Label:
        return Label(int(time()), self.record.id.replace("req_", "resp_"))

    def _head(self, framing: bytes, body: bytes = b"") -> bytes:
        """How an answer begins, and all of it that there is."""
        self.response_started = True
        self.record.status = 200
        return b"%b%b%bx-request-id: %b\r\n\r\n%b" % (
            self._client.greeting(),
            framing,
            self._lane.told(self._passage, self._asked, self._headers),
            self.record.id.encode(),
            body,
        )

    # Streamed answers

    def _translate(self) -> StreamTranslation:
        keeps_state = self._service.store is not None and self._lane.issuer is not None
        exchange = self._lane.exchange(self._asked, self._label(), keeps_state=keeps_state)
        if shown := self._waiting.head.shown:
            exchange.hide = also_hiding(exchange.hide, shown)
        if keeps_state:
            self._heard = heard = Heard()
            exchange.new_listener = lambda: heard.hear
        self._exchange = exchange
        return exchange.stream()

    def _say(self, translation: StreamTranslation, written: bytes) -> None:
        """Write what was translated. An error that comes before anything else is one of the request."""
        head = b""
        if not self.response_started:
            if translation.fault is not None and translation.fault.code != BAD_TOOL_CALL:
                self._hand_over()
                return
            if not written and not translation.ended:
                return
            self._pieces.clear()
            self._account.answer()
            self._note_prefix()
            if self._exchange is not None:
                self._asked.lines = tuple(self._exchange.receipt)
            head = self._head(_STREAM)
            self._let_go()
        self._flowing = None if translation.ended else translation
        if not translation.ended:
            self._put(b"%b%x\r\n%b\r\n" % (head, len(written), written), len(written))
        elif self._heard is not None and self._heard.has_state:
            if head:
                self._put(head, 0)
            self._last = written
            self._task = asyncio.create_task(self._keep(translation))
        else:
            self._end(translation, written, head)

    def _let_go(self) -> None:
        """Nothing can be handed over any more: a stream may last, and need not hold the request all the while."""
        self._client.begun()
        self._headers = {}
        self._asked.plain, self._asked.body = _NO_REQUEST, b""
        if self._heard is None:
            self._waiting.pieces.clear()
            self._account.release_body()

    def _end(self, translation: StreamTranslation, written: bytes, head: bytes = b"") -> None:
        record = self.record
        record.usage = translation.usage
        record.stop = None if translation.stop is None else translation.stop.reason
        if (fault := translation.fault) is not None:
            record.error, record.message = fault.kind, fault.message
        self._account.settle(None)
        last = b"%x\r\n%b\r\n" % (len(written), written) if written else b""
        if translation.is_cut:  # its last chunk never comes
            self.keep_alive, record.cut = False, True
            self._put(head + last, len(written))
        else:
            self._put(b"%b%b0\r\n\r\n" % (head, last), len(written))
        self._finish(self.touched)

    async def _keep(self, translation: StreamTranslation) -> None:
        assert self._exchange is not None
        assert self._heard is not None
        body, owner = self._waiting.body(), self.record.owner
        await keep(self._service.store, owner, self._lane, body, self._exchange, self._heard)
        if not self.disconnected:
            self._end(translation, self._last)

    def _break_off(self, translation: StreamTranslation, error: TransportError) -> None:
        written = broken_off(translation, self._lane.upstream.name, error)
        self._account.settle(error if translation.fault is not None else None)
        self._end(translation, written)

    def fail(self, error: ApiError) -> None:
        """End the answer with an error."""
        if self.response_complete or self.disconnected:
            return
        if self._deferred is not None:
            self._deferred.append(partial(self.fail, error))
            return
        self._give_up()
        if self._task is not None:
            self._task.cancel()
        if self._translation is None or not self.response_started:
            self._refuse(error)
        else:  # an answer that is whole is not held back any longer
            self._end(self._translation, self._last or self._translation.fail(error))

    def _refuse(self, error: ApiError) -> None:
        """Tell an error in place of an answer."""
        told = self._lane.client.encode_error(replace(error, request_id=self.record.id))
        self.record.status, self.record.error, self.record.message = told.status, error.kind, error.message
        self.response_started = True
        self._account.leave()
        head = self._client.greeting(told.status) + lines(told.headers)
        framing = b"content-length: %d\r\nx-request-id: %b\r\n\r\n" % (len(told.body), self.record.id.encode())
        self._put(head + framing + told.body, len(told.body))
        self._finish(self.touched)

    def _too_large(self) -> None:
        self._give_up()
        self.on_broken(too_large(self._limit))

    # What time brings

    def tick(self, now: float, silence: float) -> None:
        """Called now and then: a keep-alive for who hears nothing, and an end for what has no other."""
        translation = self._translation
        if self.disconnected:
            return
        if self.record.bytes_out != self._seen:
            self._seen, self.touched = self.record.bytes_out, now
        if self.response_complete:
            if now - self.touched >= DRAIN_SECONDS:
                self._give_up()
                self._service.crossings.discard(self)
        elif self._task is not None and self.response_started:
            return  # it is being kept, which takes its own time
        elif translation is not None and translation.settled and now - self.touched >= TRAILING_SECONDS:
            self._give_up()
            self._say(translation, translation.close())
        elif self.record.stream and now - self.touched >= silence:
            if translation is None or not self.response_started:
                self._hand_over()
            else:
                beat = translation.keepalive()
                self._put(b"%x\r\n%b\r\n" % (len(beat), beat), len(beat))

    # The end

    def _give_up(self) -> None:
        """Nothing of what the upstream still sends is wanted."""
        if self._sending is not None:
            self._sending.abort()
            self._sending = None

    def _put(self, data: bytes, size: int) -> None:
        """Write; so much of it is the body."""
        record = self.record
        self.touched = now = self._client.loop.time()
        if record.first_byte is None:
            record.first_byte = now
        record.bytes_out = self._seen = record.bytes_out + size
        self._client.put(data)

    def _hand_over(self, error: TransportError | None = None) -> None:
        """Send the request the general way, with whatever the upstream has said. What comes now is not for this one."""
        account, lane, self.disconnected = self._account, self._lane, True
        self._service.crossings.discard(self)
        if self._task is not None:
            self._task.cancel()  # it is not connected yet, and nothing has been sent
        ticket = account.hand_over()
        handed = Handed(self.record, account.gateway, lane.upstream, self._asked.learnt.model, ticket, error)
        sending, status, body = self._sending, self._status, b"".join(self._pieces)
        if sending is not None:
            handed.goes_on(sending, status, self._headers, body)
        elif status and error is None:
            handed.is_whole(status, self._headers, body)
        self._client.go_general(self._waiting, handed)

    def _finish(self, now: float) -> None:
        self.response_complete = self.record.express = True
        self._flowing = None
        self._over(now)
        if self._sending is not None:  # the upstream has a moment to end, so that its connection lives on
            self._service.crossings.add(self)
        self._client.answered(now)

    def _over(self, now: float) -> None:
        self._service.crossings.discard(self)
        self._account.close(self._asked.lines if self._exchange is None else tuple(self._exchange.receipt), now)
