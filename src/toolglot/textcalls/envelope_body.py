"""A body of kind `envelope`: JSON objects that contain a tool's name and its arguments, in any order and nesting.

    {"name": "f", "arguments": {...}}      {"arguments": "{...}", "name": "f"}      [{"tool_name": "f", ...}, {...}]
    {"function_call": {"name": ...}}       {"type": "function", "function": {"name": ...}}       {"f": {...}}
    {"name": "f", "city": "Rome"}          (see `extra_keys.py`)

Arguments are streamed as soon as the name is known. Anything that is not strict JSON is collected up to the end of the
call and repaired as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from toolglot.textcalls.arguments import MAX_SIZE, CallArguments, is_balanced, string_end_marks
from toolglot.textcalls.body import BodyState, OpenedCall
from toolglot.textcalls.envelope_members import EnvelopeMembers, OtherValue, is_schema_key, may_wrap
from toolglot.textcalls.json_names import (
    MAX_STRING,
    NeedMoreText,
    NotStrictJson,
    read_string,
    skip_fence_line,
    skip_space,
)
from toolglot.textcalls.json_scan import JsonScan
from toolglot.textcalls.marks import TextUntil, mark_set
from toolglot.textcalls.repaired_calls import emit_repaired_calls

MAX_CALLS: Final = 1000
"""Maximum calls of one body. Further text is not part of it, so that the work for an answer is bounded."""
SEPARATORS: Final = " \t\r\n;,"
"""Characters that may separate two envelopes."""
_SEPARATOR = re.compile(f"[{SEPARATORS}]*+")


def _read_nothing(_: str, at: int) -> int:
    return at


class EnvelopeBody:
    """Reads one envelope, a list of them, or several in a row."""

    __slots__ = (
        "_calls_before",
        "_enders",
        "_expected",
        "_fenced",
        "_key",
        "_level",
        "_listed",
        "_marks",
        "_members",
        "_opened",
        "_rest",
        "_skipped",
        "_value",
        "state",
    )

    def __init__(self, opened: OpenedCall) -> None:
        self.state: BodyState = "open"
        self._opened = opened
        self._marks = mark_set((*opened.call.closers, *opened.call.stops, *opened.followers))
        self._enders = string_end_marks(opened.call)
        self._calls_before = opened.sink.calls
        self._fenced = False
        self._listed = False
        self._expected: Callable[[str, int], int] = self._opening
        self._rest: TextUntil | None = None
        self._reset()

    def _reset(self) -> None:
        """Prepare for the next envelope."""
        self._level = 0
        self._key = ""
        self._members = EnvelopeMembers(self._opened)
        self._skipped: JsonScan | None = None
        self._value = OtherValue()

    @property
    def _started(self) -> bool:
        """Whether a call of this body has begun, so that nothing can be refused."""
        return self._opened.sink.calls > self._calls_before

    @property
    def is_refused(self) -> bool:
        return self.state == "refused"

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, text: str, at: int) -> int:
        if self._rest is not None:
            return self._read_rest(text, at, self._rest)
        step = self._expected
        try:
            while self.state == "open":
                step = self._expected
                end = step(text, at)
                self._note(text, at, end, step)
                at = end
        except NeedMoreText as wait:
            end = wait.args[0] if wait.args else at
            self._note(text, at, end, step)
            return int(end)
        except NotStrictJson as broken:
            end = broken.args[0] if broken.args else at
            self._note(text, at, end, step)
            return self._begin_repair(text, end)
        self._expected = _read_nothing  # breaks a reference cycle
        return at

    def _note(self, text: str, at: int, end: int, step: Any) -> None:
        if end > at and not (self._members.index >= 0 and step == self._read_arguments):
            self._members.note(text, at, end)
            if self._members.size > MAX_SIZE and self._members.index < 0:
                self.state = "done" if self._started else "refused"

    def _opening(self, text: str, at: int) -> int:
        at = skip_space(text, at)
        if text[at] == "`" and not self._fenced:
            at = skip_fence_line(text, at)
            self._fenced = True
            return at
        if text[at] == "[":
            self._listed = True
            self._expected = self._item
            return at + 1
        return self._item(text, at)

    def _item(self, text: str, at: int) -> int:
        """Read an envelope, or the end of the list."""
        at = skip_space(text, at)
        if text[at] == "{" and self._opened.sink.calls - self._calls_before >= MAX_CALLS:
            return self._finish_body(text, at)
        if text[at] == "{":
            self._reset()
            self._level = 1
            self._expected = self._member
            return at + 1
        if text[at] == "]" and self._listed:
            return self._finish_body(text, at + 1)
        if text[at] == "," and self._listed and self._started:
            return at + 1
        raise NotStrictJson(at)

    def _member(self, text: str, at: int) -> int:
        """Read a key, or the end of the object."""
        start, at = at, skip_space(text, at)
        if text[at] == "}":
            return self._close_object(text, start, at + 1)
        if text[at] == ",":
            self._expected = self._next_key
            return at + 1
        return self._next_key(text, at)

    def _next_key(self, text: str, at: int) -> int:
        at = skip_space(text, at)
        self._key, end = read_string(text, at)
        self._expected = self._colon
        return end

    def _colon(self, text: str, at: int) -> int:
        at = skip_space(text, at)
        if text[at] != ":":
            raise NotStrictJson(at)
        self._expected = self._any_value
        return at + 1

    def _any_value(self, text: str, at: int) -> int:
        at = skip_space(text, at)
        self._expected = self._value_of(text[at])
        return at

    def _value_of(self, first: str) -> Any:
        """Choose the reader of the key's value, by the key and the value's first character."""
        call, members = self._opened.call, self._members
        if (self._key in call.refused_keys and not self._started) or members.keyed:
            raise NotStrictJson
        if call.keyed and self._level == 1 and not members.name:
            self._set_name(self._key)
            return self._argument_value(first)
        if self._key in call.argument_keys and members.arguments is None and members.quoted is None:
            return self._argument_value(first)
        if first == '"' and not members.name and self._key in call.name_keys:
            return self._name_value
        if first == '"' and not members.id and self._key in call.id_keys:
            return self._id_value
        if first == "{" and self._key_is_tool_name():
            members.keyed = self._key
            return self._argument_value(first)
        if first == "{" and not members.name and members.arguments is None and may_wrap(self._key, call):
            self._level += 1
            return self._wrapped
        return self._other_value()

    def _key_is_tool_name(self) -> bool:
        """Return whether the key is a tool's name, so that its value can only be the arguments."""
        call, members = self._opened.call, self._members
        known = self._key in self._opened.tools and self._key not in call.name_keys and not call.weak
        nothing_else = not (members.name or members.others or members.arguments or members.quoted or members.id)
        return known and nothing_else and self._level == 1

    def _argument_value(self, first: str) -> Any:
        members = self._members
        if first == "{":
            members.arguments = CallArguments(self._opened, self._enders)
            if members.name and members.index < 0 and self._opened.call.weak and not self._started:
                return self._first_key
            members.begin()
            return self._read_arguments
        if first == '"':
            members.quoted, members.argument_key = [], self._key
            self._skipped = JsonScan(self._enders)
            return self._read_quoted
        return self._other_value()

    def _first_key(self, text: str, at: int) -> int:
        """Check the first key before an object that may be a tool's declaration begins a call."""
        end = skip_space(text, at + 1, back=at)
        schema = self._opened.tools.get(self._members.name)
        if text[end] == '"' and is_schema_key(read_string(text, end, back=at)[0], schema):
            raise NotStrictJson(at)
        self._members.begin()
        self._expected = self._read_arguments
        return at

    def _other_value(self) -> Any:
        self._value = OtherValue()
        self._skipped = JsonScan(self._enders)
        return self._skip

    def _wrapped(self, text: str, at: int) -> int:
        self._expected = self._member
        return at + 1

    def _name_value(self, text: str, at: int) -> int:
        name, end = read_string(text, at)
        self._set_name(name.strip())
        self._members.begin()
        self._expected = self._member
        return end

    def _id_value(self, text: str, at: int) -> int:
        self._members.id, end = read_string(text, at)
        self._members.id_key = self._key
        self._expected = self._member
        return end

    def _skip(self, text: str, at: int) -> int:
        """Read the value of some other key."""
        if self._skipped is None:
            raise NotStrictJson(at)
        end = self._skipped.read(text, at)
        self._value.add(self._skipped.take(), kept=self._members.arguments is None)
        if self._skipped.done:
            self._members.add_other(self._key, self._value.text)
        return self._skip_scanned(self._skipped, end)

    def _skip_scanned(self, scan: JsonScan, end: int) -> int:
        if scan.bad:
            raise NotStrictJson(end)
        if not scan.done:
            raise NeedMoreText(end)
        self._expected = self._member
        return end

    def _read_quoted(self, text: str, at: int) -> int:
        """Read arguments that are a string with JSON in it."""
        if self._skipped is None or self._members.quoted is None:
            raise NotStrictJson(at)
        end = self._skipped.read(text, at)
        self._members.quoted.append(self._skipped.take())
        return self._skip_scanned(self._skipped, end)

    def _read_arguments(self, text: str, at: int) -> int:
        arguments = self._members.arguments
        if arguments is None:
            raise NotStrictJson(at)
        end = arguments.read(text, at)
        if arguments.broken:
            raise NotStrictJson(end)
        if not arguments.done:
            raise NeedMoreText(end)
        self._expected = self._member
        return end

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _set_name(self, name: str) -> None:
        known = name in self._opened.tools
        if not name or (self._opened.call.weak and not known and not self._started):
            raise NotStrictJson
        self._members.name = name

    def _close_object(self, text: str, start: int, end: int) -> int:
        """Handle the end of an object: a wrapper, or the envelope."""
        self._level -= 1
        if self._level:
            return end
        members = self._members
        members.name = members.name or members.keyed
        if not members.name or not members.finish(text[start:end]):
            raise NotStrictJson(end)
        self._reset()  # what follows, broken or not, does not belong to this call
        self._expected = self._item if self._listed else self._next_envelope
        return end

    def _next_envelope(self, text: str, at: int) -> int:
        """Look for another envelope after one that is not in a list."""
        found = _SEPARATOR.match(text, at)
        end = found.end() if found else at
        if end - at >= MAX_STRING:
            return self._finish_body(text, at)
        if end == len(text):
            raise NeedMoreText(at)
        if text[end] == "{":
            return self._item(text, end)
        return self._finish_body(text, at)

    def _finish_body(self, text: str, at: int) -> int:
        if self._fenced:
            self._expected = self._fence_end
            return at
        self.state = "done" if self._started else "refused"
        return at

    def _fence_end(self, text: str, at: int) -> int:
        at = skip_space(text, at)
        if "```".startswith(text[at : at + 3]) and len(text) - at < 3:
            raise NeedMoreText(at)
        self.state = "done" if self._started else "refused"
        return at + 3 if text.startswith("```", at) else at

    # ── text that is not strict JSON
    # ───────────────────────────────────────────────────────────────────────────────────────

    def _begin_repair(self, text: str, at: int) -> int:
        refused = self._key in self._opened.call.refused_keys
        if not self._started and (refused or (self._opened.call.weak and not self._opened.call.closers)):
            self.state = "refused"
            return at
        if self._started and self._members.index < 0 and not self._opened.call.closers:
            self.state = "done"
            self._opened.sink.text(self._members.raw.lstrip(SEPARATORS))
            return at
        self._rest = TextUntil(self._marks)
        return self._read_rest(text, at, self._rest)

    def _read_rest(self, text: str, at: int, rest: TextUntil) -> int:
        at, mark = rest.read(text, at)
        if mark or rest.size > MAX_SIZE:
            self._repair(rest.text, cut=not mark)
        return at

    def _repair(self, rest: str, *, cut: bool, at_end: bool = False) -> None:
        """End a call that is not strict JSON: repair it as a whole, refuse it, or cut it."""
        self.state = "done"
        members, sink = self._members, self._opened.sink
        if members.index >= 0 and members.arguments is not None:
            arguments = members.arguments
            if cut and arguments.done:
                arguments.cut("the text ended inside the call", members.after.text + rest)
            elif cut:
                arguments.cut("the text ended inside the arguments", rest)
            elif arguments.done and (":" in rest or members.loses_something):
                sink.cut(members.index, "the JSON around the arguments is broken", f"{members.raw}{rest}".strip())
            else:
                arguments.repair(rest if arguments.broken else "", enveloped=True, at_end=at_end)
            return
        raw = (members.raw + rest).lstrip()
        if cut or not emit_repaired_calls(sink, raw, self._opened, at_end=at_end):
            sink.text(raw if self._started else "")
            self.state = "done" if self._started else "refused"

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        at = self.read(text, at)
        if self.state != "open":
            return at
        if self._rest is None:
            return self._finish_open(text, at)
        rest = self._rest.text + text[at:]
        arguments = self._members.arguments if self._members.index >= 0 else None
        raw = (arguments.raw if arguments is not None else self._members.raw) + rest
        # The brackets of the envelope itself close after the arguments.
        whole = is_balanced(raw) or (arguments is not None and raw.count("{") + self._level == raw.count("}"))
        if arguments is not None and arguments.done:
            whole = rest.count("}") - rest.count("{") >= self._level
        self._repair(rest, cut=cut or not whole, at_end=True)
        return at if self.is_refused else len(text)

    def _finish_open(self, text: str, at: int) -> int:
        """End a text that stops inside strict JSON, or between two calls."""
        members = self._members
        between = self._expected in (self._next_envelope, self._fence_end)
        listed_end = self._started and self._listed and self._expected == self._item
        if between or listed_end:
            self.state = "done"
            return at
        if members.index >= 0 and members.arguments is not None:
            self.state = "done"
            if members.arguments.done:
                members.arguments.cut("the text ended inside the call", members.after.text + text[at:])
            else:
                members.arguments.cut("the text ended inside the arguments", text[at:])
            return len(text)
        if members.name and not self._opened.call.weak:
            self.state = "done"
            raw = (members.raw + text[at:]).strip()
            self._opened.sink.cut(members.start(), "the text ended before the arguments", raw)
            return len(text)
        self.state = "done" if self._started else "refused"
        return at
