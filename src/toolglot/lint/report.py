"""What the rules of every dialect work with: the events of a recording, and the list of breaches they write.

A recording is split here without `wire.sse`, because a linter must see what a reader is told to skip: comments, lines
without a meaning, a missing space, a last event that never ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.wire import json
from toolglot.wire.framing import EVENTS, Framing

EXCERPT = 120
"""Characters of an event that a breach shows."""


class Breach(Struct, frozen=True):
    """A rule that an event broke. `event` counts the recording's events from 1; the end counts as its last event."""

    event: int
    rule: str
    message: str
    excerpt: str

    def __str__(self) -> str:
        told = f"event {self.event}: {self.rule}: {self.message}"
        return f"{told}: {self.excerpt}" if self.excerpt else told


class Frame(Struct):
    """One event of a recording: its lines as they stand there, and what they say."""

    number: int
    raw: bytes
    lines: list[bytes]
    ended: bool
    """A blank line follows."""
    event: str | None = None
    data: bytes | None = None
    value: Any = None
    """The data as JSON; None when it is not."""
    unreadable: str = ""
    """Why the data is not JSON."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.value if isinstance(self.value, dict) else {}


def split(recording: bytes, framing: Framing = EVENTS) -> list[Frame]:
    """The events of a recording. Lines without data before an event count to it."""
    if framing.is_bare:
        return [_read_line(number, line) for number, line in enumerate(framing.split(recording), 1)]
    text = recording.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    frames: list[Frame] = []
    pieces = text.split(b"\n\n")
    for position, piece in enumerate(pieces):
        lines = [line for line in piece.split(b"\n") if line]
        if not lines:
            continue
        ended = position < len(pieces) - 1
        frame = Frame(number=len(frames) + 1, raw=piece + (b"\n\n" if ended else b""), lines=lines, ended=ended)
        _read(frame)
        frames.append(frame)
    return frames


def _read_line(number: int, line: bytes) -> Frame:
    data = line.rstrip(b"\r\n")
    frame = Frame(number=number, raw=line, lines=[data], ended=line.endswith(b"\n"), data=data)
    _read_json(frame, data)
    return frame


def _read(frame: Frame) -> None:
    data: list[bytes] = []
    for line in frame.lines:
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            frame.event = value.removeprefix(b" ").decode("utf-8", "replace")
    if not data:
        return
    frame.data = b"\n".join(data)
    _read_json(frame, frame.data)


def _read_json(frame: Frame, data: bytes) -> None:
    try:
        frame.value = json.decode_frame(data)
    except DecodeError as error:
        frame.unreadable = error.what


class Report:
    """The breaches of one recording. `rules` maps the name of a rule to its sentence."""

    def __init__(self, rules: Mapping[str, str], frames: list[Frame]) -> None:
        self.breaches: list[Breach] = []
        self._rules = rules
        self._last = frames[-1] if frames else Frame(number=0, raw=b"", lines=[], ended=True)

    def breach(self, rule: str, frame: Frame | None, detail: str = "") -> None:
        """This event broke this rule; without one, the end of the recording did."""
        at = frame or self._last
        message = f"{self._rules[rule]} ({visible(detail)})" if detail else self._rules[rule]
        self.breaches.append(Breach(at.number, rule, message, excerpt(at)))

    def need(self, held: bool, rule: str, frame: Frame | None, detail: str = "") -> bool:
        """Tells a breach unless the rule is held."""
        if not held:
            self.breach(rule, frame, detail)
        return held


class LintRules(Struct, frozen=True, kw_only=True):
    """What one dialect adds to the common rules."""

    rules: Mapping[str, str] = {}
    """The sentences of its rules, by their names."""
    check: Callable[[list[Frame], Report], None] = lambda frames, report: None
    is_json: bool = True
    """The data of its events is JSON."""
    is_lines: bool = False
    """Its streams are lines of JSON and no events."""


def excerpt(frame: Frame) -> str:
    shown = b" ".join(frame.lines).decode("utf-8", "backslashreplace")
    return visible(shown if len(shown) <= EXCERPT else f"{shown[:EXCERPT]}…")


def visible(text: str) -> str:
    """The text without power over a terminal: what does not print (controls, overrides of direction) is escaped."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


_FIELDS = frozenset({b"", b"data", b"event", b"id", b"retry"})


def is_field(line: bytes) -> bool:
    """Has this line a meaning in a stream? One that begins with a colon is a comment."""
    return line.partition(b":")[0] in _FIELDS


def is_bare_error(frame: Frame) -> bool:
    """An error as Google's APIs tell it among events: a document on lines of its own."""
    if not frame.raw.startswith(b"{"):
        return False
    try:
        value = json.decode_frame(frame.raw)
    except DecodeError:
        return False
    return isinstance(value, dict) and isinstance(value.get("error"), dict)


def plain(value: Any) -> int | str | None:
    """A value that can be compared and looked up, whatever stood in the recording."""
    return value if value is None or isinstance(value, (int, str)) else repr(value)


def is_object(text: str) -> bool:
    """Is this text a whole JSON object? No text at all stands for an empty one."""
    return json.object_of(text) is not None


COMMON_RULES = {
    "field": "a line must be a field (data, event, id, retry) or a comment",
    "readable": "the data of an event must be JSON",
    "ended": "a blank line must end every event, the last one too",
    "not-empty": "a stream must hold at least one event",
}
"""Rules that every dialect has."""


def check_common(
    frames: list[Frame], report: Report, *, in_json: bool = True, bare_errors: bool = False, bare: bool = False
) -> None:
    """`bare`: the frames are lines of JSON and no events."""
    if not frames:
        report.breach("not-empty", None)
    for frame in frames:
        if bare_errors and is_bare_error(frame):
            continue
        if not bare and (strange := next((line for line in frame.lines if not is_field(line)), None)):
            report.breach("field", frame, strange[:EXCERPT].decode("utf-8", "backslashreplace"))
        if in_json and frame.data is not None and frame.data != b"[DONE]" and frame.value is None:
            report.breach("readable", frame, frame.unreadable)
    if frames and not frames[-1].ended:
        report.breach("ended", frames[-1])
