"""The other clients: a process of its own that reads paced streams and notes the gaps between their chunks."""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from bench.growth.bodies import PACED, asked, said

END = b"\r\n0\r\n\r\n"
TEXT = b'"text_delta"'


def post(path: str, body: bytes, port: int) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Stream:
    """One connection, with one stream after the other."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        self._request = post("/v1/messages", asked(said("Go on."), model=PACED, stream=True), port)
        self._end = b""
        self._last: float | None = None
        self.connection.sendall(self._request)

    def read(self) -> float:
        """What has come; the seconds since something came before it in the same stream."""
        data, now = self.connection.recv(65536), time.perf_counter()
        if not data:
            raise ConnectionError("the gateway has closed a stream")
        gap = 0.0 if self._last is None else now - self._last
        # What ends a stream comes when several chunks of the upstream's are there.
        self._last, self._end = now if TEXT in data else None, (self._end + data)[-len(END) :]
        if self._end == END:
            self.connection.sendall(self._request)
        return gap


def _watch(port: int, count: int, asked_for: Connection) -> None:
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            stream = _Stream(port)
            selector.register(stream.connection, selectors.EVENT_READ, stream)
        selector.register(asked_for, selectors.EVENT_READ)
        gaps: list[float] = []
        while True:
            for key, _ in selector.select():
                if isinstance(key.data, _Stream):
                    gaps.append(key.data.read())
                    continue
                if not asked_for.recv():
                    return
                asked_for.send(gaps)
                gaps = []


class Others:
    """The watching process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def gaps(self) -> list[float]:
        """Of all streams since this was asked the last time, in order of size."""
        self._connection.send(True)
        found: list[float] = self._connection.recv()
        return sorted(found)


@contextmanager
def others(port: int, count: int) -> Iterator[Others]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_watch, args=(port, count, theirs), daemon=True)
    process.start()
    try:
        yield Others(ours)
    finally:
        ours.send(False)
        process.join(5)
        process.kill()
