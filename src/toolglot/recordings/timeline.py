"""A recorded exchange in chronological order: the upstream's frames, their translation, the client's frames. The
upstream's bytes run through the current code, which shows the events between the two sides and the growing receipt. A
client frame is next to the upstream frame that caused it. A client frame without a match (a keep-alive, a frame that
the current code writes differently) has its own row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from toolglot.dialects import DIALECTS
from toolglot.errors import WOULD_LOSE
from toolglot.receipt import ReceiptLine, receipt_line
from toolglot.recordings.comparison import Comparison
from toolglot.recordings.format import (
    UNREAD,
    AnyLine,
    ClientData,
    ClientResponse,
    ReceiptLines,
    RecordingEnd,
    ServedToolLine,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
)
from toolglot.recordings.frame_cells import Cell, FrameSplitter, document_cell, frame_cell, frame_fingerprint
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.recorded_settings import added_content, missing_content
from toolglot.recordings.redact import REDACTED
from toolglot.recordings.redacted_spans import matches_text
from toolglot.recordings.retranslate import RetranslatedAttempt, TranslatedFrame
from toolglot.recordings.summaries import count_noun, decode_request, event_cell, request_text, result_cells
from toolglot.wire import json
from toolglot.wire.framing import EVENTS, Framing

NO_UPSTREAM = "none called"
FRAME_WINDOW = 64
"""Number of frames to search for the matching client frame."""


class TimelineRow(Struct, kw_only=True):
    """One frame of an upstream or of the client, with its translation."""

    at: float | None
    number: int = 0
    client: list[Cell] = field(default_factory=list)
    events: list[Cell] = field(default_factory=list)
    upstream: list[Cell] = field(default_factory=list)
    lines: tuple[ReceiptLine, ...] = ()
    """Receipt lines that were written here."""


class TimelineBanner(Struct, kw_only=True):
    """An entry between frames: another attempt, a tool that ran, the end."""

    at: float | None
    text: str
    kind: str = ""
    lines: tuple[ReceiptLine, ...] = ()


class TimelineRequest(Struct, frozen=True, kw_only=True):
    """A request: its summary and its full form."""

    title: str
    about: str
    body: Cell
    lines: tuple[str, ...] = ()
    """Receipt lines and passes for this request."""
    receipt: tuple[ReceiptLine, ...] = ()
    results: tuple[Cell, ...] = ()
    """Tool results sent with the request."""


class Timeline(Struct, kw_only=True):
    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    """Facts about the exchange, each with its name."""
    client: str
    upstream: str
    requests: list[TimelineRequest] = field(default_factory=list)
    entries: list[TimelineRow | TimelineBanner] = field(default_factory=list)
    totals: list[str] = field(default_factory=list)


RerunResult = Comparison | str | None
"""The differences of a rerun, or the reason why there is no rerun; None if unknown."""


def make_timeline(recording: Recording, *, recorded: bool = True, replayed: RerunResult = None) -> Timeline:
    """Build the timeline. `recorded` is False if there was no client; then it shows the frames that the current code
    writes.
    """
    return _TimelineBuilder(recording, recorded=recorded, replayed=replayed).build()


def _upstream_framing(dialect: str) -> Framing:
    return DIALECTS[dialect].stream.framing if dialect in DIALECTS else EVENTS


class _TimelineBuilder:
    def __init__(self, recording: Recording, *, recorded: bool, replayed: RerunResult) -> None:
        self._recording = recording
        self._replayed = replayed
        self._recorded = recorded
        self._again: RetranslatedAttempt | None = None
        self._attempt: Attempt | None = None
        self._cutter = FrameSplitter()
        self._framing = _upstream_framing(recording.head.client)
        self._client = FrameSplitter(self._framing)
        self._expected: deque[tuple[TimelineRow, bytes]] = deque()
        self._entries: list[TimelineRow | TimelineBanner] = []
        self._requests: list[TimelineRequest] = []
        self._receipt: set[tuple[str, str, str]] = set()
        self._recorded_receipt = recorded_receipt(recording) if recorded else None
        self._unknown = added_content(recording) or missing_content(recording)
        self._news: dict[tuple[str, str, str], ReceiptLine] = {}
        self._rows = self._client_frames = self._client_bytes = self._strange = 0
        self._cut_into_frames = False
        self._first: float | None = None
        self._last: float | None = None

    def build(self) -> Timeline:
        head = self._recording.head
        self._requests += self._describe_requests()
        for line in self._recording.lines:
            self._add_line(line)
        self._finish_attempt(None)
        self._client_rows(self._client.close(), self._last)
        upstreams = dict.fromkeys(attempt.request.dialect for attempt in self._recording.attempts)
        return Timeline(
            title=f"Exchange {head.id}" if self._recorded else head.id,
            facts=list(self._facts()) if self._recorded else [],
            client=head.client,
            upstream=", ".join(upstreams) or NO_UPSTREAM,
            requests=self._requests,
            entries=self._entries,
            totals=list(self._totals()),
        )

    def _facts(self) -> Iterator[tuple[str, str]]:
        head, recording = self._recording.head, self._recording
        if head.time:
            yield "time", head.time
        wanted = f"asks for {head.model}" if head.model else ""
        yield "client", ", ".join(filter(None, (head.client, wanted, "streaming" if head.stream else "")))
        yield (
            "upstream",
            "; ".join(dict.fromkeys(_describe_upstream(each.request) for each in recording.attempts)) or NO_UPSTREAM,
        )
        lost = dict.fromkeys(line.where for line in map(loss_from_line, recording.receipt) if line.severity == "loss")
        if lost:
            yield "lost", ", ".join(lost)

    def _describe_requests(self) -> Iterator[TimelineRequest]:
        request, head = self._recording.request, self._recording.head
        if request.data:
            body = document_cell(request.data, head.client)
            asked = decode_request(head.client, request.data)
            wanted = f"model {head.model}" if head.model else ""
            about = ", ".join(filter(None, (head.client, wanted, request_text(asked, len(request.data)))))
            title, results = f"client request: {request.method} {request.path}", result_cells(asked)
            yield TimelineRequest(title=title, about=about, body=body, results=results)

    def _add_line(self, line: AnyLine) -> None:
        match line:
            case UpstreamRequest():
                self._begin_attempt(line)
            case UpstreamResponse(status=status) if status >= 400:
                self._banner(line.at, f"attempt {line.attempt}: status {status}", "error")
            case UpstreamData():
                self._upstream_rows(self._cutter.feed(line.data), line.at)
            case UpstreamEnd(error=error):
                self._finish_attempt(line.at)
                if error == UNREAD:
                    self._note_unread(line)
                elif error is not None:
                    self._banner(line.at, f"attempt {line.attempt} broke off: {error}", "error")
            case ClientResponse(status=status) if status >= 400:
                self._banner(line.at, f"the client gets status {status}", "error")
            case ClientData():
                self._first = line.at if self._first is None else self._first
                self._last = line.at
                self._client_rows(self._client.feed(line.data), line.at)
            case ServedToolLine():
                how = "failed" if line.failed else "ran"
                told = f"the tool {line.tool} of {line.server} {how} here, {line.seconds:.3f} s: {line.arguments}"
                self._banner(line.at, told, "error" if line.failed else "served")
            case RecordingEnd(cancelled=True):
                self._banner(line.at, "the client disconnected", "error")
            case _:
                pass

    def _begin_attempt(self, line: UpstreamRequest) -> None:
        self._finish_attempt(None)
        self._attempt = next(each for each in self._recording.attempts if each.request is line)
        if self._again is not None and self._again.is_retried():
            self._banner(
                line.at, f"attempt {line.attempt}: the model is asked again because of an invalid call", "attempt"
            )
            return
        self._expected.clear()
        self._cutter = FrameSplitter(_upstream_framing(line.dialect))
        again = self._again = RetranslatedAttempt(self._recording, self._attempt)
        lines = tuple(loss for change in again.changes for loss in change.lines)
        if not line.data:
            return
        asked = replace(
            _make_upstream_request(line, again, self._describe_request(again)), receipt=self._new_lines(lines)
        )
        self._requests += [asked] if line.attempt == 1 else []
        if line.attempt > 1:
            self._banner(line.at, f"{asked.title} ({asked.about})", "attempt", asked.receipt)

    def _describe_request(self, again: RetranslatedAttempt) -> str | None:
        """Describe how the current code makes the request of the current attempt. A rerun of the whole exchange takes
        precedence.
        """
        number = next(at for at, each in enumerate(self._recording.attempts) if each is self._attempt)
        replayed = self._replayed
        differs, put = not again.same, self._unknown
        if isinstance(replayed, Comparison):
            differs, put = (
                number < len(replayed.requests) and bool(replayed.requests[number]),
                added_content(self._recording),
            )
        elif again.refused is not None and replayed is None:
            return f"the current code does not make this request: {again.refused}"
        if differs and isinstance(replayed, str):
            return f"not made again: {replayed}"
        if differs and (isinstance(replayed, Comparison) or not (put or self._recording.runs_tools)):
            return "the current code makes a different request: `toolglot replay` shows the differences"
        if again.same:
            return None
        if put is not None:
            return f"not made again: {put}" if replayed is None else f"with what was kept: {put}"
        return "with the tools that are run here, and what they have returned" if self._recording.runs_tools else None

    def _finish_attempt(self, at: float | None) -> None:
        """End an upstream's bytes, as recorded, or because there is nothing more."""
        attempt, again = self._attempt, self._again
        if attempt is None or again is None:
            return
        self._attempt = None
        rest = self._cutter.close()
        streamed = not again.streams and self._cut_into_frames
        self._cut_into_frames = False
        ended = attempt.end is not None or not self._recorded
        at = attempt.pieces[-1].at if at is None and attempt.pieces else at
        status = attempt.response.status if attempt.response is not None else 200
        for frame in rest:
            if status >= 400:
                self._add_upstream_row(frame, again.failed(frame), at)
            elif again.streams or streamed:
                self._add_upstream_row(frame, again.feed(frame), at)
            else:
                self._add_upstream_row(frame, again.whole(frame), at)
        if streamed and status < 400:  # the client wanted a whole answer
            self._add_upstream_row(b"", replace(again.whole(attempt.body), events=()), at)
        read = attempt.end is None or attempt.end.error != UNREAD  # otherwise its end was not read
        if again.streams and status < 400 and attempt.pieces and read:
            self._add_end(again.close(), at, ended=ended)

    def _note_unread(self, line: UpstreamEnd) -> None:
        """Note an unread rest of the answer, unless the client's disconnect is already reported."""
        if self._recording.end is None or not self._recording.end.cancelled:
            self._banner(line.at, f"attempt {line.attempt}: the rest of the answer is not read", "attempt")

    def _add_end(self, done: TranslatedFrame, at: float | None, *, ended: bool) -> None:
        """Add facts that only the end shows, for example a stream that ends too early."""
        if not ended:
            self._banner(at, "the recording breaks off here", "error")
        elif done.events or done.written:
            self._add_upstream_row(b"", done, at)

    def _upstream_rows(self, frames: Iterable[bytes], at: float) -> None:
        if self._again is None or self._attempt is None:
            return
        status = self._attempt.response.status if self._attempt.response is not None else 200
        for frame in frames:
            self._cut_into_frames = True
            self._add_upstream_row(frame, self._again.failed(frame) if status >= 400 else self._again.feed(frame), at)

    def _add_upstream_row(self, frame: bytes, done: TranslatedFrame, at: float | None) -> None:
        assert self._again is not None
        row = TimelineRow(
            at=at if self._recorded else None,
            events=[event_cell(event) for event in done.events],
            lines=self._new_lines(done.lines),
        )
        row.upstream = [frame_cell(frame, self._again.exchange.upstream.name)] if frame else []
        self._add(row)
        cutter = FrameSplitter(self._framing)
        for written in (*cutter.feed(done.written), *cutter.close()):
            if self._recorded:
                # If the gateway runs tools, one answer to the client consists of several answers, which do not match
                # frame by frame.
                self._expected += [] if self._recording.runs_tools else [(row, frame_fingerprint(written))]
            else:
                self._client_frames += 1
                self._client_bytes += len(written)
                row.client.append(frame_cell(written, self._recording.head.client))

    def _client_rows(self, frames: Iterable[bytes], at: float | None) -> None:
        """Assign each client frame to the row that caused it."""
        for frame in frames:
            self._client_frames += 1
            cell = frame_cell(frame, self._recording.head.client)
            row = self._find_row(frame)
            if row is not None:
                row.client.append(cell)
                continue
            self._strange += not frame.startswith(b":")
            last = self._entries[-1] if self._entries else None
            if isinstance(last, TimelineRow) and (self._recording.runs_tools or not (last.upstream or last.events)):
                last.client.append(cell)
            else:
                self._add(TimelineRow(at=at, client=[cell]))

    def _find_row(self, frame: bytes) -> TimelineRow | None:
        wanted = frame_fingerprint(frame)
        for number, (row, written) in enumerate(self._expected):
            if number >= FRAME_WINDOW:
                break
            if written == wanted:
                for _ in range(number + 1):
                    self._expected.popleft()
                return row
        return None

    def _add(self, row: TimelineRow) -> None:
        self._rows += 1
        row.number = self._rows
        self._entries.append(row)

    def _banner(self, at: float | None, text: str, kind: str = "", lines: tuple[ReceiptLine, ...] = ()) -> None:
        self._entries.append(TimelineBanner(at=at, text=text, kind=kind, lines=lines))

    def _new_lines(self, lines: Sequence[ReceiptLine]) -> tuple[ReceiptLine, ...]:
        """Return receipt lines that were not shown before. The recorded receipt counts: other lines are listed
        separately."""
        fresh = [line for line in lines if receipt_key(line) not in self._receipt]
        self._receipt |= {receipt_key(line) for line in fresh}
        if self._recorded_receipt is None:
            return tuple(fresh)
        self._news |= {receipt_key(line): line for line in fresh if not self._recorded_receipt.has(receipt_key(line))}
        return tuple(line for line in fresh if receipt_key(line) not in self._news)

    def _totals(self) -> Iterator[str]:
        recording = self._recording
        told = self._receipt if self._recorded_receipt is None else self._recorded_receipt.found
        rest = [line for line in map(loss_from_line, recording.receipt) if receipt_key(line) not in told]
        for line in rest:
            yield f"receipt{', from elsewhere' if recording.attempts else ''}: {line}"
        yield from self._receipt_totals()
        first = f", the first byte to the client after {self._first:.3f} s" if self._first is not None else ""
        if self._recorded:
            served = f", {count_noun(len(recording.served), 'tool')} run here" if recording.served else ""
            yield f"{count_noun(len(recording.attempts), 'attempt')}{served}{first}"
        got = sum(len(piece.data) for attempt in recording.attempts for piece in attempt.pieces)
        written = len(recording.body) if self._recorded else self._client_bytes
        frames = count_noun(self._client_frames, "frame")
        yield f"{count_noun(got, 'byte')} from upstream, {count_noun(written, 'byte')} to the client in {frames}"
        yield from self._end_totals()
        yield from self._answer_totals()

    def _receipt_totals(self) -> Iterator[str]:
        replayed = self._replayed
        differs = bool(replayed.receipt) if isinstance(replayed, Comparison) else self._unknown is None
        if not differs or isinstance(replayed, str):
            return
        for line in self._news.values():
            yield f"the current code would report: {line}"
        if replayed is not None and not self._news:
            yield "the current code writes a different receipt: `toolglot replay` shows the differences"

    def _answer_totals(self) -> Iterator[str]:
        recording, replayed = self._recording, self._replayed
        if isinstance(replayed, str):
            yield f"`toolglot replay` does not run it again: {replayed}"
            return
        failed = recording.response is not None and recording.response.status >= 400
        placed = failed or recording.runs_tools or not (self._strange or self._expected)
        differs = bool(recording.body and recording.whole and not placed)
        if replayed is not None:
            differs = bool(replayed.answer or replayed.breaches)
        if differs:
            yield "the current code writes different bytes to the client: `toolglot replay` shows the differences"

    def _end_totals(self) -> Iterator[str]:
        end = self._recording.end
        if not self._recorded:
            return
        if end is None:
            yield "the recording has no end: its writer was stopped"
            return
        usage = ", ".join(f"{name} {count}" for name, count in (end.usage or {}).items() if count)
        message = end.message or ""
        if message.startswith(WOULD_LOSE) and self._recording.receipt:
            message = f"{WOULD_LOSE} what the receipt tells"  # the receipt above says it
        failure = f"error {end.error}: {message}" if end.error is not None else ""
        told = [f"stop reason {end.stop}" if end.stop else "", usage, failure, f"cut: {end.cut}" if end.cut else ""]
        if any(told):
            yield ", ".join(filter(None, told))


