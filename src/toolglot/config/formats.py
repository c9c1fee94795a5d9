"""The text formats by their names, as far as the configuration is concerned."""

from __future__ import annotations

try:
    from toolglot.textcalls import FORMATS, find_format
except ImportError:  # pragma: no cover
    FORMATS = {}  # type: ignore[assignment]

    def find_format(name: str):  # type: ignore
        return name
