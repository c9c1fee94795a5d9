"""What a parent and its workers say to each other, over a pair of sockets: a length of four bytes, then MessagePack.

A worker says `Ready` once it could serve and does so after `Go`. It goes after `Leave`, or because somebody has sent it
a signal: `Leaving` tells how long that may take, `Last` what it has counted. What a worker wants to know of the others
it asks the parent (`Ask`), who asks them (`Question`, `Answer`) and gives it all that came (`Answers`). `Ping` and
`Pong` show that a worker's event loop runs. The end of the line is the end of whoever had the other end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

Subject: TypeAlias = Literal["metrics", "receipt", "receipts", "approval"]

LENGTH = 4
"""Bytes before each message, the highest first."""


class Ready(Struct, frozen=True, tag=True):
    """Everything is open but the door."""


class Go(Struct, frozen=True, tag=True):
    """Serve."""


class Leave(Struct, frozen=True, tag=True):
    """Serve no more. With a `successor`, who takes new connections, those that are there are served to their end."""

    successor: bool


class Leaving(Struct, frozen=True, tag=True):
    """No new connection is taken; the running requests have so many seconds."""

    seconds: float


class Last(Struct, frozen=True, tag=True):
    """All that was counted: a `Snapshot` of the metrics."""

    body: bytes


class Ping(Struct, frozen=True, tag=True):
    """Answer at once."""


class Pong(Struct, frozen=True, tag=True):
    """The answer to a `Ping`."""


class Ask(Struct, frozen=True, tag=True):
    """`body` is for the others to read; that of `metrics` is the asking worker's own snapshot."""

    number: int
    subject: Subject
    body: bytes


class Question(Struct, frozen=True, tag=True):
    number: int
    subject: Subject
    body: bytes


class Answer(Struct, frozen=True, tag=True):
    number: int
    body: bytes


class Answers(Struct, frozen=True, tag=True):
    number: int
    bodies: list[bytes]


Message: TypeAlias = Ready | Go | Leave | Leaving | Last | Ping | Pong | Ask | Question | Answer | Answers

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def framed(message: Message) -> bytes:
    data = _encoder.encode(message)
    return len(data).to_bytes(LENGTH, "big") + data


def unframed(data: bytes) -> Message:
    """The message without its length."""
    return _decoder.decode(data)


def taken(received: bytearray) -> Iterator[Message]:
    """The whole messages at the beginning, which are removed from there."""
    while len(received) >= LENGTH:
        end = LENGTH + int.from_bytes(received[:LENGTH], "big")
        if len(received) < end:
            return
        message = unframed(bytes(received[LENGTH:end]))
        del received[:end]
        yield message
