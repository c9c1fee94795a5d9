"""Notes on the shape of an answer, which text calls change."""

from __future__ import annotations

from toolglot.ir import Native


def without_shape_notes(native: Native) -> Native:
    """Remove notes that describe the former shape of an answer."""
    return {
        owner: {key: value for key, value in fields.items() if not key.startswith("$")}
        for owner, fields in native.items()
    }
