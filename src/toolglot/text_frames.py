"""Templates for stream frames that only add text, reasoning or arguments.

Most frames of a stream differ from the previous one in a single JSON string. The bytes before and after that string
are learned from a decoded frame. A frame with the same surrounding bytes has its text in the same place, because JSON
is read from left to right and the content of a string cannot change the meaning of its surroundings. Members that
change with every frame and carry no meaning (a number, a time, random letters) are holes in the template. A dialect
names these members.

The client's encoder provides a template as well, so that the text is copied from frame to frame without decoding.
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
"""Failed attempts to learn a template before learning stops, because all frames differ."""
_PROBE = "toolglot probe"

TextOf: TypeAlias = Callable[[bytes], str | None]
"""Reads a frame's JSON document: the text it adds to its block, or None if it contains anything else."""

BLANKED = bytes(32 if 32 <= code < 127 and code not in b'"\\' else 0 for code in range(256))
"""Table for `bytes.translate`: maps characters that JSON never escapes to blanks. A text of only such characters then
satisfies `isspace()`, which is the fastest check."""
_CANONICAL = re.compile(rb'[ !#-\[\]-~\x80-\xff]*(?:\\["\\bfnrt][ !#-\[\]-~\x80-\xff]*)*').fullmatch
_ALIKE_LINES = re.compile(rb'[ !#-\[\]-~\n]*(?:\\["\\bfnrt][ !#-\[\]-~\n]*)*').fullmatch

_decode_text = msgspec.json.Decoder(str).decode


