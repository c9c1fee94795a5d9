"""A worker as its parent sees it: a process, and the parent's end of the line to it. Nothing here ever waits."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from typing import Literal

from toolglot.server.workers.line import Message, framed, taken

_PIECE = 256 * 1024

Stage = Literal["starting", "ready", "serving", "leaving"]


class Child:
    def __init__(self, pid: int, number: int, line: socket.socket, now: float) -> None:
        line.setblocking(False)
        self.pid = pid
        self.number = number
        self.line = line
        self.began = now
        self.stage: Stage = "starting"
        self.counted: bytes | None = None
        """The newest snapshot of its metrics that is known."""
        self.reload_wanted = False
        self.kill_at: float | None = None
        self.ping_at: float | None = None
        """When to ask whether it still runs; None while it need not, or an answer is waited for."""
        self.pinged_at: float | None = None
        """Since when the answer is waited for."""
        self.hears = False
        """It answers questions."""
        self.is_open = True
        """More may come from it."""
        self._received = bytearray()
        self._unsent = bytearray()

    @property
    def wants_to_send(self) -> bool:
        return bool(self._unsent)

    def say(self, message: Message) -> None:
        self._unsent += framed(message)
        self.send()

    def send(self) -> None:
        """As much as the line takes. What a worker that is gone does not take is of no use to anybody."""
        try:
            while self._unsent:
                del self._unsent[: self.line.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()

    def heard(self) -> list[Message]:
        """The messages that have come. `is_open` is False when they are the last."""
        try:
            while data := self.line.recv(_PIECE):
                self._received += data
            self.is_open = self.hears = False
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.is_open = self.hears = False
        return list(taken(self._received))

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
