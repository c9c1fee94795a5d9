"""Read strings that must be complete before any output: the keys and names of an envelope."""

from __future__ import annotations

import json
import re
from typing import Final

MAX_STRING: Final = 1000
"""Keys and names are not longer than this."""

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(?!))*+"')

_SPACE = re.compile(r"[ \t\r\n]*+")
_FENCE = re.compile(r"```[a-zA-Z]{0,20}+[ \t]{0,20}+\r?\n?")


class NeedMoreText(Exception):  # noqa: N818 - no error: more text is needed
    """The text is incomplete and may continue."""


class NotStrictJson(Exception):  # noqa: N818 - no error: what follows is read another way
    """The text is not strict JSON, or not a call."""


def skip_space(text: str, at: int, *, back: int | None = None) -> int:
    """Return the position after white space. If the text ends there, reading resumes there when more arrives; with
    `back`, it resumes at that position, and the amount of skipped white space is limited to keep this cheap."""
    found = _SPACE.match(text, at) if back is None else _SPACE.match(text, at, at + MAX_STRING)
    end = found.end() if found else at
    if end == len(text):
        raise NeedMoreText(end if back is None else back)
    return end


def skip_fence_line(text: str, at: int) -> int:
    """Return the position after the line that opens a code block."""
    found = _FENCE.match(text, at)
    if found is None and not "```".startswith(text[at : at + 3]):
        raise NotStrictJson(at)
    if found is None or found.end() == len(text):
        raise NeedMoreText(at)
    return found.end()


def read_string(text: str, at: int, *, back: int | None = None) -> tuple[str, int]:
    """Return the string at `at`, and its end. If it is incomplete, reading resumes at `back` later."""
    found = _STRING.match(text, at)
    if found is None:
        if text[at] == '"' and len(text) - at < MAX_STRING:
            raise NeedMoreText(at if back is None else back)
        raise NotStrictJson(at)
    if found.end() - at > MAX_STRING:
        raise NotStrictJson(at)
    return str(json.loads(found.group())), found.end()
