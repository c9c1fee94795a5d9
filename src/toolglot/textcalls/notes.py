"""Notes on the shape of an answer, which text calls change."""

from __future__ import annotations

from toolglot.ir import Native


def without_notes(native: Native) -> Native:
    """Without the notes on the shape of an answer that has another shape now."""
    return {
        owner: {key: value for key, value in fields.items() if not key.startswith("$")}
        for owner, fields in native.items()
    }
