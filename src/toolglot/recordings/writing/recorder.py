"""The thread that writes recordings: it redacts, encodes and appends to the files of all exchanges.

Recording code enqueues events and continues at once. Up to `MAX_PENDING` bytes wait in memory: if the disk is
slower than that, recordings are cut, and exchanges are not affected. Nothing is written before it is redacted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from toolglot.config.schema import RecordConfig
from toolglot.recordings.declared_tools import declared_tool_names
from toolglot.recordings.format import (
    SUFFIX,
    ClientData,
    RecordedClientRequest,
    RecordedData,
    RecordingEnd,
    RecordingHead,
    RecordingLine,
    ServedTools,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    body_members,
    encode_line,
)
from toolglot.recordings.linear_regex import LinearPattern
from toolglot.recordings.redact import BodyRedactor, Finder, Redactor
from toolglot.recordings.writing.folder import RecordingFolder
from toolglot.wire.incremental_json import join_bytes

log = logging.getLogger("toolglot.recordings")

MAX_PENDING = 128 * 1024 * 1024
"""Maximum bytes that wait to be written, of all exchanges together."""
ITEM_OVERHEAD = 512
"""Approximate memory in bytes of a queued item."""
KEPT_OF_OVERSIZED = 64 * 1024
"""Bytes of a request to record if it alone is larger than a recording may be."""
WRITE_INTERVAL = 0.02
"""Seconds between two writes."""
MAX_WRITE = 256 * 1024
"""Maximum bytes of one recording to write at once."""
CLOSE_TIMEOUT = 10.0
"""Seconds that the end of the process waits for unwritten data."""

RecordingOutcome: TypeAlias = Literal["written", "cut", "dropped"]
OUTCOMES: tuple[RecordingOutcome, ...] = ("written", "cut", "dropped")

_NO_ROOM = "the limits leave no room for it"
_TOO_SLOW = "the disk was too slow"
_FAULT = "an internal error of toolglot (see the log)"
_TOO_MUCH_WORK = "a pattern of record.redact took too much work"
_TOOL_LINES = (RecordedClientRequest, ServedTools, UpstreamRequest)
"""Lines whose bodies declare tools."""
_BINARY = ("protobuf", "octet-stream", "grpc")


class Recorder:
    """Writes recordings in a thread. `count` is called in the recorder's own thread with the outcome of each recording.
    `shares` is the number of processes that record to the folder."""

    def __init__(
        self, config: RecordConfig, count: Callable[[RecordingOutcome], None] = lambda outcome: None, shares: int = 1
    ) -> None:
        assert config.directory is not None
        self.folder = RecordingFolder(Path(config.directory).expanduser(), config.max_bytes, config.max_files, shares)
        self.limit = min(config.max_exchange_bytes, config.max_bytes)
        self.finders: tuple[Finder, ...] = tuple(
            LinearPattern(text, partial(self._give_up, text)).find for text in config.redact
        )
        self.given_up = 0
        """Number of times that a pattern exceeded its budget."""
        self._hard: set[str] = set()
        self.count = count
        self.waiting_limit = MAX_PENDING
        self._queue: SimpleQueue[tuple[int, Callable[..., object], tuple[Any, ...]] | None] = SimpleQueue()
        self._begun = self._ended = 0  # number of recordings, see below
        self._handed = 0  # written by the recording code, all in one thread; and
        self._done = 0  # by the recorder's thread alone: so neither takes a lock
        self.unwritten: dict[RecordingWriter, None] = {}
        self._closing = Event()
        self._thread = Thread(target=self._run, name="toolglot-recorder", daemon=True)

    def start(self) -> None:
        """Raises `OSError` if the folder cannot be used."""
        unfinished = self.folder.open()
        if unfinished:
            log.info("%d recordings in %s were never finished, and stay there", unfinished, self.folder.path)
        self._thread.start()

    def close(self) -> None:
        """Write the pending data, within some seconds."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(CLOSE_TIMEOUT)
        if self._thread.is_alive():
            log.warning(
                "%d recordings were not finished in %g seconds: the missing parts are lost",
                self._begun - self._ended,
                CLOSE_TIMEOUT,
            )

    def begin(self, request_id: str, secrets: Iterable[str]) -> RecordingWriter:
        """Return the recording of an exchange that begins now."""
        self._begun += 1
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{request_id}{SUFFIX}"
        return RecordingWriter(self, request_id, name, secrets)

    def enqueue(self, size: int, work: Callable[..., object], *args: Any) -> bool:
        """Run this in the recorder's thread. Returns False if too much is pending."""
        if self._handed - self._done > self.waiting_limit:
            return False
        self.enqueue_always(size, work, *args)
        return True

    def enqueue_always(self, size: int, work: Callable[..., object], *args: Any) -> None:
        self._handed += size + ITEM_OVERHEAD
        self._queue.put((size + ITEM_OVERHEAD, work, args))

    def ended(self, outcome: RecordingOutcome) -> None:
        self._ended += 1
        self.count(outcome)

    def _give_up(self, pattern: str) -> None:
        self.given_up += 1
        if pattern not in self._hard:
            self._hard.add(pattern)
            log.warning("a pattern of record.redact takes too much work, so recordings are cut: %s", pattern)

    def _run(self) -> None:
        """Process the queue, write, and sleep for a moment. Waking up for every piece of every stream would cost the
        producers more than the work itself.
        """
        while (item := self._queue.get()) is not None:
            size, work, args = item
            self._run_safely(work, *args)
            self._done += size
            del item, args  # frees the body while there is nothing to do
            if self._queue.empty():
                self._write_all()
                self._closing.wait(WRITE_INTERVAL)
        self._write_all()

    def _write_all(self) -> None:
        unwritten, self.unwritten = self.unwritten, {}
        for writing in unwritten:
            writing.safely(writing.write_out)

    def _run_safely(self, work: Callable[..., object], *args: Any) -> None:
        try:
            work(*args)
        except Exception:  # an error in here must not end the recording of all other exchanges
            log.exception("something failed while recordings were written")


