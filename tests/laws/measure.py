"""Processor time, measured so that a busy machine does not matter much."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

Work = Callable[[], object]
ATTEMPTS = 5


def seconds(work: Work) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        start = time.process_time()
        work()
        return max(time.process_time() - start, 1e-6)
    finally:
        if collecting:
            gc.enable()


def growth(small: Work, large: Work, allowed: float) -> float:
    """How many times as long the larger work takes. Other processes only make a run slower, so the best time of each
    counts, and a growth that is allowed is not measured again."""
    once, more = seconds(small), seconds(large)
    for _ in range(ATTEMPTS - 1):
        if more / once < allowed:
            break
        once, more = min(once, seconds(small)), min(more, seconds(large))
    return more / once