def _describe_upstream(line: UpstreamRequest) -> str:
    name = f"{line.upstream} ({line.dialect})" if line.upstream else line.dialect
    return f"{name}, model {line.model}" if line.model else name


def _make_upstream_request(line: UpstreamRequest, again: RetranslatedAttempt, made: str | None) -> TimelineRequest:
    passes = dict.fromkeys(change.name for change in again.changes)
    if again.exchange.verbatim and again.same:
        how = "the client's bytes, except for the model's name"
    else:
        how = (
            f"changed by the pass{'es' if len(passes) > 1 else ''} {', '.join(passes)}"
            if passes
            else "translated; no pass changed anything"
        )
    lines = [how] if made is None else [how, made]
    about = request_text(decode_request(line.dialect, line.data), len(line.data))
    return TimelineRequest(
        title=f"{'upstream request' if line.attempt == 1 else f'attempt {line.attempt}'}: {line.method} {line.url}",
        about=f"{_describe_upstream(line)}, {about}",
        body=document_cell(line.data, line.dialect),
        lines=tuple(lines),
    )


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
    """Return the recorded receipt. None if the recording has no receipt, so that its content is unknown."""
    if not any(isinstance(line, ReceiptLines) for line in recording.lines):
        return None
    return RecordedReceipt(map(receipt_key, map(loss_from_line, recording.receipt)))


def receipt_key(line: ReceiptLine) -> ReceiptKey:
    return line.where, line.what, line.why


def loss_from_line(line: dict[str, str]) -> ReceiptLine:
    where, what, why = (line.get(name, "") for name in ("where", "what", "why"))
    return receipt_line("note" if line.get("severity") == "note" else "loss", where, what, why)