class RecordingWriter:
    """One recording. Its public methods are for the recording code, the others run in the recorder's thread."""

    def __init__(self, recorder: Recorder, request_id: str, name: str, secrets: Iterable[str]) -> None:
        self._recorder = recorder
        self._request_id = request_id
        self._name = name
        self._over = False  # nothing more is enqueued
        # From here on: used by the recorder's thread.
        self._redactor = Redactor((), recorder.finders)
        self._streams: dict[int, BodyRedactor] = {}
        self._size = 0  # of all lines
        self._waiting = 0  # of those that are not written
        self._cut: str | None = None
        self._failed = False
        self._lost = False
        self._begun = False
        self._unwritten: list[bytes] = []
        self.hide(secrets)

    def begin(self, head: RecordingHead, request: RecordedClientRequest, body: bytes, content_type: str = "") -> None:
        """Record the arrived request. Without it, there is no recording."""
        self._hand_over(len(body), self._begin, head, request, body, _is_binary(content_type))

    def line(self, line: RecordingLine, body: bytes = b"", content_type: str = "") -> None:
        """Record something complete."""
        self._hand_over(len(body), self._line, line, body, _is_binary(content_type))

    def deferred_line(self, line: RecordingLine, size: int, make: Callable[[], bytes]) -> None:
        """Record a line with a body of about this size, which the recorder's thread creates."""
        self._hand_over(size, self._deferred_line, line, make)

    def piece(self, stream: int, at: float, data: bytes, content_type: str = "") -> None:
        """Record a part of a body: the client's (0), or the upstream's answer to this attempt."""
        self._hand_over(len(data), self._piece, stream, at, data, _is_binary(content_type))

    def over(self, stream: int, at: float) -> None:
        """Record the end of a body."""
        self._hand_over(0, self._flush, stream, at)

    def hide(self, secrets: Iterable[str]) -> None:
        """Add secrets that no line may contain."""
        self._hand_over(0, self._hide, tuple(secrets))

    def end(self, line: RecordingEnd) -> None:
        """Record the end of the exchange, even if everything else had to be omitted."""
        self._recorder.enqueue_always(0, self._end, line, self._over)

    def _hand_over(self, size: int, work: Callable[..., object], *args: Any) -> None:
        if not self._over and not self._recorder.enqueue(size, self.safely, work, *args):
            self._over = True

    def safely(self, work: Callable[..., object], *args: Any, **options: Any) -> None:
        """Run `work`; an internal error ends this recording only. The recording keeps the lines written so far and is
        marked as truncated."""
        try:
            work(*args, **options)
        except Exception:
            if not self._failed:
                log.exception("the recording %s failed, and is cut", self._name)
            self._failed = True
            self._cut = self._cut or _FAULT

    def _hide(self, secrets: Sequence[str]) -> None:
        self._redactor.hide(secrets)

    def _begin(self, head: RecordingHead, request: RecordedClientRequest, body: bytes, binary: bool) -> None:
        self._line(head, b"", False)
        self._line(request, body, binary)

    def _line(self, line: RecordingLine, body: bytes, binary: bool) -> None:
        if isinstance(line, UpstreamEnd):
            self._flush(line.attempt, line.at)
        if self._cut is not None:
            return
        given_up = self._recorder.given_up
        if isinstance(line, _TOOL_LINES) and self._recorder.finders:
            self._redactor.keep_tool_names(declared_tool_names(body))
        if isinstance(line, RecordedData) and body:
            redacted, numbers = self._redactor.redact_body(body, binary=binary)
            if self._recorder.given_up > given_up:
                redacted, numbers = b"", []
            line = replace(line, **body_members(redacted))
            if isinstance(line, UpstreamRequest) and numbers:
                line = replace(line, numbers=numbers)
        line = redact_line(line, self._redactor)
        data = encode_line(line)
        if isinstance(line, RecordedClientRequest) and len(data) > self._recorder.limit:
            kept = self._redactor.body(body, binary=binary)[:KEPT_OF_OVERSIZED]
            self._write(encode_line(replace(line, **{**_NOTHING, **body_members(kept)})))
            self._cut = "the request is larger than a recording may be"
            return
        self._write(data)
        self._cut_if(given_up)

    def _deferred_line(self, line: RecordingLine, make: Callable[[], bytes]) -> None:
        self._line(line, make(), False)

    def _cut_if(self, given_up: int) -> None:
        """Cut the recording if its text was redacted completely: the rest is not worth the space and work."""
        if self._recorder.given_up > given_up:
            self._cut = self._cut or _TOO_MUCH_WORK

    def _piece(self, stream: int, at: float, data: bytes, binary: bool) -> None:
        if self._cut is not None:
            return
        given_up = self._recorder.given_up
        redacting = self._streams.get(stream)
        if redacting is None:
            redacting = self._streams[stream] = self._redactor.stream(binary=binary)
        for piece in redacting.feed(data):
            self._cut_if(given_up)
            self._write_piece(stream, at, piece)

    def _flush(self, stream: int, at: float) -> None:
        redacting = self._streams.pop(stream, None)
        given_up = self._recorder.given_up
        for piece in redacting.close() if redacting is not None and self._cut is None else ():
            self._cut_if(given_up)
            self._write_piece(stream, at, piece)

    def _write_piece(self, stream: int, at: float, piece: bytes) -> None:
        body = body_members(piece)
        self._write(encode_line(UpstreamData(at=at, attempt=stream, **body) if stream else ClientData(at=at, **body)))

    def _write(self, data: bytes) -> None:
        if self._lost or self._cut is not None:
            return
        if self._size + len(data) > self._recorder.limit:
            self._cut = f"it is larger than {self._recorder.limit} bytes"
            return
        self._size += len(data)
        self._unwritten.append(data)
        self._waiting += len(data)
        self._recorder.unwritten[self] = None
        if self._waiting > MAX_WRITE:
            self.write_out()

    def write_out(self, *, last: bool = False) -> None:
        """Write the ready data. The last line is written even if there is no room."""
        data, folder = join_bytes(*self._unwritten), self._recorder.folder
        self._unwritten, self._waiting = [], 0
        if self._lost or not data:
            return
        try:
            if not self._begun:
                self._begun = folder.begin(self._name)
                if not self._begun:
                    self._lose(_NO_ROOM)
            if self._begun and not folder.append(self._name, data, anyway=last):
                self._cut = self._cut or _NO_ROOM
        except OSError as error:
            self._begun = folder.abandon(self._name)
            self._lose(error.strerror or str(error))

    def _lose(self, why: str) -> None:
        """Stop writing. The file cannot report this, but the log can."""
        self._lost = True
        what = "is incomplete" if self._begun else "was not written"
        log.warning("request %s: its recording in %s %s: %s", self._request_id, self._recorder.folder.path, what, why)

    def _end(self, line: RecordingEnd, over: bool) -> None:
        for stream in sorted(self._streams):
            self.safely(self._flush, stream, line.at)
        self.safely(self.write_out)
        if over and self._cut is None:
            self._cut = _TOO_SLOW
        self._recorder.unwritten.pop(self, None)
        if self._begun:
            self._write_last(line)
        if self._begun and not self._lost:
            self.safely(self._finish)
        whole = self._begun and not self._lost and self._cut is None
        self._recorder.ended("written" if whole else "cut" if self._begun else "dropped")

    def _write_last(self, line: RecordingEnd) -> None:
        if not self._failed:
            self.safely(
                lambda: self._unwritten.append(encode_line(redact_line(replace(line, cut=self._cut), self._redactor)))
            )
        if self._failed:  # our own words only: it is unknown whether anything else can be redacted
            self._unwritten = [encode_line(RecordingEnd(at=line.at, cut=self._cut))]
        self.safely(self.write_out, last=True)

    def _finish(self) -> None:
        """Rename the file to that of a finished one."""
        try:
            self._recorder.folder.finish(self._name)
        except OSError as error:
            self._recorder.folder.abandon(self._name)
            self._lose(error.strerror or str(error))


