"""A limit on the answers of a conversation that are looked up in the store.

Usually all are: state that is restored in one turn and not in the next changes the prompt, which invalidates the prompt
cache. In an extremely long conversation the first answers are skipped, in large steps, so that this happens rarely.
"""

from __future__ import annotations

MAX_LOOKUPS = 5000
"""The last answers that are looked up."""
SKIP_STEP = 1000
"""Answers that are skipped in one step."""


def count_skipped(answers: int) -> int:
    """Count the first answers that are not looked up."""
    return -(-max(0, answers - MAX_LOOKUPS) // SKIP_STEP) * SKIP_STEP