def decode_body(body: bytes) -> str:
    """Decode the inside of a JSON string; empty if it is not valid."""
    try:
        return _decode_text(b'"%b"' % body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def is_canonical(body: bytes) -> bool:
    """Return whether this is the inside of a non-empty JSON string, written exactly as `json.encode_frame` would."""
    if not body or _CANONICAL(body) is None:
        return False
    return body.isascii() or (decode_body(body) != "" and json.escape_line_separators(body) is body)


def _are_canonical(bodies: list[bytes], held_back: bytes) -> bool:
    """Whether all bodies are canonical and none contains `held_back`. False may also mean that this is unknown."""
    joined = b"".join(bodies)
    if held_back in joined:
        return False
    if joined.translate(BLANKED).isspace():
        return all(bodies)
    # No body contains a newline, so it can separate them: an escape cut at a border does not match then.
    return b"\n" not in joined and _ALIKE_LINES(b"\n".join(bodies)) is not None and all(bodies)


_WORD = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.:+-"
"""String characters that are never escaped and do not end a string or a number."""
_ZERO = ord("0")
_NUMBERS = re.compile(rb"(?:[1-9][0-9]*\n)+")
_Hole: TypeAlias = tuple[bool, bytes]
"""A value that changes: whether it is a number (else the inside of a string), and the constant bytes after it."""


def _are_values(values: list[bytes], is_number: bool) -> bool:
    lines = b"\n".join((*values, b""))
    if lines.count(b"\n") != len(values):
        return False
    return _NUMBERS.fullmatch(lines) is not None if is_number else not lines.translate(None, _WORD + b"\n")


def _skip_values(holes: tuple[_Hole, ...], data: bytes, at: int) -> int:
    """Skip the changing values at this offset and the constant bytes after each. Returns the end offset; -1 if there is
    anything else."""
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
    """Return the pattern that finds the values of these members: a number, or a string without escapes."""
    names = "|".join(map(re.escape, members)).encode()
    return re.compile(rb'[{,] ?"(?:%b)": ?(?:([1-9][0-9]*)(?=[,}])|"([%b]*)")' % (names, re.escape(_WORD)))


def _split_values(constant: bytes, members: tuple[str, ...]) -> tuple[bytes, list[_Hole]]:
    """Split at the values of these members: the bytes up to the first value, and a hole for each value."""
    matches = list(_values_of(members).finditer(constant)) if members else []
    edges = [*[match.span(match.lastindex or 0) for match in matches], (len(constant), 0)]
    holes = [
        (match.lastindex == 1, constant[end:begin])
        for match, (_, end), (begin, _) in zip(matches, edges, edges[1:], strict=False)
    ]
    return constant[: edges[0][0]], holes


class FrameTemplate(Struct, frozen=True):
    """The bytes of a frame around its text, including the quotes and the end of the frame."""

    head: bytes
    tail: bytes
    first: bytes
    """The beginning of `head`, up to the first changing value."""
    last: bytes
    """The end of `tail`, after the last changing value."""
    before: tuple[_Hole, ...] = ()
    """The changing values in `head`."""
    middle: bytes = b""
    """The beginning of `tail`, up to the first changing value."""
    behind: tuple[_Hole, ...] = ()
    """The changing values in `tail`."""

    @property
    def is_constant(self) -> bool:
        return not self.before and not self.behind

    def body_of(self, data: bytes, start: int, stop: int) -> bytes:
        """Extract the inside of the string if the frame matches, otherwise empty bytes. The caller checks that it is
        valid as the inside of a string, and that the data is a single frame."""
        if not data.startswith(self.first, start) or not data.endswith(self.last, start, stop):
            return b""
        return self.text_of_matching(data, start + len(self.first), stop)

    def text_of_matching(self, data: bytes, start: int, stop: int) -> bytes:
        """Extract the text, as `body_of` does, from a frame that starts with `first` and ends with `last`. `start` is
        after `first`."""
        start = _skip_values(self.before, data, start)
        if start < 0:
            return b""
        if not self.behind:
            return data[start : stop - len(self.last)]
        end = data.rfind(self.middle, start, stop)
        is_known = end >= 0 and _skip_values(self.behind, data, end + len(self.middle)) == stop
        return data[start:end] if is_known else b""

    def bodies_of(self, frames: list[bytes]) -> list[bytes]:
        """Extract the texts of many frames, each without its `first` and `last`. Empty unless all frames match."""
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
        """Write a frame with this text."""
        return b"%b%b%b" % (self.head, body, self.tail)


def _template(head: bytes, tail: bytes, changing: tuple[str, ...]) -> FrameTemplate:
    first, before = _split_values(head, changing)
    middle, behind = _split_values(tail, changing)
    return FrameTemplate(head, tail, first, behind[-1][1] if behind else tail, tuple(before), middle, tuple(behind))


def read_run(
    template: FrameTemplate, data: bytes, start: int, end: bytes, held_back: bytes = b"\n"
) -> tuple[list[bytes], int]:
    """Extract the texts of consecutive frames from `start` on, up to the first frame that must be decoded. Returns the
    texts and the end offset. `end` terminates a frame, and no text may contain `held_back`."""
    first, last = template.first, template.last
    stop = data.rfind(last, start)
    if stop < 0 or not data.startswith(first, start):
        return [], start
    frames, size = data[start:stop].split(last), len(first)
    known = [frame[size:] for frame in frames if frame.startswith(first)]
    bodies = template.bodies_of(known) if len(known) == len(frames) else []
    if bodies and _are_canonical(bodies, held_back):
        return bodies, stop + len(last)
    return _run_one_by_one(template, data, start, end, held_back)


def _run_one_by_one(
    template: FrameTemplate, data: bytes, start: int, end: bytes, held_back: bytes
) -> tuple[list[bytes], int]:
    bodies: list[bytes] = []
    while (stop := data.find(end, start)) >= 0:
        stop += len(end)
        body = template.body_of(data, start, stop)
        if not is_canonical(body) or held_back in body:
            break
        bodies.append(body)
        start = stop
    return bodies, start


TemplatePair: TypeAlias = tuple[FrameTemplate, bytes, bytes, slice | None, bytes, bytes | None, bytes]
"""For incoming frames: the template, their beginning and end, and the slice of the text if it is constant. For outgoing
frames: the bytes before the text, between the frame number and the text, and after the text.
"""


def pair_templates(came: FrameTemplate, goes: DeltaTemplate) -> TemplatePair:
    within = slice(len(came.head), -len(came.tail)) if came.is_constant else None
    return came, came.first, came.last, within, goes.before, goes.middle, goes.after


class TextFrames:
    """Learns the template of one stream's frames. `text_of` reads the JSON of a frame, and `changing` names members
    that may change and carry no meaning."""

    __slots__ = ("_changing", "_is_bare", "_text_of", "_tries", "end", "template")

    def __init__(self, framing: Framing, text_of: TextOf, changing: tuple[str, ...] = ()) -> None:
        self.end = framing.end
        self._is_bare = framing.is_bare
        self._text_of = text_of
        self._changing = changing
        self._tries = _TRIES
        self.template: FrameTemplate | None = None
        """None until a template is learned, and while the same bytes may have another meaning, because another block
        has begun or none is open.
        """

    def note_recognised(self) -> None:
        """Record that frames matched the template, so that learning continues."""
        self._tries = _TRIES

    def learn(self, frame: bytes, text: str) -> None:
        """Learn from a decoded frame that added this text, if it contains nothing else."""
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
    """Find the JSON in an event of the usual form (`data: `, optionally after `event: `). -1 for other forms."""
    start = frame.find(b"data: ") + 6
    is_after_event = frame.startswith(b"event: ") and frame.find(b"\n") == start - 7
    return start if start == 6 or is_after_event else -1
