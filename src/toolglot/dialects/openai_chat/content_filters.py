"""Results of a server's content filters in an answer, as Azure sends them.

Every answer has them. If nothing was filtered and everything was rated safe, they carry no information: the receipt
omits them, and only clients of this dialect get them.
"""

from __future__ import annotations

from typing import Any

PROMPT, ANSWER = "prompt_filter_results", "content_filter_results"
MEMBERS = frozenset({PROMPT, ANSWER, "content_filter_offsets"})
"""The members of answers, of choices and of chunks that hold verdicts, and the progress of the filter."""
REASON = "the verdict of the server's content filter; no other API has a place for it"

_POSITIONS = frozenset({"prompt_index", "check_offset", "start_offset", "end_offset"})


def is_default(value: Any) -> bool:
    """Return whether these verdicts only say that nothing was filtered, detected or found unsafe."""
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
    """Remove and return the member of this name if it carries no information; otherwise return an empty object."""
    return {name: members.pop(name)} if members.get(name) and is_default(members[name]) else {}
