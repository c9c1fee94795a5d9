"""Frames of a stream that only bring more text, reasoning or arguments: read and written by their templates.

Most frames of a stream differ from the one before in one JSON string. From a frame that was read, the bytes before and
behind that string are learnt. A frame with the same bytes around it has its text in the same place, because JSON is
read from left to right and nothing in a string can change what its surroundings mean. Members that change with every
frame and say nothing (a number, a time, random letters) are holes in these bytes; a dialect names them.

The client's encoder gives a template as well, so that such a text goes from frame to frame as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec import Struct

from toolglot.wire import json
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.framing import Framing

_TRIES = 4
"""Frames to learn from in vain before a stream is taken for one whose frames all differ."""
_PROBE = "toolglot probe"

TextOf: TypeAlias = Callable[[bytes], str | None]
"""Reads a frame's JSON document: what it adds to its block, or None if it says anything else."""

BLANKED = bytes(32 if 32 <= code < 127 and code not in b'"\\' else 0 for code in range(256))
"""For `translate`. Characters that stand for themselves in JSON, so that whoever writes them writes the same, become
blanks: a text of nothing else is all space then. No other way to tell is as fast."""
_ALIKE = re.compile(rb'[ !#-\[\]-~\x80-\xff]*(?:\\["\\bfnrt][ !#-\[\]-~\x80-\xff]*)*').fullmatch
_ALIKE_LINES = re.compile(rb'[ !#-\[\]-~\n]*(?:\\["\\bfnrt][ !#-\[\]-~\n]*)*').fullmatch

_decode_text = msgspec.json.Decoder(str).decode


