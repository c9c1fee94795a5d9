"""How many answers of a conversation are looked up in the store.

All of them, as a rule: what is put back today and not tomorrow changes the beginning of the prompt, for which caches of
prompts are of no use then. In a conversation that is longer than any the first ones are left out, and many at a time.
"""

from __future__ import annotations

MAX_LOOKUPS = 5000
"""Answers that are looked up, the last ones."""
SKIP_STEP = 1000
"""How many more are left out when there are too many."""


def count_skipped(answers: int) -> int:
    """How many of the first of so many answers are not looked up."""
    return -(-max(0, answers - MAX_LOOKUPS) // SKIP_STEP) * SKIP_STEP
