"""The parent's view of a worker: a process, and the parent's end of the socket to it. Nothing here blocks."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from typing import Literal

from toolglot.server.workers.ipc import IpcMessage, encode_frame, take_frames

_PIECE = 256 * 1024

WorkerStage = Literal["starting", "ready", "serving", "leaving"]


class WorkerProcess:
    def __init__(self, pid: int, number: int, line: socket.socket, now: float) -> None:
        line.setblocking(False)
        self.pid = pid
        self.number = number
        self.line = line
        self.began = now
        self.stage: WorkerStage = "starting"
        self.counted: bytes | None = None
        """The latest known snapshot of its metrics."""
        self.reload_wanted = False
        self.kill_at: float | None = None
        self.ping_at: float | None = None
        """Time of the next ping; None while none is needed, or an answer is pending."""
        self.pinged_at: float | None = None
        """Time since which an answer is pending."""
        self.hears = False
        """Whether it answers questions."""
        self.is_open = True
        """Whether more messages may arrive from it."""
        self._received = bytearray()
        self._unsent = bytearray()

    @property
    def wants_to_send(self) -> bool:
        return bool(self._unsent)

    def queue_message(self, message: IpcMessage) -> None:
        self._unsent += encode_frame(message)
        self.send()

    def send(self) -> None:
        """Write as much as the socket accepts. Messages to a dead worker are dropped."""
        try:
            while self._unsent:
                del self._unsent[: self.line.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()

    def receive(self) -> list[IpcMessage]:
        """Return the messages that have arrived. `is_open` is False if they are the last."""
        try:
            while data := self.line.recv(_PIECE):
                self._received += data
            self.is_open = self.hears = False
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.is_open = self.hears = False
        return list(take_frames(self._received))

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
