"""Frames of a stream that say nothing but a little more text, recognised without reading them.

Most frames of a stream differ from the one before in their text alone. From a frame that was read, what stands before
and behind its text is learnt; a frame with the same around it has its text in the same place, because JSON is read from
left to right and nothing in a string can change what its surroundings mean. The text itself is read as always.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from toolglot.wire import json

_TRIES = 4
"""Frames to learn from in vain before a stream is taken for one whose frames all differ."""
_PROBE = "toolglot probe"
_MARK = b'"obfuscation":"'
"""OpenAI hides the lengths of its texts behind a member of random letters."""

CLEAN = bytes(code for code in range(32, 127) if code not in b'"\\')
"""Characters that stand for themselves in JSON: whoever writes them writes the same."""

_decode_text = msgspec.json.Decoder(str).decode


def text_of(body: bytes) -> str:
    """The text of a JSON string without its quotes; nothing if it is none."""
    try:
        return _decode_text(b'"%b"' % body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


class TextFrames:
    """The frames of one stream. `text_of` reads a frame's JSON document: its text, or None if it says anything else."""

    __slots__ = ("_before", "_behind", "_hidden", "_size", "_text_of", "_tries")

    def __init__(self, text_of: Callable[[bytes], str | None]) -> None:
        self._text_of = text_of
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

    def forget(self) -> None:
        """Another block begins, or none is open: a frame with the same around it may mean something else now."""
        self._size = 0

    def learn(self, frame: bytes, text: str) -> None:
        """This frame was read and said this text and nothing else."""
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
        if self._text_of(before[start:] + _PROBE.encode() + behind) != _PROBE:
            return
        self._hidden = b""
        if (mark := behind.rfind(_MARK)) >= 0:
            end = behind.find(b'"', mark + len(_MARK))
            behind, self._hidden = behind[: mark + len(_MARK)], behind[end:]
        self._before, self._behind, self._size = before, behind, len(before)
