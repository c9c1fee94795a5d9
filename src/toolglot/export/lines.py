"""Lines of bytes that come in pieces: none is longer than a limit, and no more is held than the line at hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolglot.errors import DecodeError
from toolglot.wire.json import MAX_DOCUMENT_BYTES

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def lines_of(chunks: Iterable[bytes], limit: int = MAX_DOCUMENT_BYTES) -> Iterator[bytes]:
    """The lines, without their ends. Lines of JSON end with LF, so that one with CRs or odd separators in it stays one.

    Raises:
        DecodeError: one is longer than the limit.
    """
    held: list[bytes] = []
    size = number = 0
    for chunk in chunks:
        *whole, tail = chunk.split(b"\n")
        for line in whole:
            number += 1
            held.append(line)
            if size + len(line) > limit:
                raise _too_long(number, limit)
            yield _clean(b"".join(held), number)
            held, size = [], 0
        if tail:
            held.append(tail)
            size += len(tail)
            if size > limit:
                raise _too_long(number + 1, limit)
    if held:
        yield _clean(b"".join(held), number + 1)


def _clean(line: bytes, number: int) -> bytes:
    line = line.removesuffix(b"\r")
    return line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def _too_long(number: int, limit: int) -> DecodeError:
    return DecodeError(f"line {number}", f"it has more than {limit} bytes; a long conversation is one message a line")