def text_of(body: bytes) -> str:
    """The text of a JSON string without its quotes; nothing if it is none."""
    try:
        return _decode_text(b'"%b"' % body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def is_alike(body: bytes) -> bool:
    """Is this the inside of a JSON string that is not empty, as `json.encode` would write it?"""
    return bool(body) and _ALIKE(body) is not None and (body.isascii() or text_of(body) != "")


def _are_alike(bodies: list[bytes], held_back: bytes) -> bool:
    """The same for many at once, none of them with `held_back` in it; False also where it is not sure."""
    joined = b"".join(bodies)
    if held_back in joined:
        return False
    if joined.translate(BLANKED).isspace():
        return all(bodies)
    # No text has a line end in it, so that one can stand between them: an escape that is cut is none with it.
    return b"\n" not in joined and _ALIKE_LINES(b"\n".join(bodies)) is not None and all(bodies)


_WORD = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.:+-"
"""Characters of a string that stand for themselves, and none of which ends a string or a number."""
_ZERO = ord("0")
_NUMBERS = re.compile(rb"(?:[1-9][0-9]*\n)+")
_Hole: TypeAlias = tuple[bool, bytes]
"""A value that changes: whether it is a number or the inside of a string, and the constant bytes behind it."""


def _are_values(values: list[bytes], is_number: bool) -> bool:
    lines = b"\n".join((*values, b""))
    if lines.count(b"\n") != len(values):
        return False
    return _NUMBERS.fullmatch(lines) is not None if is_number else not lines.translate(None, _WORD + b"\n")


def _skip_values(holes: tuple[_Hole, ...], data: bytes, at: int) -> int:
    """Where the values at this place, and the constant bytes behind each, end; -1 if there is anything else."""
    for is_number, constant in holes:
        end = data.find(constant[0], at)
        value = data[at:end]
        is_value = value.isdigit() and value[0] != _ZERO if is_number else not value.translate(None, _WORD)
        if not is_value or not data.startswith(constant, end):
            return -1
        at = end + len(constant)
    return at


@lru_cache(maxsize=32)
def _values_of(members: tuple[str, ...]) -> re.Pattern[bytes]:
    """Finds the values of these members: a number, or a string without escapes."""
    names = "|".join(map(re.escape, members)).encode()
    return re.compile(rb'[{,] ?"(?:%b)": ?(?:([1-9][0-9]*)(?=[,}])|"([%b]*)")' % (names, re.escape(_WORD)))


def _split_values(constant: bytes, members: tuple[str, ...]) -> tuple[bytes, list[_Hole]]:
    """The bytes up to the first value of these members, and the values with the bytes behind each."""
    matches = list(_values_of(members).finditer(constant)) if members else []
    edges = [*[match.span(match.lastindex or 0) for match in matches], (len(constant), 0)]
    holes = [
        (match.lastindex == 1, constant[end:begin])
        for match, (_, end), (begin, _) in zip(matches, edges, edges[1:], strict=False)
    ]
    return constant[: edges[0][0]], holes


class FrameTemplate(Struct, frozen=True):
    """The bytes of a frame around its text, with the quotes and what ends the frame."""

    head: bytes
    tail: bytes
    first: bytes
    """How `head` begins, up to the first value that changes."""
    last: bytes
    """How `tail` ends, behind the last value that changes."""
    before: tuple[_Hole, ...] = ()
    """The values that change in `head`."""
    middle: bytes = b""
    """How `tail` begins, up to the first value that changes."""
    behind: tuple[_Hole, ...] = ()
    """The values that change in `tail`."""

    @property
    def is_constant(self) -> bool:
        return not self.before and not self.behind

    def body_of(self, data: bytes, start: int, stop: int) -> bytes:
        """The inside of the string, if this is such a frame; else nothing. Whether it is the inside of a string, and
        the frame no more than one, is for the caller to tell."""
        if not data.startswith(self.first, start) or not data.endswith(self.last, start, stop):
            return b""
        return self.inside(data, start + len(self.first), stop)

    def inside(self, data: bytes, start: int, stop: int) -> bytes:
        """The same from behind `first` on, of a frame that ends with `last`."""
        start = _skip_values(self.before, data, start)
        if start < 0:
            return b""
        if not self.behind:
            return data[start : stop - len(self.last)]
        end = data.rfind(self.middle, start, stop)
        is_known = end >= 0 and _skip_values(self.behind, data, end + len(self.middle)) == stop
        return data[start:end] if is_known else b""

    def bodies_of(self, frames: list[bytes]) -> list[bytes]:
        """The same of many, each between `first` and `last`; none where they are not all such frames."""
        for is_number, constant in self.before:
            parts = [frame.partition(constant) for frame in frames]
            if not _are_values([value for value, _, _ in parts], is_number):
                return []
            frames = [rest for _, _, rest in parts]
        if not self.behind:
            return frames
        parts = [frame.rpartition(self.middle) for frame in frames]
        rests = [rest + self.last for _, _, rest in parts]
        for is_number, constant in self.behind:
            cut = [rest.partition(constant) for rest in rests]
            if not _are_values([value for value, _, _ in cut], is_number):
                return []
            rests = [rest for _, _, rest in cut]
        return [body for body, _, _ in parts] if not any(rests) else []

    def frame(self, body: bytes) -> bytes:
        """A frame like those that were learnt from, with this text."""
        return b"%b%b%b" % (self.head, body, self.tail)


def _template(head: bytes, tail: bytes, changing: tuple[str, ...]) -> FrameTemplate:
    first, before = _split_values(head, changing)
    middle, behind = _split_values(tail, changing)
    return FrameTemplate(head, tail, first, behind[-1][1] if behind else tail, tuple(before), middle, tuple(behind))


def run_of(
    template: FrameTemplate, data: bytes, start: int, end: bytes, held_back: bytes = b"\n"
) -> tuple[list[bytes], int]:
    """The texts of the frames that stand at `start` one behind the other, up to the first that has to be read; and
    where they end. `end` ends a frame, and no text may have `held_back` in it."""
    first, last = template.first, template.last
    stop = data.rfind(last, start)
    if stop < 0 or not data.startswith(first, start):
        return [], start
    frames, size = data[start:stop].split(last), len(first)
    known = [frame[size:] for frame in frames if frame.startswith(first)]
    bodies = template.bodies_of(known) if len(known) == len(frames) else []
    if bodies and _are_alike(bodies, held_back):
        return bodies, stop + len(last)
    return _run_one_by_one(template, data, start, end, held_back)


def _run_one_by_one(
    template: FrameTemplate, data: bytes, start: int, end: bytes, held_back: bytes
) -> tuple[list[bytes], int]:
    bodies: list[bytes] = []
    while (stop := data.find(end, start)) >= 0:
        stop += len(end)
        body = template.body_of(data, start, stop)
        if not is_alike(body) or held_back in body:
            break
        bodies.append(body)
        start = stop
    return bodies, start


Around: TypeAlias = tuple[FrameTemplate, bytes, bytes, slice | None, bytes, bytes | None, bytes]
"""The template of frames that come; how these begin and end; where the text is, if always in the same place. Of frames
that go: the bytes before the text, between a number and the text, and behind the text."""


def around(came: FrameTemplate, goes: DeltaTemplate) -> Around:
    within = slice(len(came.head), -len(came.tail)) if came.is_constant else None
    return came, came.first, came.last, within, goes.before, goes.middle, goes.after


class TextFrames:
    """The frames of one stream. `text_of` reads the JSON of a frame, and `changing` names members that may change and
    say nothing."""

    __slots__ = ("_changing", "_is_bare", "_text_of", "_tries", "end", "template")

    def __init__(self, framing: Framing, text_of: TextOf, changing: tuple[str, ...] = ()) -> None:
        self.end = framing.end
        self._is_bare = framing.is_bare
        self._text_of = text_of
        self._changing = changing
        self._tries = _TRIES
        self.template: FrameTemplate | None = None
        """None while nothing is learnt, or a frame with the same bytes may mean something else: another block has
        begun, or none is open."""

    def note_recognised(self) -> None:
        """Frames are alike: go on learning."""
        self._tries = _TRIES

    def learn(self, frame: bytes, text: str) -> None:
        """This frame was read and has said this text. Learn from it if it says nothing else."""
        self.template = None
        if not self._tries:
            return
        self._tries -= 1
        size = len(self.end)
        start = 0 if self._is_bare else _payload_start(frame)
        if start < 0 or b"\n" in frame[start:-size]:
            return
        written = json.encode(text)
        before, found, behind = frame.partition(written)
        if not found or written in behind or len(before) < start:
            return
        head, tail = before + b'"', b'"' + behind
        if self._text_of(head[start:] + _PROBE.encode() + tail[:-size]) == _PROBE:
            self.template = _template(head, tail, self._changing)


def _payload_start(frame: bytes) -> int:
    """Where the JSON of an event begins that is written as nearly all are; else -1."""
    start = frame.find(b"data: ") + 6
    behind_event = frame.startswith(b"event: ") and frame.find(b"\n") == start - 7
    return start if start == 6 or behind_event else -1
