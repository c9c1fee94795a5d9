"""Plain requests, read with what is known of the ones before.

An agent sends its system prompt and its tools with each request, in the same bytes; what is new stands in the messages.
So where the bytes around them are known, nothing but the messages is read.
"""

from __future__ import annotations

import re
from itertools import islice
from sys import getsizeof

import msgspec
from msgspec import Raw, Struct

from toolglot.direct.plain import Direct, PlainRequest, Turn

MARK = 64
"""So many bytes at the end of a request tell which others it may be like. Where messages come as late as that, little
stands around them."""
ALIKE = 4
"""Requests that end alike and are kept in mind."""
KEPT = 256
"""Ends of requests that are."""
KEPT_BYTES = 4 * 1024 * 1024
CREDIT = 16
"""So often is kept in mind what does not come again; from then on, one in as many is."""

PLACES = 16
"""So many are looked at in search of the messages."""


class _Around(Struct, frozen=True, gc=False):
    """What stands before and behind the messages of a request, and the request without them."""

    before: bytes
    behind: bytes
    messages: slice
    size: int
    """Of both."""
    held: int
    """Bytes of memory, about."""
    plain: PlainRequest


class _Outline(Struct, gc=False):
    messages: Raw


_outline = msgspec.json.Decoder(_Outline)
_MEMBER = re.compile(rb'"messages"\s*:\s*')
_NO_MESSAGES = b"[0]"


class Reader:
    """Reads the requests of one dialect's clients."""

    def __init__(self, direct: Direct | None) -> None:
        self._read = None if direct is None else direct.read_request
        self._read_messages = None if direct is None else direct.read_messages
        self._known: dict[bytes, list[_Around]] = {}
        self.kept_bytes = 0
        self._in_vain = 0

    @property
    def kept(self) -> int:
        """How many requests are kept in mind."""
        return sum(map(len, self._known.values()))

    def read(self, data: bytes) -> PlainRequest | None:
        """The request, if it is plain."""
        if self._read is None or self._read_messages is None:
            return None
        for around in self._known.get(data[-MARK:], ()):
            if data.startswith(around.before) and data.endswith(around.behind) and len(data) > around.size:
                plain = self._read_messages(data[around.messages], around.plain)
                if plain is not None:
                    self._in_vain = 0
                    return plain
        plain = self._read(data)
        if plain is not None:
            self._in_vain += 1
            if self._in_vain <= CREDIT or self._in_vain % CREDIT == 0:
                self._keep(data, plain)
        return plain

    def _keep(self, data: bytes, plain: PlainRequest) -> None:
        messages = bytes(_outline.decode(data).messages)
        ends = [found.end() for found in islice(_MEMBER.finditer(data), PLACES)]
        start = next((end for end in ends if data.startswith(messages, end)), len(data))
        before, behind = data[:start], data[start + len(messages) :]
        if len(behind) < MARK or not _are_around(before, behind):
            return
        settings = tuple([setting.copy() for setting in plain.settings])
        like = PlainRequest(plain.model, plain.stream, settings, [], plain.system)
        known = self._known.setdefault(behind[-MARK:], [])
        between, size = slice(len(before), -len(behind)), len(before) + len(behind)
        held = size + sum(map(len, settings)) + sum(getsizeof(text) for turn in plain.system for text in _texts(turn))
        known.insert(0, _Around(before, behind, between, size, held, like))
        self.kept_bytes += held
        if len(known) > ALIKE:
            self.kept_bytes -= known.pop().held
        while self.kept_bytes > KEPT_BYTES or len(self._known) > KEPT:
            oldest = self._known.pop(next(iter(self._known)))
            self.kept_bytes -= sum(around.held for around in oldest)


def _texts(turn: Turn) -> list[str]:
    return [turn.words] if isinstance(turn.words, str) else turn.words


def _are_around(before: bytes, behind: bytes) -> bool:
    """Do the messages stand between these? The same bytes may be in another place of the request too."""
    try:
        return bytes(_outline.decode(b"%b%b%b" % (before, _NO_MESSAGES, behind)).messages) == _NO_MESSAGES
    except msgspec.MsgspecError:
        return False
