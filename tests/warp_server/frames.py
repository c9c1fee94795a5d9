"""Events on a stream: each one is base64 in the data of a server-sent event. There is no last word but `finished`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable

from tests.warp_server.messages import Tree, decode, encode

Writing = Callable[[bytes], str]


def padded(raw: bytes) -> str:
    """As Warp's servers write it."""
    return base64.urlsafe_b64encode(raw).decode()


def unpadded(raw: bytes) -> str:
    return padded(raw).rstrip("=")


def quoted(raw: bytes) -> str:
    return f'"{padded(raw)}"'


def standard(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


WRITINGS: tuple[Writing, ...] = (padded, unpadded, quoted, standard)


def frame_of(raw: bytes, writing: Writing = padded) -> bytes:
    return f"event:data\ndata:{writing(raw)}\n\n".encode()


def frame(event: Tree, writing: Writing = padded) -> bytes:
    return frame_of(encode("ResponseEvent", event), writing)


def stream(events: Iterable[Tree], writing: Writing = padded) -> bytes:
    return b"".join(frame(event, writing) for event in events)


def payloads(data: bytes) -> list[bytes]:
    """The bytes of each event of a stream, however its base64 is written."""
    lines = data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: list[bytes] = []
    waiting: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            waiting.append(line[5:].strip().strip('"'))
        elif not line and waiting:
            text = "".join(waiting).rstrip("=").replace("+", "-").replace("/", "_")
            found.append(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            waiting = []
    return found


def events_of(data: bytes) -> list[Tree]:
    return [decode("ResponseEvent", payload) for payload in payloads(data)]
