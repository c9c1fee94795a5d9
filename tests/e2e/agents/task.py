"""The task that an agent is set, and how to see that it was done.

An agent's own word proves nothing, nor does its exit status. Two files hold words that nobody else knows; when the
agent's last output has both, its model asked for two tools at once, they ran, and the results came back to the model.
Then it looks at a picture, which comes back in a result too.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from secrets import token_hex

from tests.e2e.loopback import Asked
from tests.e2e.scripted import Script

from .agents import Outcome
from .reader import reader

PROMPT = "Show secret.txt with the shell and read hello.txt, then look at square.png and report."


def square(side: int) -> bytes:
    """A grey PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x80" * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Task:
    """A home and a folder to work in, with the words that only its files have."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.words = {"secret.txt": token_hex(), "hello.txt": token_hex()}
        for name, word in self.words.items():
            (self.work / name).write_text(f"{word}\n")
        (self.work / "square.png").write_bytes(square(16))

    @property
    def script(self) -> Script:
        return self.script_with("call_1", "call_2", "call_3")

    def script_with(self, *ids: str) -> Script:
        """The script with these ids of its calls."""
        first, second, third = ids
        return reader(self.work, shown="secret.txt", read="hello.txt", viewed="square.png", ids=(first, second, third))

    def check(self, outcome: Outcome, asked: list[Asked]) -> None:
        for word in self.words.values():
            assert word in outcome.output, outcome
        assert "and showed 1 picture." in outcome.output, outcome
        assert not any(word.encode() in asked[0].body for word in self.words.values())
        assert all(word.encode() in asked[-1].body for word in self.words.values())
