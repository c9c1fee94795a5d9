"""Time, measured so that a busy machine does not matter much: processor time, and the best of a few runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def seconds(work: Callable[[], object], runs: int = 5) -> float:
    best = float("inf")
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(runs):
            start = time.process_time()
            work()
            best = min(best, time.process_time() - start)
    finally:
        if collecting:
            gc.enable()
    return max(best, 1e-6)
