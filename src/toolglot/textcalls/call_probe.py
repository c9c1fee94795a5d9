"""Probe whether a mark opens a call: its header must parse, and its body must begin as one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from toolglot.textcalls.grammar import CallSyntax
from toolglot.textcalls.headers import read_header
from toolglot.textcalls.vocabulary import MarkMeaning, Vocabulary

MAX_WAIT: Final = 2000
"""Maximum characters after a mark until its meaning must be clear."""
MAX_SECTIONS: Final = 3
_SPACE = re.compile(r"[ \t\r\n]*+")


class FoundCall(Struct, frozen=True):
    """A call that a mark has opened; its body begins at `at`."""

    call: CallSyntax
    name: str
    id: str
    at: int


ProbeOutcome: TypeAlias = FoundCall | Literal["no", "wait"]


def skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class CallProbe:
    """Probes marks with one vocabulary and one request's tools."""

    __slots__ = ("_tools", "_vocabulary", "said")

    def __init__(self, vocabulary: Vocabulary, tools: Mapping[str, Any]) -> None:
        self._vocabulary = vocabulary
        self._tools = tools
        self.said = False  # part of the answer came before: text other than white space, or a call

    def probe(
        self,
        text: str,
        at: int,
        mark: str,
        *,
        line_start: bool,
        last: bool = False,
        refused: Sequence[CallSyntax] = (),
        depth: int = 0,
    ) -> ProbeOutcome:
        """Return the call, section or message that the mark at `at` opens: the first meaning that is not ruled out.
        `last`: the input ends here. `refused` are the calls that were tried here without success.
        """
        for meaning in self._vocabulary.meanings[mark]:
            if meaning.kind == "call" and meaning.call not in refused:
                outcome = self._probe_call(meaning, text, at, mark, line_start=line_start)
            elif meaning.kind == "section" and depth < MAX_SECTIONS:
                outcome = self._probe_section(text, at + len(mark), last=last, refused=refused, depth=depth)
            else:
                continue
            if outcome == "no" or (outcome == "wait" and (last or len(text) - at > MAX_WAIT)):
                continue
            return outcome
        return "no"

    def _probe_section(
        self, text: str, at: int, *, last: bool, refused: Sequence[CallSyntax], depth: int
    ) -> ProbeOutcome:
        """Probe for a section. It counts if a call or another section follows."""
        start, at = at, skip_space(text, at)
        if at - start > MAX_WAIT:
            return "no"
        calls = self._vocabulary.calls
        if at == len(text) or calls.begins(text, at):
            return "wait"
        mark = calls.match(text, at)
        return (
            self.probe(text, at, mark, line_start=True, last=last, refused=refused, depth=depth + 1) if mark else "no"
        )

    def _probe_call(self, meaning: MarkMeaning, text: str, at: int, mark: str, *, line_start: bool) -> ProbeOutcome:
        call = meaning.call
        if call is None or (call.line_start and not line_start) or (call.whole and self.said):
            return "no"
        header = read_header(call.header, text, at if call.header.keeps_opener else at + len(mark))
        if isinstance(header, str):
            return header
        name = meaning.name or header.groups.get("name", "").strip()
        if call.weak and name and name not in self._tools:
            return "no"
        if call.header.ends and not name and call.body != "envelope":
            return "no"
        if call.first:
            first = skip_space(text, header.end)
            if first - at > MAX_WAIT:
                return "no"
            if first == len(text):
                return "wait"
            if text[first] not in call.first:
                return "no"
        return FoundCall(call, name, header.groups.get("id", ""), header.end)


MAX_REREAD: Final = 1
"""Maximum repeated reads before text that is not a call is passed on as a whole."""


class CallAttempts:
    """The text since a call was opened, until it has really begun, and the failed attempts."""

    __slots__ = ("_call", "_held", "_refused", "_reread", "_start")

    def __init__(self) -> None:
        self._call: CallSyntax | None = None
        self._held: list[str] | None = None
        self._start = 0
        self._refused: dict[int, tuple[CallSyntax, ...]] = {}  # at the last offset only
        self._reread = 0

    def open(self, call: CallSyntax, start: int, text: str) -> None:
        """Record that `text` opens a call at the offset `start` of the answer."""
        self._call, self._start, self._held = call, start, [text]

    def read(self, text: str, at: int, end: int, *, begun: bool) -> None:
        """Record that the body has read from `at` to `end`. `begun`: the call has begun and cannot be refused."""
        if begun:
            self._held = None
        elif self._held is not None:
            self._held.append(text[at:end])

    def refused_at(self, offset: int) -> tuple[CallSyntax, ...]:
        return self._refused.get(offset, ())

    def refuse(self) -> tuple[str, int, bool]:
        """Refuse the call. Returns its text, the start of the text, and whether the limit for repeated reading is
        exceeded, so that all of it is text.
        """
        held = "".join(self._held or ())
        self._held = None
        before = self.refused_at(self._start)
        self._refused = {self._start: (*before, self._call) if self._call else before}
        self._reread += len(held)
        # Many openers, each read to the end without success, would take quadratic time.
        return held, self._start, self._reread > MAX_REREAD * (self._start + len(held)) + 65536
