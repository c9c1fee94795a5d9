"""How long tests wait for what must come, and how they wait for what nobody announces."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

FAILSAFE = 60.0
"""Seconds after which a test that waits for something fails. No test waits that long unless something is broken: it is
far more than a busy machine needs."""


def until(condition: Callable[[], T | None], what: str) -> T:
    """Wait for the condition; returns what it found."""
    deadline = monotonic() + FAILSAFE
    while not (found := condition()):
        assert monotonic() < deadline, f"there is no {what}"
        sleep(0.02)
    return found
