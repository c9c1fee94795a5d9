"""Verdicts of a server's content filters beside an answer, as Azure has them.

Every answer has them. Where nothing was filtered and everything was found safe, they say nothing: no receipt names
them, and they stay with an answer for clients of this dialect.
"""

from __future__ import annotations

from typing import Any

PROMPT, ANSWER = "prompt_filter_results", "content_filter_results"
MEMBERS = frozenset({PROMPT, ANSWER, "content_filter_offsets"})
"""The members of answers, of choices and of chunks that hold verdicts, and how far the filter has read."""
REASON = "the verdict of the server's content filter; no other API has a place for it"

_POSITIONS = frozenset({"prompt_index", "check_offset", "start_offset", "end_offset"})


def is_default(value: Any) -> bool:
    """Do these verdicts only say that nothing was filtered, detected or found unsafe?"""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            is_safe = each.get("severity") == "safe"
            waiting += [
                item for name, item in each.items() if name not in _POSITIONS and not (is_safe and name == "severity")
            ]
        elif isinstance(each, list):
            waiting += each
        elif each is not None and each is not False and each != "":
            return False
    return True


def take_default(members: dict[str, Any], name: str) -> dict[str, Any]:
    """Take the member of this name out if it says nothing. Returns it, or an empty object."""
    return {name: members.pop(name)} if members.get(name) and is_default(members[name]) else {}
