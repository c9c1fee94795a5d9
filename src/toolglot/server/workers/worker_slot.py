"""The worker's side: its listening socket, and its socket to the parent.

Without the parent, nothing would restart a dead worker: the worker ends as after a signal.
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
from toolglot.server.service import DatedReceipt, Service
from toolglot.server.workers.ipc import (
    LENGTH_BYTES,
    AskOthers,
    CollectedAnswers,
    FinalCounts,
    IpcMessage,
    Ping,
    Pong,
    QuestionSubject,
    StartServing,
    StopServing,
    WorkerAnswer,
    WorkerLeaving,
    WorkerQuestion,
    WorkerReady,
    decode_frame,
    encode_frame,
)
from toolglot.upstream.discovery import Discovery

if TYPE_CHECKING:
    from toolglot.server.http_protocol import HttpServerProtocol
    from toolglot.server.run import GatewayServer

log = logging.getLogger("toolglot.server")

ASK_TIMEOUT = 2.0
"""Seconds that a request waits for the other workers: slightly more than the parent does."""

IDLE_TIMEOUT = 5.0
"""Seconds that an idle connection stays open in a worker that has a successor. Closing it at once could race with a
request, which would be lost (RFC 9112, section 9.6); a client that uses it meanwhile gets `Connection: close`."""

_POLL_INTERVAL = 0.05
"""Seconds between two checks for remaining connections."""

_snapshots = msgspec.msgpack.Decoder(Snapshot)
_receipts = msgspec.msgpack.Decoder(list[DatedReceipt])
_wanted_receipt = msgspec.msgpack.Decoder(tuple[str, str])
_wanted_receipts = msgspec.msgpack.Decoder(tuple[str, int])
_wanted_approval = msgspec.msgpack.Decoder(tuple[str, str])
_taken = msgspec.msgpack.Decoder(bool)
_encode = msgspec.msgpack.Encoder().encode


class WorkerSlot:
    """One worker's slot: `listener` accepts its connections, `local` has the results of discovery before it started.
    From `open` to `close` it also gives access to the other workers.
    """

    _service: Service
    _writer: asyncio.StreamWriter
    _reading: asyncio.Task[None]

    def __init__(self, listener: socket.socket, line: socket.socket, local: Discovery | None) -> None:
        self.listener = listener
        self.local = local
        self._line = line
        self._server: GatewayServer | None = None
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
        """Send the final counts."""
        self._send(FinalCounts(_encode(self._service.snapshot(asyncio.get_running_loop().time()))))
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def ready(self, server: GatewayServer) -> bool:
        """Wait until this worker may serve; False if it no longer may."""
        self._server = server
        self._send(WorkerReady())
        await self._told.wait()
        return not self._leaves

    async def leave(self, server: GatewayServer, limits: Limits) -> float:
        """Begin to leave. Returns the seconds that running requests still have."""
        # A signal to this worker alone is not for the parent, which starts a successor.
        self._has_successor = self._has_successor or not self._leaves
        if not self._has_successor:
            self._send(WorkerLeaving(limits.drain))
            return limits.drain
        _stop_accepting(server)
        self._send(WorkerLeaving(limits.retire))
        left = await self._drain_connections(server, limits.retire)
        return left if self._has_successor else limits.drain

    async def _drain_connections(self, server: GatewayServer, seconds: float) -> float:
        """Wait until all clients have left, the time has elapsed, or all workers end. Returns the seconds left."""
        now = asyncio.get_running_loop().time
        end = now() + seconds
        idle: dict[HttpServerProtocol, float] = {}
        while _connections(server) and self._has_successor and not server.force_exit and now() < end:
            idle = {each: idle.get(each, now()) for each in _connections(server) if not _is_busy(each)}
            for connection, since in idle.items():
                if now() - since >= IDLE_TIMEOUT:
                    connection.shutdown()
            await asyncio.sleep(_POLL_INTERVAL)
        return max(end - now(), 0.0)

    async def snapshots(self, own: Snapshot) -> list[Snapshot]:
        return [own, *map(_snapshots.decode, await self._ask("metrics", _encode(own)))]

    async def receipt(self, owner: str, request_id: str) -> dict[str, Any] | None:
        found = await self._receipts("receipt", _encode((owner, request_id)))
        return next((told for _, told in found), None)

    async def receipts(self, owner: str, count: int) -> list[DatedReceipt]:
        return await self._receipts("receipts", _encode((owner, count)))

    async def redeem_approval(self, owner: str, fingerprint: str) -> bool:
        try:
            bodies = await self._ask("approval", _encode((owner, fingerprint)))
        except TimeoutError:
            return False
        return any(map(_taken.decode, bodies))

    async def _receipts(self, subject: QuestionSubject, body: bytes) -> list[DatedReceipt]:
        try:
            bodies = await self._ask(subject, body)
        except TimeoutError:
            return []
        return [dated for each in bodies for dated in _receipts.decode(each)]

    async def _ask(self, subject: QuestionSubject, body: bytes) -> list[bytes]:
        number = next(self._numbers)
        answers: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answers
        self._send(AskOthers(number, subject, body))
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                return await answers
        finally:
            del self._asked[number]

    def _send(self, message: IpcMessage) -> None:
        self._writer.write(encode_frame(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
                self._handle(decode_frame(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            log.error("the process that started this worker is gone; this worker exits too")
            self._begin_leaving(successor=False)

    def _handle(self, message: IpcMessage) -> None:
        match message:
            case StartServing():
                self._told.set()
            case StopServing():
                self._begin_leaving(successor=message.successor)
            case Ping():
                self._send(Pong())
            case WorkerQuestion():
                self._send(WorkerAnswer(message.number, self._answer(message)))
            case CollectedAnswers() if message.number in self._asked and not self._asked[message.number].done():
                self._asked[message.number].set_result(message.bodies)
            case _:
                pass

    def _begin_leaving(self, *, successor: bool) -> None:
        self._has_successor, self._leaves = successor, True
        self._told.set()
        if self._server is not None:
            self._server.should_exit = True

    def _answer(self, question: WorkerQuestion) -> bytes:
        return _encode(_ANSWERS[question.subject](self._service, question.body))


def _find_receipt(service: Service, body: bytes) -> list[DatedReceipt]:
    kept = service.receipts.find(*_wanted_receipt.decode(body))
    return [] if kept is None else [(0.0, kept)]


_ANSWERS: dict[QuestionSubject, Callable[[Service, bytes], Snapshot | list[DatedReceipt] | bool]] = {
    "approval": lambda service, body: service.approvals.take(*_wanted_approval.decode(body)),
    "metrics": lambda service, body: service.snapshot(asyncio.get_running_loop().time()),
    "receipt": _find_receipt,
    "receipts": lambda service, body: service.receipts.latest_dated(*_wanted_receipts.decode(body)),
}


def _connections(server: GatewayServer) -> set[HttpServerProtocol]:
    return server.server_state.connections  # type: ignore[return-value] # the server makes no other ones


def _stop_accepting(server: GatewayServer) -> None:
    """Accept no connection, and at most one more request on existing ones. A client whose answer has begun does not
    know, and may send another request."""
    for each in server.servers:
        each.close()
    state = server.server_state
    state.default_headers = [*state.default_headers, (b"connection", b"close")]
    for connection in _connections(server):
        cycle = connection.cycle
        if cycle is not None and not cycle.response_started:
            cycle.keep_alive = False


def _is_busy(connection: HttpServerProtocol) -> bool:
    return connection.receiving or (connection.cycle is not None and not connection.cycle.response_complete)
