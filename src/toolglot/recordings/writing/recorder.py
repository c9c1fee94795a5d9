"""Writing recordings: one thread, which redacts, encodes and appends to the files of all exchanges.

Whoever records hands over what happened and goes on at once. What is handed over waits in memory, up to `WAITING`
bytes: when the disk is slower than that, recordings are cut, and exchanges are not. Nothing is written anywhere before
it is redacted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from toolglot.config.schema import RecordConfig
from toolglot.recordings.clean import clean
from toolglot.recordings.format import (
    SUFFIX,
    ClientData,
    ClientRequest,
    Data,
    End,
    Head,
    Line,
    ServedTools,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    body_of,
    written,
)
from toolglot.recordings.patterns import Pattern
from toolglot.recordings.redact import Finder, Redactor, Stream
from toolglot.recordings.tools import declared
from toolglot.recordings.writing.folder import Folder
from toolglot.wire.large import joined

log = logging.getLogger("toolglot.recordings")

WAITING = 128 * 1024 * 1024
"""Bytes that wait to be written, of all exchanges together."""
OVERHEAD = 512
"""Bytes that anything takes in memory while it waits, about."""
KEPT_OF_LARGEST = 64 * 1024
"""Bytes of a request that are recorded when it alone is larger than a recording may be."""
REST = 0.02
"""Seconds between two times that something is written."""
TOGETHER = 256 * 1024
"""Bytes of one recording that are written at once at the most."""
PATIENCE = 10.0
"""Seconds that the end of the process waits for what is not written yet."""

Outcome: TypeAlias = Literal["written", "cut", "dropped"]
OUTCOMES: tuple[Outcome, ...] = ("written", "cut", "dropped")

_TOO_SLOW = "the disk was too slow"
_FAULT = "a fault in toolglot itself, which the log tells"
_TOO_HARD = "a pattern of record.redact took too much work"
_DECLARING = (ClientRequest, ServedTools, UpstreamRequest)
"""Lines whose bodies tell which tools there are."""
_BINARY = ("protobuf", "octet-stream", "grpc")


class Recorder:
    """`count` is told, in the recorder's own thread, what became of each recording. `shares` is how many processes
    record in the folder."""

    def __init__(
        self, config: RecordConfig, count: Callable[[Outcome], None] = lambda outcome: None, shares: int = 1
    ) -> None:
        assert config.directory is not None
        self.folder = Folder(Path(config.directory).expanduser(), config.max_bytes, config.max_files, shares)
        self.limit = min(config.max_exchange_bytes, config.max_bytes)
        self.finders: tuple[Finder, ...] = tuple(
            Pattern(text, partial(self._give_up, text)).find for text in config.redact
        )
        self.given_up = 0
        """How often a pattern took too much work."""
        self._hard: set[str] = set()
        self.count = count
        self.waiting_limit = WAITING
        self._queue: SimpleQueue[tuple[int, Callable[..., object], tuple[Any, ...]] | None] = SimpleQueue()
        self._begun = self._ended = 0  # recordings, as below
        self._handed = 0  # written by whoever records, all in one thread; and
        self._done = 0  # by the recorder's thread alone: so neither takes a lock
        self._warned = False
        self.unwritten: dict[Writing, None] = {}
        self._closing = Event()
        self._thread = Thread(target=self._run, name="toolglot-recorder", daemon=True)

    def start(self) -> None:
        """A folder that cannot be used is told, and tried again with every exchange."""
        try:
            unfinished = self.folder.open()
        except OSError as error:
            self.warn(error)
        else:
            if unfinished:
                log.info("%d recordings in %s were never finished, and stay there", unfinished, self.folder.path)
        self._thread.start()

    def close(self) -> None:
        """Write what waits, within some seconds."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            log.warning(
                "%d recordings were not finished in %g seconds: what is missing of them is lost",
                self._begun - self._ended,
                PATIENCE,
            )

    def begin(self, request_id: str, secrets: Iterable[str]) -> Writing:
        """The recording of an exchange that begins now."""
        self._begun += 1
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{request_id}{SUFFIX}"
        return Writing(self, name, secrets)

    def hand_over(self, size: int, work: Callable[..., object], *args: Any) -> bool:
        """Have this done in the recorder's thread; False when too much waits there already."""
        if self._handed - self._done > self.waiting_limit:
            return False
        self.hand_over_in_any_case(size, work, *args)
        return True

    def hand_over_in_any_case(self, size: int, work: Callable[..., object], *args: Any) -> None:
        self._handed += size + OVERHEAD
        self._queue.put((size + OVERHEAD, work, args))

    def warn(self, error: OSError) -> None:
        """Once, until a recording is written again."""
        if not self._warned:
            self._warned = True
            log.warning("recordings cannot be written to %s: %s", self.folder.path, error.strerror or error)

    def ended(self, outcome: Outcome) -> None:
        self._ended += 1
        self.count(outcome)

    def _give_up(self, pattern: str) -> None:
        self.given_up += 1
        if pattern not in self._hard:
            self._hard.add(pattern)
            log.warning("a pattern of record.redact takes too much work, and recordings are cut for it: %s", pattern)

    def worked(self) -> None:
        self._warned = False

    def _run(self) -> None:
        """Do what was handed over, write it, and rest for a moment: being woken for every piece of every stream would
        cost those who hand over more than all of the work."""
        while (item := self._queue.get()) is not None:
            size, work, args = item
            self._guarded(work, *args)
            self._done += size
            del item, args  # not to keep a body in memory while there is nothing to do
            if self._queue.empty():
                self._write_all()
                self._closing.wait(REST)
        self._write_all()

    def _write_all(self) -> None:
        unwritten, self.unwritten = self.unwritten, {}
        for writing in unwritten:
            writing.safely(writing.write_out)

    def _guarded(self, work: Callable[..., object], *args: Any) -> None:
        try:
            work(*args)
        except Exception:  # a fault in here must not end the recording of all other exchanges
            log.exception("something failed while recordings were written")


