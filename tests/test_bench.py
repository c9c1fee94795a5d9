"""The benchmark runs, and covers every pair of dialects."""

from __future__ import annotations

from bench.__main__ import main

from tests.exchanges import PAIRS


def test_the_benchmark_runs_in_quick_mode() -> None:
    written: list[str] = []
    main(["--quick"], written.append)
    text = "".join(written)
    for first, second in PAIRS:
        assert text.count(f"{first:18}{second:18}") == 3
