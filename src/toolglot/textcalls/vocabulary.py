"""The meanings of a format's marks, for one request's tools."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from toolglot.textcalls.grammar import CallSyntax, Format
from toolglot.textcalls.line_state import FENCES
from toolglot.textcalls.marks import MarkSet


class MarkMeaning(Struct, frozen=True):
    """One possible meaning of a mark. `name` is the tool's, if the mark itself names it."""

    kind: Literal["call", "section", "think", "unthink", "drop", "message", "fence", "closer", "over"]
    call: CallSyntax | None = None
    name: str = ""


class Vocabulary:
    """A format's marks and their meanings, in the order in which they are tried."""

    __slots__ = (
        "calls",
        "followers",
        "format",
        "in_message",
        "in_reasoning",
        "kinds",
        "marks",
        "meanings",
        "section_closers",
        "sure",
        "thinking_ends",
    )

    def __init__(self, text_format: Format, names: tuple[str, ...], ends_at: tuple[str, ...]) -> None:
        self.format = text_format
        self.meanings: dict[str, list[MarkMeaning]] = {}
        calls = [made for call in text_format.calls for made in _expand_for_tools(call, names)]
        for name, call in calls:
            for opener in call.header.openers:
                self._add(opener, MarkMeaning("call", call, name))
        for opener, _ in text_format.sections:
            self._add(opener, MarkMeaning("section"))
        for opener, closer in text_format.thinking:
            self._add(opener, MarkMeaning("think"))
            self._add(closer, MarkMeaning("unthink"))
        for dropped in text_format.dropped:
            self._add(dropped, MarkMeaning("drop"))
        for opener in text_format.messages.openers if text_format.messages else ():
            self._add(opener, MarkMeaning("message"))
        for fence in FENCES:
            self._add(fence, MarkMeaning("fence"))
        self.section_closers = tuple(closer for _, closer in text_format.sections)
        if text_format.messages:
            self.section_closers += text_format.messages.closers
        # Marks that may close a call: dropped after one, text elsewhere.
        closers = {closer for _, call in calls for closer in call.closers} | set(self.section_closers)
        for closer in sorted(closers):
            self._add(closer, MarkMeaning("closer"))
        for mark in ends_at:
            self._add(mark, MarkMeaning("over"))
        self.kinds = {mark: frozenset(meaning.kind for meaning in means) for mark, means in self.meanings.items()}
        self.sure = {line_start: self._sure_marks(line_start) for line_start in (False, True)}
        self.marks = MarkSet(self.meanings)
        openers = [opener for _, call in calls if not call.weak for opener in call.header.openers]
        sections = [mark for pair in text_format.sections for mark in pair]
        messages = [*text_format.messages.openers, *text_format.messages.closers] if text_format.messages else []
        self.followers = tuple(mark for mark in (*openers, *sections, *messages) if mark)
        self.followers += tuple(mark for mark in ends_at if not is_word(mark))
        self.calls = MarkSet(
            mark
            for mark, means in self.meanings.items()
            if any(meaning.kind in ("call", "section") for meaning in means)
        )
        self.in_message = MarkSet(messages)
        self.thinking_ends = tuple(closer for _, closer in text_format.thinking)
        self.in_reasoning = MarkSet((*self.thinking_ends, *openers, *(opener for opener, _ in text_format.sections)))

    def _sure_marks(self, line_start: bool) -> frozenset[str]:
        """Return the marks that open calls and nothing else, at the beginning of a line or within one."""
        return frozenset(
            mark
            for mark, means in self.meanings.items()
            if any(_is_sure(meaning, line_start=line_start) for meaning in means)
        )

    def _add(self, mark: str, meaning: MarkMeaning) -> None:
        if mark:
            self.meanings.setdefault(mark, []).append(meaning)


def _expand_for_tools(call: CallSyntax, names: tuple[str, ...]) -> list[tuple[str, CallSyntax]]:
    """Return the call itself; if tools' names are the tags, one for each tool."""
    if not call.tool_tags:
        return [("", call)]
    return [
        (
            name,
            replace(
                call,
                header=replace(
                    call.header, openers=tuple(opener.replace("{name}", name) for opener in call.header.openers)
                ),
                closers=tuple(closer.replace("{name}", name) for closer in call.closers),
            ),
        )
        for name in names
    ]


@lru_cache(maxsize=64)
def _cached_vocabulary(text_format: Format, names: tuple[str, ...], ends_at: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(text_format, names, ends_at)


def vocabulary_of(text_format: Format, names: tuple[str, ...], ends_at: tuple[str, ...] = ()) -> Vocabulary:
    """Return the vocabulary, cached per format, and per set of tools if their names are marks."""
    return _cached_vocabulary(text_format, names if any(call.tool_tags for call in text_format.calls) else (), ends_at)


def is_word(mark: str) -> bool:
    """Return whether a mark is an ordinary word, so that it counts only at the beginning of a line."""
    return mark[:1].isalnum()


def _is_sure(meaning: MarkMeaning, *, line_start: bool) -> bool:
    """Return whether it would have opened a call here, or a section of calls, and nothing else."""
    call = meaning.call
    if call is None:
        return meaning.kind == "section"
    return not call.weak and (line_start or not (call.line_start or is_word(call.header.openers[0].strip())))
