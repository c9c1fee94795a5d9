"""Recognize answers without parsing their heads: an upstream repeats the same header fields in the same order.

A head that the parser accepted is kept as bytes around its content length: an answer with the same bytes there has the
same headers. The head is also turned into a regular expression. Status, framing and connection headers are literal in
it; every other field may have another value, made of characters without meaning to a parser. An answer that matches,
and is as long as its length says, parses to exactly these headers. Anything else goes to the parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct


class KnownHead(Struct, frozen=True, eq=False):
    """The bytes of a head around its content length."""

    before: bytes
    behind: bytes
    """Includes the empty line that ends the head."""
    size: int
    """Length of both parts."""

    def body(self, data: bytes) -> bytes | None:
        """Return the body if `data` is exactly one message with this head. None does not mean that it is another head:
        a body of 998 bytes is not recognized, because head and digits are counted with it."""
        rest = len(data) - self.size
        digits = len(str(rest))
        start = self.size + digits
        head = b"%b%d%b" % (self.before, rest - digits, self.behind)
        return data[start:] if data[:start] == head else None

    def whole(self, body: bytes) -> bytes:
        """Return the complete message with this body."""
        return b"%b%d%b%b" % (self.before, len(body), self.behind, body)


MAX_HEAD = 4096
"""Maximum bytes of a head that can be recognized: fewer than the limit of a single field."""
RELEARN_AFTER = 256
"""Answers to parse before building another expression, which costs as much as parsing a hundred."""

_LENGTH = "content-length"
_FRAMING = frozenset({"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"})
"""Fields that must have the same value as in the parsed head."""
_VALUE = r"([^\r ][^\r]*+)(?<! )"
"""Sufficient because everything except line ends is checked to be printable."""
_PRINTABLE = bytes(range(0x20, 0x7F))

HeadersAndBody: TypeAlias = tuple[dict[str, str], bytes]
"""Headers and body of an answer."""


class _LastHead(KnownHead, frozen=True, eq=False):
    """The last head and its parsed headers."""

    headers: dict[str, str]


class _HeadPattern(Struct, frozen=True):
    """Pattern of heads with the same fields: the names of the fields, and the expression that extracts their values."""

    names: tuple[str, ...]
    length: int
    """Index of the content length among the fields."""
    find: Callable[[str], re.Match[str] | None]
    breaks: bytes
    """The line endings of all lines except the last."""


class KnownAnswers:
    """Known response heads of one upstream. Only heads of successful answers with a content length, on a reusable
    connection, are kept."""

    __slots__ = ("_kind", "_last", "_unknown")

    def __init__(self) -> None:
        self._last: _LastHead | None = None
        self._kind: _HeadPattern | None = None
        self._unknown = RELEARN_AFTER

    def read(self, data: bytes) -> HeadersAndBody | None:
        """Return headers and body if the head is known; None also if the answer is incomplete or has bytes after its
        end."""
        last = self._last
        if last is None:
            return None
        body = last.body(data)
        return self._read(data) if body is None else ({**last.headers, _LENGTH: str(len(body))}, body)

    def _read(self, data: bytes) -> HeadersAndBody | None:
        kind, end = self._kind, data.find(b"\r\n\r\n", 0, MAX_HEAD)
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
        self._last = _LastHead(data[:before], data[behind:start], start - behind + before, headers)
        return headers.copy(), data[start:]

    def learn(self, data: bytes, headers: dict[str, str]) -> None:
        """Remember an answer that the parser has read completely, with these headers and nothing after it."""
        end = data.find(b"\r\n\r\n", 0, MAX_HEAD)
        self._unknown += 1
        if self._unknown <= RELEARN_AFTER or end < 0 or _LENGTH not in headers:
            return
        self._unknown = 0
        names = tuple(headers)
        status, *lines = data[:end].decode("latin-1").split("\r\n")
        if len(lines) != len(names):  # a field is repeated
            return
        pattern = "".join([re.escape(status), *map(_line_pattern, lines)])
        find, breaks = re.compile(pattern).fullmatch, b"\r\n" * len(lines)
        self._last, self._kind = None, _HeadPattern(names, names.index(_LENGTH), find, breaks)
        read = self._read(data)
        if read is None or read[0] != headers:  # a value has unusual characters
            self._last = self._kind = None


def _line_pattern(line: str) -> str:
    name, _, value = line.partition(":")
    text = f"({re.escape(value.strip(' '))})" if name.lower() in _FRAMING else _VALUE
    return rf"\r\n{re.escape(name)}: {text}"
