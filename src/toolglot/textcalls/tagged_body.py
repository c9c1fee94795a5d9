"""A body of kind `tagged`: one tag per parameter, its value as raw text, its type from the schema.

Strings are passed on while they are written, other values when their closing tag is read. A closing tag counts only if
a valid continuation follows it (another parameter, the end of the call, the end of the text), so a value may contain
its own closing tag.
"""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Final

from toolglot.textcalls.arguments import has_no_parameters, lacks_required
from toolglot.textcalls.body import BodyState, OpenedCall
from toolglot.textcalls.events import RawText
from toolglot.textcalls.grammar import Parameter
from toolglot.textcalls.headers import HeaderMatch, HeaderVerdict, header_at, read_header
from toolglot.textcalls.marks import MarkSet, mark_set
from toolglot.textcalls.parameter_value import ParameterValue
from toolglot.textcalls.schemas import known_keys, value_schema

MAX_SPACE: Final = 1000
"""Maximum white space after a closing tag before the next text."""
CDATA: Final = "<![CDATA["
_SPACE = re.compile(r"[ \t\r\n]*+")


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class TaggedBody:
    """Reads the parameters of one call."""

    __slots__ = (
        "_before_opener",
        "_behind_closer",
        "_call_ends",
        "_closers",
        "_ends",
        "_followers",
        "_from_opener",
        "_given",
        "_index",
        "_opened",
        "_parameter",
        "_raw",
        "_schema",
        "_value",
        "_value_ends",
        "_wrong",
        "state",
    )

    def __init__(self, opened: OpenedCall) -> None:
        if opened.call.parameter is None:
            raise ValueError("a tagged call needs a parameter")
        self.state: BodyState = "open"
        self._opened = opened
        self._parameter: Parameter = opened.call.parameter
        name = opened.name
        self._closers = mark_set(tuple(closer.replace("{name}", name) for closer in opened.call.closers))
        # If the value's closing tag is missing, the line break before the call's closing tag is not part of the value.
        line_breaks = ("", "\n") if self._parameter.spacing == "exact" else ("",)
        self._call_ends = tuple(f"{line_break}{mark}" for line_break in line_breaks for mark in self._closers.literals)
        self._followers = mark_set(opened.followers)
        self._schema = opened.tools.get(name)
        self._given: set[str] = set()
        self._index = -1
        self._value: ParameterValue | None = None
        self._value_ends: tuple[str, ...] = ()
        self._ends: MarkSet = mark_set(())
        self._raw = RawText()
        self._before_opener = ""  # the end of the value's text, in which the mark of a call may have begun
        self._from_opener: StringIO | None = None  # the value's text from the first such mark on
        self._behind_closer: list[str] | None = None  # the value's text after a closer that did not end it
        self._wrong = ""  # why the call cannot be run, regardless of the rest

    def read(self, text: str, at: int) -> int:
        start = at
        while self.state == "open":
            end = self._between(text, at) if self._value is None else self._read_value(text, at, self._value)
            if end < 0:
                self._raw.add(text, start, ~end)
                return ~end
            at = end
            if self._wrong:
                self._raw.add(text, start, at)
                start = at
        return at

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        at = self.read(text, at)
        if self.state != "open":
            return at
        self.state = "done"
        self._raw.add(text, at, len(text))
        if self._value is not None:
            return self._finish_value(text, at, self._value, cut=cut)
        rest = text[at:].strip()
        closing = self._closers.begins(rest, 0) and header_at(self._parameter.header, rest, 0) == "no"
        if not self._given and not closing and (rest or self._opened.call.weak):
            self.state = "refused"
            return at
        self._begin()
        self._finish_call(cut=cut, whole=closing or (not rest and self._has_all_required()))
        return len(text)

    def _has_all_required(self) -> bool:
        """Return whether all required parameters are present, if a stop string removed the end of the call."""
        return not lacks_required(self._schema, self._given) and (bool(self._given) or has_no_parameters(self._schema))

    def _finish_call(self, *, cut: bool, whole: bool) -> None:
        if cut or not whole:
            self._cut("the text ended inside the call")
        else:
            self._end()

    def _finish_value(self, text: str, at: int, value: ParameterValue, *, cut: bool) -> int:
        """Finish a value if the text ended inside it or directly after its closing tag."""
        rest = text[at:]
        if mark_set(self._call_ends).match(rest, 0) and self._closed_call(rest, 0) == "wait":
            # The closing tag of the last parameter is missing, but the call's is present.
            self._close_value(value)
            self._finish_call(cut=cut, whole=self._has_all_required())
            return len(text)
        for closer in self._value_ends:
            found = rest.rfind(closer)
            if found >= 0 and not rest[found + len(closer) :].strip():
                value.add(rest[:found])
                self._close_value(value)
                self._finish_call(cut=cut, whole=self._has_all_required())
                return len(text)
        self._cut("the text ended inside a parameter")
        return len(text)

    def _cut(self, why: str) -> None:
        self._opened.sink.cut(self._index, why, self._raw.text.strip())

    # ── between parameters ───────────────────────────────────────────────────────────────────────────────────────────

    def _between(self, text: str, at: int) -> int:
        """Read the text between two parameters. Returns `~at` if more text is needed."""
        at = _skip_space(text, at)
        if at == len(text):
            return ~at
        closer = self._closers.match(text, at)
        if closer:
            self._begin()
            self._end()
            return at + len(closer)
        header = self._header_at(text, at)
        if isinstance(header, HeaderMatch):
            return self._open_value(header)
        if header == "wait" or self._closers.begins(text, at) or self._followers.begins(text, at):
            return ~at
        if self._followers.match(text, at):
            return self._implied_end(at)
        return self._junk(text, at)

    def _header_at(self, text: str, at: int) -> HeaderVerdict:
        header = header_at(self._parameter.header, text, at)
        if (
            isinstance(header, HeaderMatch)
            and self._parameter.declared_only
            and not self._declares(header.groups["key"])
        ):
            return "no"
        return header

    def _declares(self, key: str) -> bool:
        keys = known_keys(self._schema)
        return not keys or key in keys

    def _implied_end(self, at: int) -> int:
        """Find the next call, or the end of the section, where this call should have been closed."""
        if not self._given and self._opened.call.weak:
            self.state = "refused"
            return at
        self._begin()
        self._end()
        return at

    def _junk(self, text: str, at: int) -> int:
        """Handle text outside parameters. Before the first one, it rules out a call; later, it is skipped."""
        if not self._given:
            self.state = "refused"
            return at
        following = text.find("<", at + 1)
        return following if following > 0 else len(text)

    def _open_value(self, header: HeaderMatch) -> int:
        self._begin()
        key = header.groups["key"]
        schema = value_schema(self._schema, key)
        first = not self._given
        if key in self._given:
            self._wrong = self._wrong or f"{key} is given twice"
        self._given.add(key)
        self._opened.sink.arguments(self._index, f"{'{' if first else ', '}{json.dumps(key, ensure_ascii=False)}: ")
        self._value = ParameterValue(
            self._opened.sink, self._index, self._parameter, key, schema, header.groups.get("type")
        )
        self._behind_closer = None
        self._before_opener, self._from_opener = "", None
        self._value_ends = tuple(closer.replace("{key}", key) for closer in self._parameter.closers)
        self._ends = mark_set((*self._value_ends, *self._implied_ends(), *self._call_ends))
        return header.end

    def _begin(self) -> None:
        if self._index < 0:
            self._index = self._opened.sink.start(self._opened.name, self._opened.id)

    def _end(self) -> None:
        self.state = "done"
        if self._wrong:
            self._cut(self._wrong)
            return
        self._opened.sink.arguments(self._index, "}" if self._given else "{}")
        self._opened.sink.end(self._index)

    # ── inside a value ───────────────────────────────────────────────────────────────────────────────────────────────

    def _read_value(self, text: str, at: int, value: ParameterValue) -> int:
        """Continue inside a value. Returns `~at` if more text is needed."""
        if self._parameter.cdata and value.empty and not self._value_ends[0].startswith("]]>"):
            if CDATA.startswith(text[at : at + len(CDATA)]) and len(text) - at < len(CDATA):
                return ~at
            if text.startswith(CDATA, at):
                at += len(CDATA)
                self._value_ends = tuple(f"]]>{closer}" for closer in self._value_ends)
                self._ends = mark_set(self._value_ends)
        ends = self._ends
        scan = at
        closed = None if self._behind_closer is None else at
        while True:
            end, mark = ends.next(text, scan)
            verdict = self._ends_here(text, end, mark) if mark else "wait"
            if verdict == "no":
                closed = end if closed is None and mark in self._value_ends else closed
                scan = end + 1
                continue
            piece = text[at:end]
            value.add(piece)
            self._keep_from_opener(piece)
            if closed is not None:
                self._behind_closer = self._behind_closer or []
                self._behind_closer.append(text[closed:end])
            if verdict == "wait":
                return ~end
            self._close_value(value)
            return verdict.end

    def _implied_ends(self) -> tuple[str, ...]:
        return tuple(f"\n{opener}" for opener in self._parameter.header.openers) if self._parameter.implied else ()

    def _ends_here(self, text: str, at: int, mark: str) -> HeaderVerdict:
        """Return whether the mark at `at` ends the value, which depends on the text after it."""
        if mark in self._call_ends and mark not in self._value_ends:
            return self._closed_call(text, at)
        if mark not in self._value_ends:
            header = self._header_at(text, at + 1)
            if not isinstance(header, HeaderMatch):
                return header
            return HeaderMatch({}, at) if self._may_follow(header.groups["key"]) else "no"
        end = at + len(mark)
        after = _skip_space(text, end)
        if after - end >= MAX_SPACE:
            return HeaderMatch({}, end)
        if after == len(text):
            return "wait"
        if self._closers.match(text, after) or self._followers.match(text, after):
            return HeaderMatch({}, end)
        header = self._header_at(text, after)
        if isinstance(header, HeaderMatch):
            return HeaderMatch({}, end)
        if header == "wait" or self._closers.begins(text, after) or self._followers.begins(text, after):
            return "wait"
        return "no"

    def _may_follow(self, key: str) -> bool:
        return key in (known_keys(self._schema) or ()) and key not in self._given

    def _closed_call(self, text: str, at: int) -> HeaderVerdict:
        """Return whether the call's closer at `at` also ends the value, whose own closer is missing: another call must
        follow, or only closers up to the end of the text (`wait`), if the value is text."""
        if self._value is not None and self._value.is_scalar:
            return HeaderMatch({}, at)
        end = _skip_space(text, at + len(mark_set(self._call_ends).match(text, at)))
        follower = self._followers.match(text, end)
        if follower.startswith(("</", "<|close")):
            end = _skip_space(text, end + len(follower))
            follower = self._followers.match(text, end)
        if end - at >= MAX_SPACE:
            return "no"
        if end == len(text) or self._followers.begins(text, end):
            return "wait"
        return HeaderMatch({}, at) if follower else "no"

    def _close_value(self, value: ParameterValue) -> None:
        value.close()
        self._value = None
        behind = "" if self._behind_closer is None else "".join(self._behind_closer)
        if (
            self._holds_another_call(behind)
            or self._holds_foreign_parameter(behind)
            or (
                self._from_opener is not None
                and self._holds_another_call(self._from_opener.getvalue(), with_parameter=True)
            )
        ):
            self._wrong = self._wrong or "a value that may have ended earlier contains another call"

    def _keep_from_opener(self, piece: str) -> None:
        """Keep the value's text from the first mark of a call on. Most values have none, so nothing is kept."""
        if self._from_opener is not None:
            self._from_opener.write(piece)
            return
        openers, text = mark_set(self._opened.call.header.openers), self._before_opener + piece
        found = openers.search(text, 0)
        if found is not None:
            self._from_opener = StringIO()
            self._from_opener.write(text[found.start() :])
        self._before_opener = text[max(len(text) - openers.longest, 0) :]

    def _holds_another_call(self, text: str, *, with_parameter: bool = False) -> bool:
        """Return whether a text contains the header of a call of a declared tool, possibly with a parameter's header
        after it. All closers between the two calls may be broken."""
        header = self._opened.call.header
        openers, at = mark_set(header.openers), 0
        while (found := openers.search(text, at)) is not None:
            at = found.end()
            read = read_header(header, text, at)
            if not isinstance(read, HeaderMatch) or read.groups.get("name", "") not in self._opened.tools:
                continue
            behind = _skip_space(text, read.end)
            if not with_parameter or isinstance(header_at(self._parameter.header, text, behind), HeaderMatch):
                return True
        return False

    def _holds_foreign_parameter(self, text: str) -> bool:
        """Return whether a text contains the header of a parameter that another tool has and this one does not: the
        header of its call may be broken."""
        own = known_keys(self._schema)
        if not text or not own:
            return False
        others = {key for schema in self._opened.tools.values() for key in known_keys(schema) or ()}
        header = self._parameter.header
        openers, at = mark_set(header.openers), 0
        while (found := openers.search(text, at)) is not None:
            at = found.end()
            read = read_header(header, text, at)
            if isinstance(read, HeaderMatch) and (key := read.groups["key"]) not in own and key in others:
                return True
        return False
