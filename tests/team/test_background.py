"""Work in the background goes on whatever happens in it."""

from __future__ import annotations

import asyncio

import pytest

from toolglot.store import StoreError
from toolglot.team.background import repeat


@pytest.mark.parametrize("error", [StoreError("failed", "away"), OSError("no room"), ValueError("a bug")])
def test_work_goes_on_after_a_failure_which_is_logged_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        done = asyncio.Event()
        outcomes: list[Exception | None] = [None, error, error, None, None]

        async def work() -> None:
            outcome = outcomes.pop(0)
            if not outcomes:
                done.set()
            if outcome is not None:
                raise outcome

        task = asyncio.create_task(repeat(work, 0.0, failing="it fails", working="it works"))
        await done.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level("INFO", "toolglot.server"):
        asyncio.run(run())
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert said == ["it fails", "it works"]
    assert bool(caplog.records[0].exc_info) == isinstance(error, ValueError)  # a bug shows where it is
