"""A worker's side: where it serves, and its line to the parent.

When the parent is gone, so is whoever would start a dead worker again: the worker ends as after a signal.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from toolglot.config.schema import Limits
from toolglot.server.metrics import Snapshot
from toolglot.server.service import Dated, Service
from toolglot.server.workers.line import (
    LENGTH,
    Answer,
    Answers,
    Ask,
    Go,
    Last,
    Leave,
    Leaving,
    Message,
    Ping,
    Pong,
    Question,
    Ready,
    Subject,
    framed,
    unframed,
)
from toolglot.upstream.discovery import Discovery

if TYPE_CHECKING:
    from toolglot.server.guarded import GuardedProtocol
    from toolglot.server.run import Server

log = logging.getLogger("toolglot.server")

PATIENCE = 2.0
"""Seconds that a request waits for the other workers: a little more than the parent does."""

IDLE = 5.0
"""Seconds that a connection without a request stays open in a worker that has a successor. Closed at once it could
cross with a request, which would be lost (RFC 9112, section 9.6); whoever uses it meanwhile is told to close it."""

_LOOK = 0.05
"""Seconds between two looks at what is still connected."""

_snapshots = msgspec.msgpack.Decoder(Snapshot)
_receipts = msgspec.msgpack.Decoder(list[Dated])
_wanted_receipt = msgspec.msgpack.Decoder(tuple[str, str])
_wanted_receipts = msgspec.msgpack.Decoder(tuple[str, int])
_wanted_approval = msgspec.msgpack.Decoder(tuple[str, str])
_taken = msgspec.msgpack.Decoder(bool)
_encode = msgspec.msgpack.Encoder().encode


class Seat:
    """One worker's place: `listener` is where its connections come from, `local` what was discovered before it was
    there. From `open` to `close` it is also what the worker has of the others."""

    _service: Service
    _writer: asyncio.StreamWriter
    _reading: asyncio.Task[None]

    def __init__(self, listener: socket.socket, line: socket.socket, local: Discovery | None) -> None:
        self.listener = listener
        self.local = local
        self._line = line
        self._server: Server | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[list[bytes]]] = {}
        self._told = asyncio.Event()
        self._leaves = False
        self._has_successor = False

    async def open(self, service: Service) -> None:
        """Begin to listen to the parent."""
        self._service = service
        service.peers = self
        reader, self._writer = await asyncio.open_unix_connection(sock=self._line)
        self._reading = asyncio.create_task(self._read(reader))

    async def close(self) -> None:
        """Tell what was counted, for good."""
        self._say(Last(_encode(self._service.snapshot(asyncio.get_running_loop().time()))))
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def ready(self, server: Server) -> bool:
        """Wait until this worker may serve; False when it may not any more."""
        self._server = server
        self._say(Ready())
        await self._told.wait()
        return not self._leaves

    async def leave(self, server: Server, limits: Limits) -> float:
        """Begin to leave; the seconds that running requests still have."""
        # Who has a signal for this worker alone has none for the parent, who sees to a successor.
        self._has_successor = self._has_successor or not self._leaves
        if not self._has_successor:
            self._say(Leaving(limits.drain))
            return limits.drain
        _take_no_more(server)
        self._say(Leaving(limits.retire))
        left = await self._serve_what_is_connected(server, limits.retire)
        return left if self._has_successor else limits.drain

    async def _serve_what_is_connected(self, server: Server, seconds: float) -> float:
        """Until all have left, or the time is over, or all workers are to end; the seconds that are left."""
        now = asyncio.get_running_loop().time
        end = now() + seconds
        idle: dict[GuardedProtocol, float] = {}
        while _connections(server) and self._has_successor and not server.force_exit and now() < end:
            idle = {each: idle.get(each, now()) for each in _connections(server) if not _is_busy(each)}
            for connection, since in idle.items():
                if now() - since >= IDLE:
                    connection.shutdown()
            await asyncio.sleep(_LOOK)
        return max(end - now(), 0.0)

    async def snapshots(self, own: Snapshot) -> list[Snapshot]:
        return [own, *map(_snapshots.decode, await self._ask("metrics", _encode(own)))]

    async def receipt(self, owner: str, request_id: str) -> dict[str, Any] | None:
        found = await self._receipts("receipt", _encode((owner, request_id)))
        return next((told for _, told in found), None)

    async def receipts(self, owner: str, count: int) -> list[Dated]:
        return await self._receipts("receipts", _encode((owner, count)))

    async def redeem_approval(self, owner: str, fingerprint: str) -> bool:
        try:
            bodies = await self._ask("approval", _encode((owner, fingerprint)))
        except TimeoutError:
            return False
        return any(map(_taken.decode, bodies))

    async def _receipts(self, subject: Subject, body: bytes) -> list[Dated]:
        try:
            bodies = await self._ask(subject, body)
        except TimeoutError:
            return []
        return [dated for each in bodies for dated in _receipts.decode(each)]

    async def _ask(self, subject: Subject, body: bytes) -> list[bytes]:
        number = next(self._numbers)
        answers: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answers
        self._say(Ask(number, subject, body))
        try:
            async with asyncio.timeout(PATIENCE):
                return await answers
        finally:
            del self._asked[number]

    def _say(self, message: Message) -> None:
        self._writer.write(framed(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(LENGTH), "big")
                self._hear(unframed(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            log.error("the process that started this worker is gone, and so will this one be")
            self._leave(successor=False)

    def _hear(self, message: Message) -> None:
        match message:
            case Go():
                self._told.set()
            case Leave():
                self._leave(successor=message.successor)
            case Ping():
                self._say(Pong())
            case Question():
                self._say(Answer(message.number, self._answer(message)))
            case Answers() if message.number in self._asked and not self._asked[message.number].done():
                self._asked[message.number].set_result(message.bodies)
            case _:
                pass

    def _leave(self, *, successor: bool) -> None:
        self._has_successor, self._leaves = successor, True
        self._told.set()
        if self._server is not None:
            self._server.should_exit = True

    def _answer(self, question: Question) -> bytes:
        return _encode(_ANSWERS[question.subject](self._service, question.body))


def _receipt(service: Service, body: bytes) -> list[Dated]:
    kept = service.receipts.find(*_wanted_receipt.decode(body))
    return [] if kept is None else [(0.0, kept)]


_ANSWERS: dict[Subject, Callable[[Service, bytes], Snapshot | list[Dated] | bool]] = {
    "approval": lambda service, body: service.approvals.take(*_wanted_approval.decode(body)),
    "metrics": lambda service, body: service.snapshot(asyncio.get_running_loop().time()),
    "receipt": _receipt,
    "receipts": lambda service, body: service.receipts.dated(*_wanted_receipts.decode(body)),
}


def _connections(server: Server) -> set[GuardedProtocol]:
    return server.server_state.connections  # type: ignore[return-value] # the server makes no other ones


def _take_no_more(server: Server) -> None:
    """No connection, and on those that are there no more than one request each. Whose answer has begun does not know
    that, and may ask again as soon as he has it."""
    for each in server.servers:
        each.close()
    state = server.server_state
    state.default_headers = [*state.default_headers, (b"connection", b"close")]
    for connection in _connections(server):
        cycle = connection.cycle
        if cycle is not None and not cycle.response_started:
            cycle.keep_alive = False


def _is_busy(connection: GuardedProtocol) -> bool:
    return connection.receiving or (connection.cycle is not None and not connection.cycle.response_complete)
