"""Settings that several workers cannot share."""

from __future__ import annotations

from toolglot.config.schema import Config

IN_MEMORY = ":memory:"


def store_problem(config: Config, workers: int) -> str | None:
    """Return what is wrong with the store, if this many processes are to use it."""
    if workers == 1 or config.store.path != IN_MEMORY:
        return None
    return f"a `{IN_MEMORY}` store belongs to one process: with several workers, use a file or `none`"
