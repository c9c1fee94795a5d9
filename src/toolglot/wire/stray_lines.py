"""Stray lines among server-sent events: an error document of a proxy, a part of the answer after other bytes, or
noise."""

from __future__ import annotations

from typing import Any

from toolglot.errors import DecodeError
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error

_ERROR_FIELD = b"error:"


def read_stray_error(lines: bytes, receipt: Receipt) -> Any | None:
    """Read these lines as an error document. Noise goes to the receipt, and the result is None.

    Raises: DecodeError: the lines may contain a part of the answer.
    """
    text = lines.strip()
    if text.startswith(_ERROR_FIELD):
        value = json.decode_frame(text.removeprefix(_ERROR_FIELD))
        return value if find_error(value) is not None else {"error": value}
    if text.startswith((b"{", b"[")):
        document = json.decode_frame(text)
        if find_error(document) is None:
            raise DecodeError("$", "a document among the events that is none")
        return document
    check_noise(lines)
    note_noise(len(lines), receipt)
    return None


def note_noise(size: int, receipt: Receipt) -> None:
    receipt.loss("stream", f"{size} bytes among the events", "they are not an event")


def check_noise(lines: bytes) -> None:
    """Raise DecodeError if these lines hide an event."""
    if b"data:" in lines:
        raise DecodeError("$", "an event with other bytes before it")
