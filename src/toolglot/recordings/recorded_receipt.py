"""The lines of a recorded receipt, and whether one that today's code writes is among them.

In some of the recorded texts something may be redacted, and the real value stands in today's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from toolglot.receipt import Loss
from toolglot.recordings.format import ReceiptLines
from toolglot.recordings.holes import fits_text
from toolglot.recordings.read import Recording
from toolglot.recordings.redact import REDACTED
from toolglot.wire import json

Key: TypeAlias = tuple[str, str, str]


class RecordedReceipt:
    """`found` are the lines that were asked for."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self.found: set[Key] = set()
        self._keys = set(keys)
        self._open = [(key, json.encode(list(key))) for key in self._keys if any(REDACTED in part for part in key)]

    def has(self, key: Key) -> bool:
        same = [key] if key in self._keys else []
        if not same and self._open:
            now = json.encode(list(key))
            same = [then for then, text in self._open if fits_text(text, now)]
        self.found.update(same)
        return bool(same)


def receipt_of(recording: Recording) -> RecordedReceipt | None:
    """None where the recording has no receipt: then nobody knows what it would have said."""
    if not any(isinstance(line, ReceiptLines) for line in recording.lines):
        return None
    return RecordedReceipt(map(key_of, map(loss_of, recording.receipt)))


def key_of(line: Loss) -> Key:
    return line.where, line.what, line.why


def loss_of(line: dict[str, str]) -> Loss:
    where, what, why = (line.get(name, "") for name in ("where", "what", "why"))
    return Loss(where, what, why, "note" if line.get("severity") == "note" else "loss")
