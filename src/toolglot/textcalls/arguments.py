"""Stream the arguments of one call to the client: strict JSON at once, broken JSON repaired at its end."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import lru_cache
from typing import Any, Final

from toolglot.textcalls.body import OpenedCall
from toolglot.textcalls.continuation import complete_json
from toolglot.textcalls.events import EventSink
from toolglot.textcalls.grammar import CallSyntax
from toolglot.textcalls.json_scan import JsonScan
from toolglot.textcalls.marks import MarkSet, mark_set
from toolglot.textcalls.repair import RepairError, repair_with_report

MAX_SIZE: Final = 16 * 1024 * 1024
"""Longer text is not accepted as arguments: the call is cut, so that memory stays bounded."""
JOINING_REPAIRS: Final = frozenset({"unescaped quotes", "missing commas"})
"""Repairs that may merge two objects into one: quotes become part of the string that they may have ended, and members
follow where an object may have ended."""


class CallArguments:
    """Reads the JSON text of a call's arguments. They are buffered until the call has begun, that is, until its name is
    known.

    After `read`, `done` says that the JSON is complete. `broken` says that it is not JSON: the caller must find its end
    by other means and pass the text after it to `repair`.
    """

    __slots__ = ("_closers", "_index", "_opened", "_raw", "_scan", "_schema", "_sent", "_sink", "_size", "streamed")

    def __init__(self, opened: OpenedCall, closers: MarkSet | None = None) -> None:
        self._opened = opened
        self._sink: EventSink = opened.sink
        self._schema: Any = None
        self._closers = closers
        self._scan = JsonScan(closers)
        self.streamed = False  # the call had begun before its arguments
        self._index = -1
        self._raw: list[str] = []
        self._sent: list[str] = []
        self._size = 0

    @property
    def done(self) -> bool:
        return self._scan.done

    @property
    def broken(self) -> bool:
        return self._scan.bad

    def begin(self, index: int, schema: Any) -> None:
        """Begin the call and emit the buffered text."""
        self._index = index
        self._schema = schema
        self.streamed = not self._raw
        if self._sent:
            self._sink.arguments(index, "".join(self._sent))

    def read(self, text: str, at: int) -> int:
        end = self._scan.read(text, at)
        if end > at:
            self._raw.append(text[at:end])
            self._size += end - at
            if self._size > MAX_SIZE:
                self._scan.bad = True
        certain = self._scan.take()
        if certain:
            self._sent.append(certain)
            if self._index >= 0:
                self._sink.arguments(self._index, certain)
        return end

    def end(self) -> None:
        """End the call: its JSON is complete."""
        if self._scan.escaped:
            self._sink.repaired(self._index, "".join(self._raw), "control characters inside strings were escaped")
        self._sink.end(self._index)

    def cut(self, why: str, rest: str = "") -> None:
        """End an incomplete call. `rest` is the unread part of its arguments, possibly with the closing mark of the
        call.
        """
        if self._closers is not None and self._closers.match(rest, 0) == rest:
            rest = ""
        self._sink.cut(self._index, why, (self.raw + rest).rstrip())

    @property
    def raw(self) -> str:
        return "".join(self._raw)

    @property
    def is_empty(self) -> bool:
        return self.done and not "".join(self._sent).strip("{} \t\r\n")

    def take(self, text: str) -> None:
        """Emit complete arguments at once, and end the call."""
        end = self.read(text, 0) if text.startswith("{") else 0
        if self.done and end == len(text):
            self.end()
        else:
            self.repair(text[end:])

    def repair(self, rest: str, *, enveloped: bool = False, at_end: bool = False) -> None:
        """End a call with broken arguments: repair them if this is unambiguous, or cut the call. `enveloped`: the
        brackets of the envelope follow the arguments. `at_end`: the input ends here, so the missing part was cut off.
        """
        if self.done:
            self._sink.repaired(self._index, self.raw, "the JSON around the arguments was broken")
            self._sink.end(self._index)
            return
        raw = self.raw + rest
        if self._size + len(rest) > MAX_SIZE:
            self.cut(f"the arguments have more than {MAX_SIZE} characters", rest)
            return
        try:
            value, how = repair_with_report(raw, self._schema, self._sink.work)
        except RepairError as error:
            self.cut(f"the arguments are not JSON and could not be repaired: {error}", rest)
            return
        if at_end and is_cut_off(how):
            self.cut("the text ended inside the arguments", rest)
            return
        if any(each in how for each in JOINING_REPAIRS) and holds_another_call(self._opened, raw):
            self.cut("the arguments are not JSON, and contain another call, which may have begun after their end", rest)
            return
        remainder = complete_json("".join(self._sent), value)
        if remainder is None:
            self.cut("the arguments are not JSON, and what was already passed on does not fit their repair", rest)
            return
        if enveloped:
            how = ", ".join(damage for damage in how.split(", ") if damage != "stray brackets") or how
        self._sink.arguments(self._index, remainder)
        self._sink.repaired(self._index, raw, how)
        self._sink.end(self._index)


def string_end_marks(call: CallSyntax) -> MarkSet | None:
    """Return the call's closers that show an unclosed string if they start or end a line. Code fences are excluded,
    because text is full of them."""
    return _closers_at_line_ends(call.closers)


@lru_cache(maxsize=256)
def _closers_at_line_ends(closers: tuple[str, ...]) -> MarkSet | None:
    enders = tuple(closer for closer in closers if not closer.startswith("`"))
    return mark_set(enders) if enders else None


def holds_another_call(opened: OpenedCall, text: str) -> bool:
    """Return whether a text contains marks of calls, or the head of another envelope. A string of broken JSON that
    contains them may have lost its end: the rest would be another call."""
    return _envelope_heads(opened.call, opened.followers, tuple(opened.tools)).search(text) is not None


@lru_cache(maxsize=64)
def _envelope_heads(call: CallSyntax, followers: tuple[str, ...], tools: tuple[str, ...]) -> re.Pattern[str]:
    marks = [re.escape(mark) for mark in (*call.closers, *followers) if not mark.startswith("`")]
    names, keys, openers = ("|".join(map(re.escape, words)) for words in (tools, call.name_keys, call.header.openers))
    if tools:
        marks.append(rf'"(?:{keys})"\s*:\s*"(?:{names})"|\{{\s*"(?:{names})"\s*:\s*\{{')
    if tools and openers:
        marks.append(rf"(?:{openers})\s*(?:{names})")
    return re.compile("|".join(marks) or "(?!)")


def is_balanced(text: str) -> bool:
    """Return whether as many brackets close as open, which is the best sign that broken JSON was not cut."""
    return text.count("{") == text.count("}") and text.count("[") == text.count("]")


def is_cut_off(how: str) -> bool:
    """Return whether a repair added text that the model may not have written. Then more may be missing."""
    return any(damage in how for damage in ("missing end quote", "missing brackets"))


def has_no_parameters(schema: Any) -> bool:
    """Return whether a tool declares no parameters, so that a call without arguments is complete."""
    return isinstance(schema, dict) and not schema.get("properties") and not schema.get("required")


def lacks_required(schema: Any, given: Container[str]) -> bool:
    """Return whether required parameters are missing."""
    required = schema.get("required") if isinstance(schema, dict) else None
    return isinstance(required, list) and any(key not in given for key in required)
