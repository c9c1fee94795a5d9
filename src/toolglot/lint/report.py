"""Shared base of the dialects' rules: the events of a recording, and the list of breaches. A recording is split here
without `wire.sse`, because a linter must see lines that a reader ignores: comments, meaningless lines, a missing space,
a last event that never ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.wire import json
from toolglot.wire.framing import EVENTS, Framing

EXCERPT_CHARS = 120
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


class LintFrame(Struct):
    """One event of a recording: its raw lines, and their meaning."""

    number: int
    raw: bytes
    lines: list[bytes]
    ended: bool
    """True if a blank line follows."""
    event: str | None = None
    data: bytes | None = None
    value: Any = None
    """The data as JSON; None if it is not JSON."""
    unreadable: str = ""
    """Why the data is not JSON."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.value if isinstance(self.value, dict) else {}


def split(recording: bytes, framing: Framing = EVENTS) -> list[LintFrame]:
    """Split a recording into events. Lines without data before an event belong to it."""
    if framing.is_bare:
        return [_read_line(number, line) for number, line in enumerate(framing.split(recording), 1)]
    text = recording.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    frames: list[LintFrame] = []
    pieces = text.split(b"\n\n")
    for position, piece in enumerate(pieces):
        lines = [line for line in piece.split(b"\n") if line]
        if not lines:
            continue
        ended = position < len(pieces) - 1
        frame = LintFrame(number=len(frames) + 1, raw=piece + (b"\n\n" if ended else b""), lines=lines, ended=ended)
        _read(frame)
        frames.append(frame)
    return frames


def _read_line(number: int, line: bytes) -> LintFrame:
    data = line.rstrip(b"\r\n")
    frame = LintFrame(number=number, raw=line, lines=[data], ended=line.endswith(b"\n"), data=data)
    _read_json(frame, data)
    return frame


def _read(frame: LintFrame) -> None:
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


def _read_json(frame: LintFrame, data: bytes) -> None:
    try:
        frame.value = json.decode_frame(data)
    except DecodeError as error:
        frame.unreadable = error.what


class LintReport:
    """The breaches of one recording. `rules` maps the name of a rule to its description."""

    def __init__(self, rules: Mapping[str, str], frames: list[LintFrame]) -> None:
        self.breaches: list[Breach] = []
        self._rules = rules
        self._last = frames[-1] if frames else LintFrame(number=0, raw=b"", lines=[], ended=True)

    def breach(self, rule: str, frame: LintFrame | None, detail: str = "") -> None:
        """Report that this event broke this rule; without an event, the end of the recording did."""
        at = frame or self._last
        message = f"{self._rules[rule]} ({visible(detail)})" if detail else self._rules[rule]
        self.breaches.append(Breach(at.number, rule, message, excerpt(at)))

    def require(self, held: bool, rule: str, frame: LintFrame | None, detail: str = "") -> bool:
        """Report a breach unless the rule holds."""
        if not held:
            self.breach(rule, frame, detail)
        return held


class LintRules(Struct, frozen=True, kw_only=True):
    """Rules that one dialect adds to the common ones."""

    rules: Mapping[str, str] = {}
    """The descriptions of its rules, by name."""
    check: Callable[[list[LintFrame], LintReport], None] = lambda frames, report: None
    is_json: bool = True
    """True if the data of its events is JSON."""
    is_lines: bool = False
    """True if its streams are lines of JSON instead of events."""


def excerpt(frame: LintFrame) -> str:
    shown = b" ".join(frame.lines).decode("utf-8", "backslashreplace")
    return visible(shown if len(shown) <= EXCERPT_CHARS else f"{shown[:EXCERPT_CHARS]}…")


def visible(text: str) -> str:
    """Escape characters that do not print (controls, direction overrides), so that text cannot control a terminal."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


_FIELDS = frozenset({b"", b"data", b"event", b"id", b"retry"})


def is_field(line: bytes) -> bool:
    """Return whether this line has a meaning in a stream. One that begins with a colon is a comment."""
    return line.partition(b":")[0] in _FIELDS


def is_bare_error(frame: LintFrame) -> bool:
    """Return whether this is an error as Google's APIs send it between events: a document on its own lines."""
    if not frame.raw.startswith(b"{"):
        return False
    try:
        value = json.decode_frame(frame.raw)
    except DecodeError:
        return False
    return isinstance(value, dict) and isinstance(value.get("error"), dict)


def plain(value: Any) -> int | str | None:
    """Convert any recorded value to one that can be compared and hashed."""
    return value if value is None or isinstance(value, (int, str)) else repr(value)


def is_object(text: str) -> bool:
    """Return whether this text is a complete JSON object. Empty text counts as an empty one."""
    return json.object_of(text) is not None


COMMON_RULES = {
    "field": "a line must be a field (data, event, id, retry) or a comment",
    "readable": "the data of an event must be JSON",
    "ended": "a blank line must end every event, the last one too",
    "not-empty": "a stream must contain at least one event",
}
"""Rules that every dialect has."""


def check_common(
    frames: list[LintFrame], report: LintReport, *, in_json: bool = True, bare_errors: bool = False, bare: bool = False
) -> None:
    """`bare`: the frames are lines of JSON instead of events."""
    if not frames:
        report.breach("not-empty", None)
    for frame in frames:
        if bare_errors and is_bare_error(frame):
            continue
        if not bare and (strange := next((line for line in frame.lines if not is_field(line)), None)):
            report.breach("field", frame, strange[:EXCERPT_CHARS].decode("utf-8", "backslashreplace"))
        if in_json and frame.data is not None and frame.data != b"[DONE]" and frame.value is None:
            report.breach("readable", frame, frame.unreadable)
    if frames and not frames[-1].ended:
        report.breach("ended", frames[-1])
