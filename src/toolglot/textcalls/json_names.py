"""Strings that are read as a whole before anything is passed on: the keys and names of an envelope."""

from __future__ import annotations

import json
import re
from typing import Final

MAX_STRING: Final = 1000
"""Keys and names are not longer than this."""

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')


class Wait(Exception):  # noqa: N818 - no error: more text is needed
    """What stands at the end of the text may go on."""


class Broken(Exception):  # noqa: N818 - no error: what follows is read another way
    """This is no strict JSON, or no call."""


def string_at(text: str, at: int) -> tuple[str, int]:
    """The string that stands at `at`, and where it ends."""
    found = _STRING.match(text, at)
    if found is None:
        if text[at] == '"' and len(text) - at < MAX_STRING:
            raise Wait(at)
        raise Broken(at)
    if found.end() - at > MAX_STRING:
        raise Broken(at)
    return str(json.loads(found.group())), found.end()
