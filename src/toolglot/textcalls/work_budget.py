"""Limits on the work that one answer may cause, so that no text blocks the event loop.

A mark costs some microseconds, whatever it opens, and a mark may be a single bracket. So marks are counted, and their
number is limited by the length of the answer: above that its text is passed on without searching for calls. Values that
are read one at a time (Python literals, broken JSON) are counted in the same way: a call with too many is cut.
"""

from __future__ import annotations

from typing import Final

FREE_STEPS: Final = 8192
CHARACTERS_PER_STEP: Final = 128
STEPS_PER_CALL: Final = 8
"""Steps that a call counts for in addition to its marks."""
PAUSE_CHARS: Final = 4096
"""Characters that are passed on unread once the steps are used up."""
MAX_VALUES: Final = 30_000


class WorkBudget:
    """The remaining budget of one answer. Offsets count from the beginning of the answer, so that the result does not
    depend on how its text is split."""

    __slots__ = ("steps", "values_left")

    def __init__(self) -> None:
        self.steps = 0
        self.values_left = MAX_VALUES

    def pause_at(self, offset: int) -> int:
        """Return where reading continues if the steps up to `offset` are used up; 0 if they are not."""
        if self.steps <= FREE_STEPS + offset // CHARACTERS_PER_STEP:
            return 0
        return offset + PAUSE_CHARS

    def take_value(self) -> bool:
        """Count one value; False if there were too many."""
        self.values_left -= 1
        return self.values_left >= 0
