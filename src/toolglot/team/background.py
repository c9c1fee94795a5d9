"""Work that a gateway repeats in the background. It must never end by itself: without it, revoked keys would go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolglot.store import StoreError

log = logging.getLogger("toolglot.server")


async def repeat(work: Callable[[], Awaitable[None]], seconds: float, *, failing: str, working: str) -> None:
    """Run the work again and again, with a pause, until cancelled. The first of several failures is logged (`failing`),
    and so is the success after them (`working`). A bug in the work is logged with its traceback."""
    is_failing = False
    while True:
        try:
            await work()
            if is_failing:
                log.info("%s", working)
            is_failing = False
        except (StoreError, OSError) as error:
            if not is_failing:
                log.warning("%s: %s", failing, error)
            is_failing = True
        except Exception:
            if not is_failing:
                log.exception("%s", failing)
            is_failing = True
        await asyncio.sleep(seconds)
