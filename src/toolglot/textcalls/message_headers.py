"""Read the headers of messages, which determine how to read their bodies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from toolglot.textcalls.grammar import Format, Header, Messages
from toolglot.textcalls.headers import read_header
from toolglot.textcalls.marks import mark_set


class RoutedMessage(Struct, frozen=True):
    """A message's body begins at `end`; its kind, and the tool's name for a call."""

    to: Literal["text", "reasoning", "call", "calls"]
    end: int
    name: str = ""


MessageRouting: TypeAlias = RoutedMessage | Literal["no", "wait"]


def begins_with_message(messages: Messages | None, text: str, at: int, *, last: bool) -> bool | None:
    """Tell whether the answer begins with the header of a message that has no opener. None: more text decides."""
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
    """Tell whether a header lacks its end and runs into the next message. Then it contains the end of a message, or an
    opener that cannot follow its own: in a header each occurs once, in order."""
    first = next((number for number, opener in enumerate(messages.openers, 1) if text.endswith(opener, 0, at)), 0)
    allowed = messages.openers[first:]
    marks = (*messages.openers, *messages.closers)
    return any(mark not in allowed or said.count(mark) > 1 for mark in marks if mark in said)
