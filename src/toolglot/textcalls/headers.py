"""Read the header of a call or a parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from toolglot.textcalls.grammar import Format, Header, Messages
from toolglot.textcalls.marks import MarkSet, mark_set


class HeaderMatch(Struct, frozen=True):
    """A parsed header: its groups and its end."""

    groups: dict[str, str]
    end: int


HeaderVerdict: TypeAlias = HeaderMatch | Literal["no", "wait"]
"""`wait`: more text is needed."""


@lru_cache(maxsize=1024)
def _compile(ends: tuple[str, ...], allowed: str, shape: str) -> tuple[MarkSet, re.Pattern[str], re.Pattern[str]]:
    return mark_set(ends), re.compile(f"{allowed}*", re.DOTALL), re.compile(shape, re.DOTALL)


def read_header(header: Header, text: str, at: int) -> HeaderVerdict:
    """Read the header that continues at `at`, after its opener."""
    if not header.ends:
        return HeaderMatch({}, at)
    ends, allowed, shape = _compile(header.ends, header.allowed, header.shape)
    # Search only as far as a header may extend: a text full of openers would take quadratic time otherwise.
    window = at + header.limit + ends.longest + 1
    found = ends.search(text, at, window)
    end = found.start() if found else ends.hold(text, at) if len(text) <= window else window
    said = text[at:end]
    if len(said) > header.limit or not allowed.fullmatch(said):
        return "no"
    if found is None or ends.begins(text, end):
        return "wait"
    shaped = shape.fullmatch(said)
    if shaped is None:
        return "no"
    # One meaning may have several groups, for several ways to quote it: `name`, `name_single`, `name_bare`.
    groups = {name.partition("_")[0]: group for name, group in shaped.groupdict().items() if group is not None}
    return HeaderMatch(groups, end if header.keeps_end else found.end())


def header_at(header: Header, text: str, at: int) -> HeaderVerdict:
    """Read the header, including its opener, at `at`."""
    openers = mark_set(header.openers)
    opener = openers.match(text, at)
    if not opener:
        return "wait" if openers.begins(text, at) else "no"
    return read_header(header, text, at + len(opener))


class RoutedMessage(Struct, frozen=True):
    """A message's body begins at `end`; its kind, and the tool's name for a call."""

    to: Literal["text", "reasoning", "call", "calls"]
    end: int
    name: str = ""


MessageRouting: TypeAlias = RoutedMessage | Literal["no", "wait"]


def begins_with_message(messages: Messages | None, text: str, at: int, *, last: bool) -> bool | None:
    """Return whether the answer begins with the header of a message that has no opener. None: more text is needed."""
    if messages is None or not messages.at_start:
        return False
    starts = mark_set(tuple(start for start in messages.at_start if start))
    if at == len(text) or (not last and starts.begins(text, at)):
        return None
    return bool(starts.match(text, at)) or "" in messages.at_start


@lru_cache(maxsize=64)
def _header(ends: tuple[str, ...]) -> Header:
    return Header((), ends, r"(?P<said>.*)", allowed=r"[^\n]", limit=500)


def read_message(text_format: Format, tools: Mapping[str, Any], text: str, at: int) -> MessageRouting:
    """Read the header of a message that continues at `at`, after its opener."""
    messages = text_format.messages
    if messages is None:
        return "no"
    read = read_header(_header(messages.ends), text, at)
    if isinstance(read, str):
        return read
    if _spans_messages(messages, text, at, read.groups["said"]):
        return "no"
    for route in messages.routes:
        found = re.search(route.shape, read.groups["said"])
        if found is None:
            continue
        name = found.groupdict().get("name", "")
        if route.to == "call" and text_format.calls[0].weak and name not in tools:
            continue
        return RoutedMessage(route.to, read.end, name)
    return "no"


def _spans_messages(messages: Messages, text: str, at: int, said: str) -> bool:
    """Return whether a header lacks its end and runs into the next message. Then it contains the end of a message, or
    an opener that cannot follow its own: in a header each occurs once, in order."""
    first = next((number for number, opener in enumerate(messages.openers, 1) if text.endswith(opener, 0, at)), 0)
    allowed = messages.openers[first:]
    marks = (*messages.openers, *messages.closers)
    return any(mark not in allowed or said.count(mark) > 1 for mark in marks if mark in said)
