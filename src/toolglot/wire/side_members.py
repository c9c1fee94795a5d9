"""Reads documents whose side members have the wrong type: an id, the usage, annotations.

No such member is worth the loss of an answer. A number is converted to text, any other value is removed, and the
receipt has a line for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sized
from typing import Any, TypeVar

from toolglot.errors import DecodeError
from toolglot.receipt import Loss, Note, Receipt, ReceiptLine
from toolglot.wire import json

_MAX_MEMBERS = 32
"""Maximum side members to repair in one document. Each costs another decode."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_WHY_REMOVED = "its type differs from the API's, and it cannot be read"
_WHY_CONVERTED = "it came as a number"

T = TypeVar("T")


def read_document(data: bytes, read: Callable[[bytes], T], names: Collection[str]) -> tuple[T, list[ReceiptLine]]:
    """Read a document. Returns its value, and a line for each side member that had to be changed.

    Raises:
        DecodeError: another part than a side member cannot be read.
    """
    lines: list[ReceiptLine] = []
    while True:
        try:
            return read(data), lines
        except DecodeError as error:
            mended = _mend(data, error, names) if len(lines) < _MAX_MEMBERS else None
            if mended is None:
                raise
        data, line = mended
        lines.append(line)


def read_frame_again(
    payload: bytes,
    error: DecodeError,
    read: Callable[[bytes], None],
    names: Collection[str],
    receipt: Receipt,
    events: Sized,
    begun: int,
) -> None:
    """Read a frame that could not be read, without the side member that `error` names.

    `events` holds what decoding has emitted, `begun` of them before this frame. A frame that emitted something before
    it failed is not read twice.

    Raises:
        DecodeError: another part than a side member cannot be read.
    """
    for _ in range(_MAX_MEMBERS):
        mended = _mend(payload, error, names) if len(events) == begun else None
        if mended is None:
            raise error
        payload, line = mended
        receipt.add((line,))
        try:
            read(payload)
            return
        except DecodeError as again:
            error = again
    raise error


def _mend(data: bytes, error: DecodeError, names: Collection[str]) -> tuple[bytes, ReceiptLine] | None:
    """Convert or remove the first side member on the path of the error. None if there is none."""
    steps = [int(number) if number else name for name, number in _STEP.findall(error.where)]
    depth = next((depth for depth, step in enumerate(steps) if step in names), None)
    if depth is None:
        return None
    try:
        document = json.decode_answer(data)
    except DecodeError:
        return None
    holder: Any = document
    *path, name = steps[: depth + 1]
    try:
        for step in path:
            holder = holder[step]
        member = holder[name]
    except (KeyError, IndexError, TypeError):
        return None
    where = error.where.removeprefix("$.")
    if type(member) in (int, float) and depth == len(steps) - 1:
        holder[name] = str(member)
        return json.encode(document), Note(where, where, _WHY_CONVERTED)
    del holder[name]
    return json.encode(document), Loss(where, where, _WHY_REMOVED)
