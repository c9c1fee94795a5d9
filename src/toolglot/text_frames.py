"""Frames of a stream that bring a little more text and nothing else, recognised without reading them.

Most frames of a stream differ from the one before in their text alone, be it that of the answer or of a call's
arguments. From a frame that was read, what stands before and behind its text is learnt; a frame with the same around it
has its text in the same place, because JSON is read from left to right and nothing in a string can change what its
surroundings mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from toolglot.wire import json

_TRIES = 4
"""Frames to learn from in vain before a stream is taken for one whose frames all differ."""
_PROBE = "toolglot probe"
_MARK = b'"obfuscation":"'
"""OpenAI hides the lengths of its texts behind a member of random letters."""

TextOf = Callable[[bytes], str | None]
"""Reads a frame's JSON document: its text, or None if it says anything else."""

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


def _are_alike(bodies: list[bytes]) -> bool:
    """The same for many at once; False also where it is not sure."""
    joined = b"".join(bodies)
    if joined.translate(BLANKED).isspace():
        return all(bodies)
    # No text has a line end in it, so that one can stand between them: an escape that is cut is none with it.
    return b"\n" not in joined and _ALIKE_LINES(b"\n".join(bodies)) is not None and all(bodies)


Around = tuple[bytes, bytes, bytes, bytes, slice]
"""What stands before and behind the text of a frame as it comes, and as it goes, with the quotes; and where it is."""


def around(came: tuple[bytes, bytes] | None, goes: tuple[bytes, bytes] | None) -> Around | None:
    if came is None or goes is None:
        return None
    return *came, *goes, slice(len(came[0]), -len(came[1]))


def run_of(around: Around, data: bytes, start: int) -> tuple[list[bytes], int]:
    """The texts of the frames that stand at `start` one behind the other, up to the first that has to be read; and
    where they end."""
    before, behind, _, _, _ = around
    size = len(before)
    frames = data[start:].split(behind)[:-1]
    bodies = [frame[size:] for frame in frames if frame.startswith(before)]
    if len(bodies) < len(frames) or not _are_alike(bodies):
        read = (number for number, frame in enumerate(frames) if frame[:size] != before or not is_alike(frame[size:]))
        del bodies[next(read, len(frames)) :]
    return bodies, start + sum(map(len, bodies)) + len(bodies) * (size + len(behind))


class TextFrames:
    """The frames of one stream."""

    __slots__ = ("_before", "_behind", "_hidden", "_size", "_tries")

    def __init__(self) -> None:
        self._tries = _TRIES
        self._before = b""
        self._behind = b""
        self._hidden = b""  # what stands behind the random letters, if there are any
        self._size = 0

    def body(self, frame: bytes) -> bytes:
        """The JSON of a frame's text, without its quotes; nothing for a frame that has to be read. A frame is given
        without the blank line at its end."""
        if not frame.startswith(self._before) or not self._size:
            return b""
        if self._hidden:
            frame = self._without_letters(frame)
        if not frame.endswith(self._behind):
            return b""
        self._tries = _TRIES
        return frame[self._size : -len(self._behind)]

    def _without_letters(self, frame: bytes) -> bytes:
        """The frame up to where random letters begin, if nothing else comes behind them than did before."""
        begin = frame.rfind(_MARK) + len(_MARK)
        end = frame.find(b'"', begin)
        return frame[:begin] if frame[end:] == self._hidden and frame[begin:end].isalnum() else b""

    @property
    def around(self) -> tuple[bytes, bytes] | None:
        """What stands before and behind the text of a frame, its quotes and the blank line at its end included; None
        while nothing is learnt, or where it is not the same each time."""
        return (self._before, self._behind + b"\n\n") if self._size and not self._hidden else None

    def frame(self, body: bytes) -> bytes:
        """A frame like those that were learnt from, with this text."""
        return b"%b%b%b%b\n\n" % (self._before, body, self._behind, self._hidden)

    def recognised(self) -> None:
        """A frame was, elsewhere."""
        self._tries = _TRIES

    def forget(self) -> None:
        """Another block begins, or none is open: a frame with the same around it may mean something else now."""
        self._size = 0

    def learn(self, frame: bytes, text: str, text_of: TextOf) -> None:
        """This frame was read and said this text and nothing else. `text_of` can tell whether that is so."""
        if not self._tries:
            return
        self._tries -= 1
        self._size = 0
        start = frame.find(b"data: ") + 6
        behind_event = frame.startswith(b"event: ") and frame.find(b"\n") == start - 7
        if not (start == 6 or behind_event) or b"\n" in frame[start:]:
            return
        written = json.encode(text)
        before, found, behind = frame.partition(written)
        if not found or written in behind or len(before) < start:
            return
        before, behind = before + b'"', b'"' + behind
        if text_of(before[start:] + _PROBE.encode() + behind) != _PROBE:
            return
        self._hidden = b""
        if (mark := behind.rfind(_MARK)) >= 0:
            end = behind.find(b'"', mark + len(_MARK))
            behind, self._hidden = behind[: mark + len(_MARK)], behind[end:]
        self._before, self._behind, self._size = before, behind, len(before)
