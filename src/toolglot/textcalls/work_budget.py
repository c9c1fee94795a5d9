"""Bounds on the work that one answer may cause, so that no text holds the event loop.

A mark costs some microseconds, whatever it opens, and a mark may be a single bracket. So marks are counted, and an
answer may hold only so many for its length: above that its text is passed on without a look for calls. Values that are
read one at a time (Python literals, broken JSON) are counted in the same way: a call with more of them is cut.
"""

from __future__ import annotations

from typing import Final

FREE_STEPS: Final = 8192
CHARACTERS_PER_STEP: Final = 128
STEPS_PER_CALL: Final = 8
"""What a call counts for beside its marks."""
PAUSE: Final = 4096
"""Characters that are passed on unread once the steps are used up."""
MAX_VALUES: Final = 30_000


class WorkBudget:
    """What is left for one answer. Offsets count from the beginning of the answer, so that the way in which its text
    is cut into pieces changes nothing."""

    __slots__ = ("steps", "values_left")

    def __init__(self) -> None:
        self.steps = 0
        self.values_left = MAX_VALUES

    def pause_at(self, offset: int) -> int:
        """Where reading goes on if the steps up to `offset` are used up; 0 if they are not."""
        if self.steps <= FREE_STEPS + offset // CHARACTERS_PER_STEP:
            return 0
        return offset + PAUSE

    def take_value(self) -> bool:
        """Count one value; False if there were too many."""
        self.values_left -= 1
        return self.values_left >= 0
