"""Strings that are read as a whole before anything is passed on: the keys and names of an envelope."""

from __future__ import annotations

import json
import re
from typing import Final

MAX_STRING: Final = 1000
"""Keys and names are not longer than this."""

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')

_SPACE = re.compile(r"[ \t\r\n]*+")
_FENCE = re.compile(r"```[a-zA-Z]{0,20}+[ \t]{0,20}+\r?\n?")


class Wait(Exception):  # noqa: N818 - no error: more text is needed
    """What stands at the end of the text may go on."""


class Broken(Exception):  # noqa: N818 - no error: what follows is read another way
    """This is no strict JSON, or no call."""


def behind_space(text: str, at: int, *, back: int | None = None) -> int:
    """Behind white space. Where the text ends there, reading goes on there when there is more; with `back`, it goes on
    at that place, and so much white space is not passed over that this costs anything."""
    found = _SPACE.match(text, at) if back is None else _SPACE.match(text, at, at + MAX_STRING)
    end = found.end() if found else at
    if end == len(text):
        raise Wait(end if back is None else back)
    return end


def behind_fence(text: str, at: int) -> int:
    """Behind the line that opens a code block."""
    found = _FENCE.match(text, at)
    if found is None and not "```".startswith(text[at : at + 3]):
        raise Broken(at)
    if found is None or found.end() == len(text):
        raise Wait(at)
    return found.end()


def string_at(text: str, at: int, *, back: int | None = None) -> tuple[str, int]:
    """The string that stands at `at`, and where it ends. Where it is not whole, reading goes on at `back` later."""
    found = _STRING.match(text, at)
    if found is None:
        if text[at] == '"' and len(text) - at < MAX_STRING:
            raise Wait(at if back is None else back)
        raise Broken(at)
    if found.end() - at > MAX_STRING:
        raise Broken(at)
    return str(json.loads(found.group())), found.end()
