"""Split bytes that arrive in pieces into lines of limited length; only the current line is buffered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolglot.errors import DecodeError
from toolglot.wire.json import MAX_DOCUMENT_BYTES

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def split_lines(chunks: Iterable[bytes], limit: int = MAX_DOCUMENT_BYTES) -> Iterator[bytes]:
    """Yield the lines, without line ends. Lines of JSON end with LF, so one with CRs or other separators in it stays
    one.

    Raises:
        DecodeError: a line is longer than the limit.
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
            yield _check_line(b"".join(held), number)
            held, size = [], 0
        if tail:
            held.append(tail)
            size += len(tail)
            if size > limit:
                raise _too_long(number + 1, limit)
    if held:
        yield _check_line(b"".join(held), number + 1)


def _check_line(line: bytes, number: int) -> bytes:
    line = line.removesuffix(b"\r")
    return line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def _too_long(number: int, limit: int) -> DecodeError:
    return DecodeError(f"line {number}", f"it has more than {limit} bytes; a long conversation is one message a line")
