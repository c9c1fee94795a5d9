"""The lines of a recorded receipt, and whether a line of today's code is among them.

The recorded texts may contain redactions where today's have the real value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from toolglot.receipt import ReceiptLine, receipt_line
from toolglot.recordings.format import ReceiptLines
from toolglot.recordings.read import Recording
from toolglot.recordings.redact import REDACTED
from toolglot.recordings.redacted_spans import matches_text
from toolglot.wire import json

ReceiptKey: TypeAlias = tuple[str, str, str]


class RecordedReceipt:
    """`found` are the lines that were looked up."""

    def __init__(self, keys: Iterable[ReceiptKey]) -> None:
        self.found: set[ReceiptKey] = set()
        self._keys = set(keys)
        self._open = [(key, json.encode(list(key))) for key in self._keys if any(REDACTED in part for part in key)]

    def has(self, key: ReceiptKey) -> bool:
        same = [key] if key in self._keys else []
        if not same and self._open:
            now = json.encode(list(key))
            same = [then for then, text in self._open if matches_text(text, now)]
        self.found.update(same)
        return bool(same)


def recorded_receipt(recording: Recording) -> RecordedReceipt | None:
    """None if the recording has no receipt: then its content is unknown."""
    if not any(isinstance(line, ReceiptLines) for line in recording.lines):
        return None
    return RecordedReceipt(map(receipt_key, map(loss_from_line, recording.receipt)))


def receipt_key(line: ReceiptLine) -> ReceiptKey:
    return line.where, line.what, line.why


def loss_from_line(line: dict[str, str]) -> ReceiptLine:
    where, what, why = (line.get(name, "") for name in ("where", "what", "why"))
    return receipt_line("note" if line.get("severity") == "note" else "loss", where, what, why)
