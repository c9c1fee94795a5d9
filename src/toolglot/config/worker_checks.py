"""Settings that several workers cannot share."""

from __future__ import annotations

from toolglot.config.schema import Config

IN_MEMORY = ":memory:"


def store_problem(config: Config, workers: int) -> str | None:
    """Return the problem with the store if this many processes share it; None if there is none."""
    if workers == 1 or config.store.path != IN_MEMORY:
        return None
    return f"a `{IN_MEMORY}` store belongs to one process: with several workers, use a file or `none`"