_NOTHING: dict[str, Any] = {"text": None, "base64": None}


def _is_binary(content_type: str) -> bool:
    return any(word in content_type for word in _BINARY)


StructType = TypeVar("StructType", bound=Struct)

_NEVER_SECRET = frozenset(
    {"text", "base64", "client", "dialect", "method", "time", "toolglot", "what", "failure"}
    | {"text_format", "bad_calls", "exact", "warp_history"}
)
"""Members that are redacted elsewhere, or that hold one of this program's own words. They are kept even if a pattern
matches, because a recording is unreadable without them.
"""
_REDACTIONS: dict[str, Callable[[Redactor, Any], Any]] = {
    "headers": Redactor.headers,
    "url": Redactor.url,
    "path": Redactor.url,
    "tool": Redactor.tool,
}


def redact_line(line: StructType, redactor: Redactor) -> StructType:
    """Redact a line except its body, which is redacted as a whole."""
    changed: dict[str, Any] = {}
    for name, value in asdict(line).items():
        if name in _NEVER_SECRET:
            continue
        told = _REDACTIONS.get(name, _redact_value)(redactor, value)
        if told != value:
            changed[name] = told
    return replace(line, **changed) if changed else line


def _redact_value(redactor: Redactor, value: Any) -> Any:
    match value:
        case str():
            return redactor.text(value)
        case dict():
            return {name: _redact_value(redactor, each) for name, each in value.items()}
        case list():
            return [_redact_value(redactor, each) for each in value]
        case Struct():
            return redact_line(value, redactor)
        case _:
            return value
