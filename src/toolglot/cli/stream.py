"""Translate a stream from standard input to standard output, as it arrives."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from toolglot import StreamTranslation
from toolglot.cli.diagnosis import no_event, not_this_stream

HEAD_BYTES = 64 * 1024
"""Bytes of the beginning to keep, to describe the input if it is not a stream."""

_SPOILT = ("upstream_truncated", "upstream_unreadable")


def forward_stream(chunks: Iterable[bytes], translation: StreamTranslation, dialect: str) -> str | None:
    """Write the translated stream. Returns the reason why it is incomplete, if it is. An input that is not a stream of
    this dialect gets no output, not even an error event.
    """
    head = bytearray()
    begun = False
    for written in _translated(chunks, translation, head):
        if not begun and (why := _not_this(bytes(head), dialect, _is_spoilt(translation))):
            return why
        begun = True
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
    if translation.fault is None or not _is_spoilt(translation):
        return None
    return _not_this(bytes(head), dialect, spoilt=True) or translation.fault.message


def _translated(chunks: Iterable[bytes], translation: StreamTranslation, head: bytearray) -> Iterator[bytes]:
    for chunk in chunks:
        head += chunk[: HEAD_BYTES - len(head)]
        if written := translation.feed(chunk):
            yield written
    if written := translation.close():
        yield written


def _is_spoilt(translation: StreamTranslation) -> bool:
    return translation.fault is not None and translation.fault.code in _SPOILT


def _not_this(head: bytes, dialect: str, spoilt: bool) -> str | None:
    why = not_this_stream(head, dialect, spoilt=spoilt)
    return f"{why}; is it a whole response? --kind response" if why == no_event(dialect) else why