class Writing:
    """One recording. Its public methods are for whoever records, the others run in the recorder's thread."""

    def __init__(self, recorder: Recorder, name: str, secrets: Iterable[str]) -> None:
        self._recorder = recorder
        self._name = name
        self._over = False  # nothing more is handed over
        # From here on: of the recorder's thread.
        self._redactor = Redactor((), recorder.finders)
        self._streams: dict[int, Stream] = {}
        self._size = 0  # of all lines
        self._waiting = 0  # of those that are not written
        self._cut: str | None = None
        self._failed = False
        self._lost = False
        self._begun = False
        self._unwritten: list[bytes] = []
        self.hide(secrets)

    def begin(self, head: Head, request: ClientRequest, body: bytes, content_type: str = "") -> None:
        """What came. Without it there is no recording."""
        self._hand_over(len(body), self._begin, head, request, body, _is_binary(content_type))

    def line(self, line: Line, body: bytes = b"", content_type: str = "") -> None:
        """Anything that is whole."""
        self._hand_over(len(body), self._line, line, body, _is_binary(content_type))

    def made(self, line: Line, size: int, make: Callable[[], bytes]) -> None:
        """The same for a body of about this size that nobody has made yet: the recorder's thread does."""
        self._hand_over(size, self._made, line, make)

    def piece(self, stream: int, at: float, data: bytes, content_type: str = "") -> None:
        """A part of a body: of the client's (0), or of the upstream's answer to this attempt."""
        self._hand_over(len(data), self._piece, stream, at, data, _is_binary(content_type))

    def over(self, stream: int, at: float) -> None:
        """There is no more of a body."""
        self._hand_over(0, self._flush, stream, at)

    def hide(self, secrets: Iterable[str]) -> None:
        """More that no line may have in it."""
        self._hand_over(0, self._hide, tuple(secrets))

    def end(self, line: End) -> None:
        """The exchange is over. That is told even where all else had to be left out."""
        self._recorder.hand_over_in_any_case(0, self._end, line, self._over)

    def _hand_over(self, size: int, work: Callable[..., object], *args: Any) -> None:
        if not self._over and not self._recorder.hand_over(size, self.safely, work, *args):
            self._over = True

    def safely(self, work: Callable[..., object], *args: Any, **options: Any) -> None:
        """A fault of our own ends this recording and no other: it has what was there by then, and is told to be cut."""
        try:
            work(*args, **options)
        except Exception:
            if not self._failed:
                log.exception("the recording %s failed, and is cut", self._name)
            self._failed = True
            self._cut = self._cut or _FAULT

    def _hide(self, secrets: Sequence[str]) -> None:
        self._redactor.hide(secrets)

    def _begin(self, head: Head, request: ClientRequest, body: bytes, binary: bool) -> None:
        self._line(head, b"", False)
        self._line(request, body, binary)

    def _line(self, line: Line, body: bytes, binary: bool) -> None:
        if isinstance(line, UpstreamEnd):
            self._flush(line.attempt, line.at)
        if self._cut is not None:
            return
        given_up = self._recorder.given_up
        if isinstance(line, _DECLARING) and self._recorder.finders:
            self._redactor.keep(declared(body))
        if isinstance(line, Data) and body:
            redacted, numbers = self._redactor.redacted(body, binary=binary)
            if self._recorder.given_up > given_up:
                redacted, numbers = b"", []
            line = replace(line, **body_of(redacted))
            if isinstance(line, UpstreamRequest) and numbers:
                line = replace(line, numbers=numbers)
        line = clean(line, self._redactor)
        data = written(line)
        if isinstance(line, ClientRequest) and len(data) > self._recorder.limit:
            kept = self._redactor.body(body, binary=binary)[:KEPT_OF_LARGEST]
            self._write(written(replace(line, **{**_NOTHING, **body_of(kept)})))
            self._cut = "the request is larger than a recording may be"
            return
        self._write(data)
        self._cut_if(given_up)

    def _made(self, line: Line, make: Callable[[], bytes]) -> None:
        self._line(line, make(), False)

    def _cut_if(self, given_up: int) -> None:
        """What is left of a text when all of it was redacted is not worth the room, nor the rest the work."""
        if self._recorder.given_up > given_up:
            self._cut = self._cut or _TOO_HARD

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
        body = body_of(piece)
        self._write(written(UpstreamData(at=at, attempt=stream, **body) if stream else ClientData(at=at, **body)))

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
        if self._waiting > TOGETHER:
            self.write_out()

    def write_out(self, *, last: bool = False) -> None:
        """Write what is ready. The last line is written even if there is no room."""
        data, folder = joined(*self._unwritten), self._recorder.folder
        self._unwritten, self._waiting = [], 0
        if self._lost or not data:
            return
        try:
            if not self._begun:
                self._begun = folder.begin(self._name)
                self._lost = not self._begun
            if self._begun and not folder.append(self._name, data, anyway=last):
                self._cut = self._cut or "there is no room for it"
        except OSError as error:
            self._recorder.warn(error)
            self._lost = True
            self._begun = folder.give_up(self._name)

    def _end(self, line: End, over: bool) -> None:
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

    def _write_last(self, line: End) -> None:
        if not self._failed:
            self.safely(lambda: self._unwritten.append(written(clean(replace(line, cut=self._cut), self._redactor))))
        if self._failed:  # our own words alone: nobody knows whether anything else can be redacted
            self._unwritten = [written(End(at=line.at, cut=self._cut))]
        self.safely(self.write_out, last=True)

    def _finish(self) -> None:
        """Give the file the name of one that is written to no more."""
        try:
            self._recorder.folder.finish(self._name)
        except OSError as error:
            self._recorder.warn(error)
            self._lost = True
            self._recorder.folder.give_up(self._name)
        else:
            self._recorder.worked()


_NOTHING: dict[str, Any] = {"text": None, "base64": None}


def _is_binary(content_type: str) -> bool:
    return any(word in content_type for word in _BINARY)
