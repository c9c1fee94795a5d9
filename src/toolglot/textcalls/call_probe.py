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
"""Characters after a mark within which it must be clear what it opens."""
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
        """Return what the mark at `at` opens. The first meaning that is not ruled out decides. `last`: nothing follows;
        `refused` are the calls that were tried here without success."""
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
        """A section counts if a call, or another section, follows."""
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
