"""A body of kind `envelope`: JSON objects that hold the name of a tool and its arguments, in any order and wrapping.

    {"name": "f", "arguments": {...}}      {"arguments": "{...}", "name": "f"}      [{"tool_name": "f", ...}, {...}]
    {"function_call": {"name": ...}}       {"type": "function", "function": {"name": ...}}       {"f": {...}}

The arguments are passed on as they come, as soon as the name is known. Whatever is no strict JSON is collected up to
the end of the call and repaired as a whole.
"""

from __future__ import annotations

import json
import re
from typing import Any

from toolglot.textcalls.arguments import MAX_SIZE, Arguments, is_balanced
from toolglot.textcalls.body import BodyState, Opened
from toolglot.textcalls.json_names import MAX_STRING, Broken, Wait, string_at
from toolglot.textcalls.json_scan import JsonScan
from toolglot.textcalls.marks import Until, marks_of
from toolglot.textcalls.mended import mended_calls

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n?")
_SPACE = re.compile(r"[ \t\r\n]*+")
_BETWEEN = re.compile(r"[ \t\r\n;,]*+")


class EnvelopeBody:
    """Reads one envelope, a list of them, or several behind one another."""

    __slots__ = (
        "_arguments",
        "_expected",
        "_fenced",
        "_id",
        "_index",
        "_key",
        "_level",
        "_listed",
        "_marks",
        "_name",
        "_odd",
        "_opened",
        "_quoted",
        "_raw",
        "_rest",
        "_size",
        "_skipped",
        "_started",
        "state",
    )

    def __init__(self, opened: Opened) -> None:
        self.state: BodyState = "open"
        self._opened = opened
        self._marks = marks_of((*opened.call.closers, *opened.call.stops, *opened.followers))
        self._fenced = False
        self._listed = False
        self._started = False  # some call of this body has begun, so that nothing can be refused any more
        self._expected = self._opening
        self._rest: Until | None = None
        self._reset()

    def _reset(self) -> None:
        """Before an envelope."""
        self._level = 0
        self._key = ""
        self._name = ""
        self._id = ""
        self._index = -1
        self._arguments: Arguments | None = None
        self._quoted: list[str] | None = None
        self._odd = False  # the arguments are neither an object nor a string nor null
        self._skipped: JsonScan | None = None
        self._raw: list[str] = []
        self._size = 0

    @property
    def is_refused(self) -> bool:
        return self.state == "refused"

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, text: str, at: int) -> int:
        if self._rest is not None:
            return self._read_rest(text, at, self._rest)
        try:
            while self.state == "open":
                end = self._expected(text, at)
                self._note(text, at, end)
                at = end
        except Wait as wait:
            end = wait.args[0] if wait.args else at
            self._note(text, at, end)
            return int(end)
        except Broken as broken:
            end = broken.args[0] if broken.args else at
            self._note(text, at, end)
            return self._break(text, end)
        return at

    def _note(self, text: str, at: int, end: int) -> None:
        """Keep what was read as long as the whole may still have to be repaired."""
        if end > at and (self._arguments is None or self._index < 0):
            self._raw.append(text[at:end])
            self._size += end - at
            if self._size > MAX_SIZE:
                self.state = "refused" if not self._started else "done"

    def _space(self, text: str, at: int, back: int | None = None) -> int:
        """Behind white space. Where the text ends there, reading goes on at `back` when there is more."""
        found = _SPACE.match(text, at)
        end = found.end() if found else at
        if end == len(text):
            raise Wait(end if back is None else back)
        return end

    def _opening(self, text: str, at: int) -> int:
        at = self._space(text, at)
        if text[at] == "`" and not self._fenced:
            found = _FENCE.match(text, at)
            if found is None or found.end() == len(text):
                raise Wait(at)
            self._fenced = True
            return found.end()
        if text[at] == "[":
            self._listed = True
            self._expected = self._item
            return at + 1
        return self._item(text, at)

    def _item(self, text: str, at: int) -> int:
        """An envelope, or the end of the list."""
        at = self._space(text, at)
        if text[at] == "{":
            self._reset()
            self._level = 1
            self._expected = self._member
            return at + 1
        if text[at] == "]" and self._listed:
            return self._over(text, at + 1)
        if text[at] == "," and self._listed and self._started:
            return at + 1
        raise Broken(at)

    def _member(self, text: str, at: int) -> int:
        """A key and its colon, or the end of the object."""
        at = self._space(text, at)
        if text[at] == "}":
            return self._closed(text, at + 1)
        if text[at] == ",":
            at = self._space(text, at + 1, at)
        key, end = string_at(text, at)
        end = self._space(text, end, at)
        if text[end] != ":":
            raise Broken(at)
        end = self._space(text, end + 1, at)
        self._key = key
        self._expected = self._value_of(text[end])
        return end

    def _value_of(self, first: str) -> Any:
        """What reads the value of the key, by the key and the value's first character."""
        call = self._opened.call
        if self._key in call.refused_keys and not self._started:
            raise Broken
        if call.keyed and self._level == 1 and not self._name:
            self._named(self._key)
            return self._argument_value(first)
        if self._key in call.argument_keys and self._arguments is None and self._quoted is None:
            return self._argument_value(first)
        if first == '"' and not self._name and self._key in call.name_keys:
            return self._name_value
        if first == '"' and not self._id and self._key in call.id_keys:
            return self._id_value
        if first == "{" and not self._name and self._arguments is None:
            self._level += 1
            return self._wrapped
        self._skipped = JsonScan()
        return self._skip

    def _argument_value(self, first: str) -> Any:
        if first == "{":
            self._arguments = Arguments(self._opened.sink)
            self._begin()
            return self._read_arguments
        if first == '"':
            self._quoted = []
            self._skipped = JsonScan()
            return self._read_quoted
        self._odd = self._odd or first != "n"
        self._skipped = JsonScan()
        return self._skip

    def _wrapped(self, text: str, at: int) -> int:
        self._expected = self._member
        return at + 1

    def _name_value(self, text: str, at: int) -> int:
        name, end = string_at(text, at)
        self._named(name)
        self._begin()
        self._expected = self._member
        return end

    def _id_value(self, text: str, at: int) -> int:
        self._id, end = string_at(text, at)
        self._expected = self._member
        return end

    def _skip(self, text: str, at: int) -> int:
        """A value that means nothing to us."""
        if self._skipped is None:
            raise Broken(at)
        end = self._skipped.read(text, at)
        self._skipped.out.clear()
        return self._passed(self._skipped, end)

    def _passed(self, scan: JsonScan, end: int) -> int:
        if scan.bad:
            raise Broken(end)
        if not scan.done:
            raise Wait(end)
        self._expected = self._member
        return end

    def _read_quoted(self, text: str, at: int) -> int:
        """Arguments that are a string with JSON in it."""
        if self._skipped is None or self._quoted is None:
            raise Broken(at)
        end = self._skipped.read(text, at)
        self._quoted.append(self._skipped.take())
        return self._passed(self._skipped, end)

    def _read_arguments(self, text: str, at: int) -> int:
        if self._arguments is None:
            raise Broken(at)
        end = self._arguments.read(text, at)
        if self._arguments.broken:
            raise Broken(end)
        if not self._arguments.done:
            raise Wait(end)
        self._expected = self._member
        return end

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _named(self, name: str) -> None:
        known = name in self._opened.tools
        if not name or (self._opened.call.weak and not known and not self._started):
            raise Broken
        self._name = name

    def _begin(self) -> None:
        """Begin the call once its name and its arguments have been met."""
        if self._name and self._index < 0 and self._arguments is not None:
            self._index = self._start()
            self._arguments.begin(self._index, self._opened.tools.get(self._name))

    def _start(self) -> int:
        self._started = True
        return self._opened.sink.start(self._name, self._id)

    def _closed(self, text: str, end: int) -> int:
        """An object has closed: a wrapper, or the envelope."""
        self._level -= 1
        if self._level:
            return end
        if not self._name:
            raise Broken(end)
        self._settle()
        self._reset()  # what follows, broken or not, is nothing of this call
        self._expected = self._item if self._listed else self._another
        return end

    def _settle(self) -> None:
        if self._arguments is not None:
            self._begin()
            self._arguments.end()
            return
        if self._odd and not self._quoted:
            self._opened.sink.cut(self._start(), "the arguments are no JSON object")
            return
        quoted = json.loads("".join(self._quoted)) if self._quoted else "{}"
        arguments = Arguments(self._opened.sink)
        arguments.begin(self._start(), self._opened.tools.get(self._name))
        quoted = quoted.strip() or "{}"
        end = arguments.read(quoted, 0) if quoted.startswith("{") else 0
        if arguments.done and end == len(quoted):
            arguments.end()
        else:
            arguments.repair(quoted[end:])

    def _another(self, text: str, at: int) -> int:
        """Behind an envelope that stands in no list: perhaps one more."""
        found = _BETWEEN.match(text, at)
        end = found.end() if found else at
        if end - at >= MAX_STRING:
            return self._over(text, at)
        if end == len(text):
            raise Wait(at)
        if text[end] == "{":
            return self._item(text, end)
        return self._over(text, at)

    def _over(self, text: str, at: int) -> int:
        if self._fenced:
            self._expected = self._fence_end
            return at
        self.state = "done" if self._started else "refused"
        return at

    def _fence_end(self, text: str, at: int) -> int:
        at = self._space(text, at)
        if "```".startswith(text[at : at + 3]) and len(text) - at < 3:
            raise Wait(at)
        self.state = "done" if self._started else "refused"
        return at + 3 if text.startswith("```", at) else at

    # ── what is no strict JSON ───────────────────────────────────────────────────────────────────────────────────────

    def _break(self, text: str, at: int) -> int:
        refused = self._key in self._opened.call.refused_keys
        if not self._started and (refused or (self._opened.call.weak and not self._opened.call.closers)):
            self.state = "refused"
            return at
        if self._started and self._index < 0 and not self._opened.call.closers:
            self.state = "done"
            return at
        self._rest = Until(self._marks)
        return self._read_rest(text, at, self._rest)

    def _read_rest(self, text: str, at: int, rest: Until) -> int:
        at, mark = rest.read(text, at)
        if mark or rest.size > MAX_SIZE:
            self._mend(rest.text, cut=not mark)
        return at

    def _mend(self, rest: str, *, cut: bool) -> None:
        """The end of a call that is no strict JSON: repaired as a whole, refused, or cut."""
        self.state = "done"
        if self._index >= 0 and self._arguments is not None:
            if cut:
                self._arguments.cut("the text ended inside the arguments")
            else:
                self._arguments.repair(rest if self._arguments.broken else "")
            return
        raw = ("".join(self._raw) + rest).lstrip()
        calls = [] if cut else mended_calls(raw, self._opened)
        if not calls:
            self.state = "done" if self._started else "refused"
            self._opened.sink.text(raw if self._started else "")
        for call in calls:
            self._started = True
            index = self._opened.sink.start(call.name, call.id)
            self._opened.sink.arguments(index, json.dumps(call.arguments, ensure_ascii=False))
            self._opened.sink.repaired(index, raw, "the call was no JSON")
            self._opened.sink.end(index)

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        at = self.read(text, at)
        if self.state != "open":
            return at
        if self._rest is not None:
            rest = self._rest.text + text[at:]
            raw = (self._arguments.raw if self._arguments and self._index >= 0 else "".join(self._raw)) + rest
            # The brackets of the envelope itself close behind the arguments.
            whole = is_balanced(raw) or (self._index >= 0 and raw.count("{") + self._level == raw.count("}"))
            if self._index >= 0 and self._arguments is not None and self._arguments.done:
                whole = rest.count("}") - rest.count("{") >= self._level
            self._mend(rest, cut=cut or not whole)
            return at if self.is_refused else len(text)
        return self._finish_open(text, at)

    def _finish_open(self, text: str, at: int) -> int:
        """The text ended where strict JSON was still being read, or between two calls."""
        between = self._expected in (self._another, self._fence_end)
        listed_end = self._started and self._listed and self._expected == self._item
        if between or listed_end:
            self.state = "done"
            return at
        if self._index >= 0 and self._arguments is not None:
            self.state = "done"
            self._arguments.cut(f"the text ended inside the {'call' if self._arguments.done else 'arguments'}")
            return len(text)
        if self._name and not self._opened.call.weak:
            self.state = "done"
            self._opened.sink.cut(self._start(), "the text ended before the arguments")
            return len(text)
        self.state = "done" if self._started else "refused"
        return at
