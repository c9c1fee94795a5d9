"""Messages between the parent and its workers, over a socket pair: a length of four bytes, then MessagePack.

A worker sends `WorkerReady` once it could serve, and serves after `StartServing`. It leaves after `StopServing`, or
because of a signal: `WorkerLeaving` says how long that may take, `FinalCounts` has its metrics. A worker asks the
others through the parent (`AskOthers`), which asks them (`WorkerQuestion`, `WorkerAnswer`) and returns all answers
(`CollectedAnswers`). `Ping` and `Pong` show that a worker's event loop runs. If the socket closes, the other process
has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

QuestionSubject: TypeAlias = Literal["metrics", "receipt", "receipts", "approval"]

LENGTH_BYTES = 4
"""Bytes of the length before each message, big-endian."""


class WorkerReady(Struct, frozen=True, tag=True):
    """The worker is ready to serve."""


class StartServing(Struct, frozen=True, tag=True):
    """Serve."""


class StopServing(Struct, frozen=True, tag=True):
    """Stop serving. With a `successor`, which takes new connections, existing ones are served to their end."""

    successor: bool


class WorkerLeaving(Struct, frozen=True, tag=True):
    """No new connection is accepted; the running requests have this many seconds."""

    seconds: float


class FinalCounts(Struct, frozen=True, tag=True):
    """All counts: a `Snapshot` of the metrics."""

    body: bytes


class Ping(Struct, frozen=True, tag=True):
    """Answer at once."""


class Pong(Struct, frozen=True, tag=True):
    """The answer to a `Ping`."""


class AskOthers(Struct, frozen=True, tag=True):
    """A question for the other workers. They read `body`; for `metrics`, it is the snapshot of the worker that asks."""

    number: int
    subject: QuestionSubject
    body: bytes


class WorkerQuestion(Struct, frozen=True, tag=True):
    number: int
    subject: QuestionSubject
    body: bytes


class WorkerAnswer(Struct, frozen=True, tag=True):
    number: int
    body: bytes


class CollectedAnswers(Struct, frozen=True, tag=True):
    number: int
    bodies: list[bytes]


IpcMessage: TypeAlias = (
    WorkerReady
    | StartServing
    | StopServing
    | WorkerLeaving
    | FinalCounts
    | Ping
    | Pong
    | AskOthers
    | WorkerQuestion
    | WorkerAnswer
    | CollectedAnswers
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(IpcMessage)


def encode_frame(message: IpcMessage) -> bytes:
    data = _encoder.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def decode_frame(data: bytes) -> IpcMessage:
    """Decode a message without its length."""
    return _decoder.decode(data)


def take_frames(received: bytearray) -> Iterator[IpcMessage]:
    """Remove the complete messages at the beginning and yield them."""
    while len(received) >= LENGTH_BYTES:
        end = LENGTH_BYTES + int.from_bytes(received[:LENGTH_BYTES], "big")
        if len(received) < end:
            return
        message = decode_frame(bytes(received[LENGTH_BYTES:end]))
        del received[:end]
        yield message
