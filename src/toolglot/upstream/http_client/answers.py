"""Whole answers whose heads need not be read: an upstream's have the same fields in the same order, with other values.

A head that the parser has taken is kept as bytes, around the length that it tells: what has the same bytes there says
the same. It is also made into an expression, in which status, framing and what is said of the connection stand as they
are, and any other field may have another value, of letters that mean nothing to a parser. What has such a head, and is
as long as that says, is what the parser would make of it. Everything else the parser reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from toolglot.upstream.http_client.known import KnownHead

LARGEST = 4096
"""Bytes of a head that is known: less than any field may have."""
PATIENCE = 256
"""Answers that are read before another expression is made: that costs as much as to read a hundred."""

_LENGTH = "content-length"
_FRAMING = frozenset({"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"})
"""Fields that must say the same as in the head that was read."""
_VALUE = r"([^\r ][^\r]*+)(?<! )"
"""Nothing more need be said of it where all but the ends of lines is printable."""
_PRINTABLE = bytes(range(0x20, 0x7F))

Whole: TypeAlias = tuple[dict[str, str], bytes]
"""The headers and the body of an answer."""


class _Last(KnownHead, frozen=True, eq=False):
    """The last head, and what it says."""

    headers: dict[str, str]


class _Kind(Struct, frozen=True):
    """Heads with the same fields: their names, and the expression that finds their values."""

    names: tuple[str, ...]
    length: int
    """Which of them it is."""
    find: Callable[[str], re.Match[str] | None]
    breaks: bytes
    """The ends of all lines but the last."""


class Answers:
    """What is known of those of one upstream: successful ones with a length, whose connection may be used again."""

    __slots__ = ("_kind", "_last", "_unknown")

    def __init__(self) -> None:
        self._last: _Last | None = None
        self._kind: _Kind | None = None
        self._unknown = PATIENCE

    def read(self, data: bytes) -> Whole | None:
        """What this answer says, if it is known how; None also for one that is not all there, or has more behind it."""
        last = self._last
        if last is None:
            return None
        body = last.body(data)
        return self._read(data) if body is None else ({**last.headers, _LENGTH: str(len(body))}, body)

    def _read(self, data: bytes) -> Whole | None:
        kind, end = self._kind, data.find(b"\r\n\r\n", 0, LARGEST)
        head = data[: max(end, 0)]
        if kind is None or head.translate(None, _PRINTABLE) != kind.breaks:
            return None
        found = kind.find(head.decode("latin-1"))
        if found is None:
            return None
        values, start = found.groups(), end + 4
        if values[kind.length] != str(len(data) - start):
            return None
        headers = dict(zip(kind.names, values, strict=True))
        before, behind = found.span(kind.length + 1)
        self._last = _Last(data[:before], data[behind:start], start - behind + before, headers)
        return headers.copy(), data[start:]

    def learn(self, data: bytes, headers: dict[str, str]) -> None:
        """The parser has read all of such an answer, with these headers, and nothing else."""
        end = data.find(b"\r\n\r\n", 0, LARGEST)
        self._unknown += 1
        if self._unknown <= PATIENCE or end < 0 or _LENGTH not in headers:
            return
        self._unknown = 0
        names = tuple(headers)
        status, *lines = data[:end].decode("latin-1").split("\r\n")
        if len(lines) != len(names):  # one stands there twice
            return
        pattern = "".join([re.escape(status), *map(_pattern, lines)])
        find, breaks = re.compile(pattern).fullmatch, b"\r\n" * len(lines)
        self._last, self._kind = None, _Kind(names, names.index(_LENGTH), find, breaks)
        read = self._read(data)
        if read is None or read[0] != headers:  # a value with letters of another kind
            self._last = self._kind = None


def _pattern(line: str) -> str:
    name, _, value = line.partition(":")
    text = f"({re.escape(value.strip(' '))})" if name.lower() in _FRAMING else _VALUE
    return rf"\r\n{re.escape(name)}: {text}"
