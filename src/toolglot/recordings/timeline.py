"""A recorded exchange in the order of time: what the upstream sent, what was made of it, what the client got.

The upstream's bytes are run through today's code, so that the events between the two sides are seen, and the receipt
while it grows. A frame that the client got stands beside the one that it was written for; one that nobody can place (a
keep-alive, a frame that today's code would write otherwise) has a row of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from toolglot.dialects import DIALECTS
from toolglot.errors import WOULD_LOSE
from toolglot.receipt import Loss
from toolglot.recordings.again import Again, Done
from toolglot.recordings.comparison import Comparison
from toolglot.recordings.format import (
    UNREAD,
    AnyLine,
    ClientData,
    ClientResponse,
    End,
    Served,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
)
from toolglot.recordings.frames import Cell, Cutter, cell_of, document_cell, mark_of
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.recorded_receipt import key_of, loss_of, receipt_of
from toolglot.recordings.settings import put_in, why_not_again
from toolglot.recordings.wording import counted, decoded, event_cell, request_text, result_cells
from toolglot.wire.framing import EVENTS, Framing

WINDOW = 64
"""So many frames ahead are looked at for the one that the client got."""


class Row(Struct, kw_only=True):
    """One frame of an upstream, or of the client, and what belongs to it."""

    at: float | None
    number: int = 0
    client: list[Cell] = field(default_factory=list)
    events: list[Cell] = field(default_factory=list)
    upstream: list[Cell] = field(default_factory=list)
    lines: tuple[Loss, ...] = ()
    """Of the receipt, written here."""


class Banner(Struct, kw_only=True):
    """Something between frames: another attempt, a tool that was run, the end."""

    at: float | None
    text: str
    kind: str = ""
    lines: tuple[Loss, ...] = ()


class Asked(Struct, frozen=True, kw_only=True):
    """A request: what it is, and all of it."""

    title: str
    about: str
    body: Cell
    lines: tuple[str, ...] = ()
    """What was done to it on the way."""
    receipt: tuple[Loss, ...] = ()
    results: tuple[Cell, ...] = ()
    """Of tools, that came with it."""


class Timeline(Struct, kw_only=True):
    title: str
    client: str
    upstream: str
    requests: list[Asked] = field(default_factory=list)
    entries: list[Row | Banner] = field(default_factory=list)
    totals: list[str] = field(default_factory=list)


Replayed = Comparison | str | None
"""What differs when the exchange is run again, with all that was around it; why it cannot be; None: nobody knows."""


def timeline_of(recording: Recording, *, recorded: bool = True, replayed: Replayed = None) -> Timeline:
    """The whole of it. `recorded` is False where nobody was answered: then the client gets what would be written."""
    return _Teller(recording, recorded=recorded, replayed=replayed).told()


def _framing_of(dialect: str) -> Framing:
    return DIALECTS[dialect].stream.framing if dialect in DIALECTS else EVENTS


class _Teller:
    def __init__(self, recording: Recording, *, recorded: bool, replayed: Replayed) -> None:
        self._recording = recording
        self._replayed = replayed
        self._recorded = recorded
        self._again: Again | None = None
        self._attempt: Attempt | None = None
        self._cutter = Cutter()
        self._framing = _framing_of(recording.head.client)
        self._client = Cutter(self._framing)
        self._expected: deque[tuple[Row, bytes]] = deque()
        self._entries: list[Row | Banner] = []
        self._requests: list[Asked] = []
        self._receipt: set[tuple[str, str, str]] = set()
        self._recorded_receipt = receipt_of(recording) if recorded else None
        self._unknown = put_in(recording) or why_not_again(recording)
        self._news: dict[tuple[str, str, str], Loss] = {}
        self._rows = self._client_frames = self._client_bytes = self._strange = 0
        self._cut_into_frames = False
        self._first: float | None = None
        self._last: float | None = None

    def told(self) -> Timeline:
        head = self._recording.head
        self._requests += self._asked()
        for line in self._recording.lines:
            self._tell(line)
        self._finish_attempt(None)
        self._client_rows(self._client.close(), self._last)
        upstreams = dict.fromkeys(attempt.request.dialect for attempt in self._recording.attempts)
        about = [
            f"client {head.client}",
            f"model {head.model}" if head.model else "",
            "streaming" if head.stream else "",
        ]
        return Timeline(
            title=" ".join(filter(None, (head.id, ", ".join(filter(None, about)), head.time))),
            client=head.client,
            upstream=", ".join(upstreams) or "none asked",
            requests=self._requests,
            entries=self._entries,
            totals=list(self._totals()),
        )

    def _asked(self) -> Iterator[Asked]:
        request, head = self._recording.request, self._recording.head
        if request.data:
            body = document_cell(request.data, head.client)
            asked = decoded(head.client, request.data)
            about = f"{head.client}, {request_text(asked, len(request.data))}"
            title, results = f"client request: {request.method} {request.path}", result_cells(asked)
            yield Asked(title=title, about=about, body=body, results=results)

    def _tell(self, line: AnyLine) -> None:
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
                    self._not_read(line)
                elif error is not None:
                    self._banner(line.at, f"attempt {line.attempt} broke off: {error}", "error")
            case ClientResponse(status=status) if status >= 400:
                self._banner(line.at, f"the client is told: status {status}", "error")
            case ClientData():
                self._first = line.at if self._first is None else self._first
                self._last = line.at
                self._client_rows(self._client.feed(line.data), line.at)
            case Served():
                how = "failed" if line.failed else "ran"
                told = f"the tool {line.tool} of {line.server} {how} here, {line.seconds:.3f} s: {line.arguments}"
                self._banner(line.at, told, "error" if line.failed else "served")
            case End(cancelled=True):
                self._banner(line.at, "the client went away", "error")
            case _:
                pass

    def _begin_attempt(self, line: UpstreamRequest) -> None:
        self._finish_attempt(None)
        self._attempt = next(each for each in self._recording.attempts if each.request is line)
        if self._again is not None and self._again.again():
            self._banner(
                line.at, f"attempt {line.attempt}: the model is asked again, because of a wrong call", "attempt"
            )
            return
        self._expected.clear()
        self._cutter = Cutter(_framing_of(line.dialect))
        again = self._again = Again(self._recording, self._attempt)
        lines = tuple(loss for change in again.changes for loss in change.lines)
        if not line.data:
            return
        asked = replace(_upstream_request(line, again, self._how_made(again)), receipt=self._new(lines))
        self._requests += [asked] if line.attempt == 1 else []
        if line.attempt > 1:
            self._banner(line.at, f"{asked.title} ({asked.about})", "attempt", asked.receipt)

    def _how_made(self, again: Again) -> str | None:
        """What is to be said of how today's code makes the request of the current attempt. Whoever runs all of the
        exchange again knows best."""
        number = next(at for at, each in enumerate(self._recording.attempts) if each is self._attempt)
        replayed = self._replayed
        differs, put = not again.same, self._unknown
        if isinstance(replayed, Comparison):
            differs, put = number < len(replayed.requests) and bool(replayed.requests[number]), put_in(self._recording)
        elif again.refused is not None and replayed is None:
            return f"today's code does not make this request: {again.refused}"
        if differs and isinstance(replayed, str):
            return f"not made again: {replayed}"
        if differs and (isinstance(replayed, Comparison) or not (put or self._recording.serves)):
            return "today's code makes another request of it: `toolglot replay` tells the differences"
        if again.same:
            return None
        if put is not None:
            return f"not made again: {put}" if replayed is None else f"with what was kept: {put}"
        return "with the tools that are run here, and what they have returned" if self._recording.serves else None

    def _finish_attempt(self, at: float | None) -> None:
        """The end of an upstream's bytes, as the recording tells it, or because there is nothing more."""
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
                self._row(frame, again.failed(frame), at)
            elif again.streams or streamed:
                self._row(frame, again.feed(frame), at)
            else:
                self._row(frame, again.whole(frame), at)
        if streamed and status < 400:  # the client wanted it whole
            self._row(b"", replace(again.whole(attempt.body), events=()), at)
        read = attempt.end is None or attempt.end.error != UNREAD  # else nobody was told how it ends
        if again.streams and status < 400 and attempt.pieces and read:
            self._ended(again.close(), at, ended=ended)

    def _not_read(self, line: UpstreamEnd) -> None:
        """Where the client went away, that is told, and enough."""
        if self._recording.end is None or not self._recording.end.cancelled:
            self._banner(line.at, f"attempt {line.attempt}: the rest of the answer is not read", "attempt")

    def _ended(self, done: Done, at: float | None, *, ended: bool) -> None:
        """What only the end tells: a stream that stops too soon, say."""
        if not ended:
            self._banner(at, "the recording breaks off here", "error")
        elif done.events or done.written:
            self._row(b"", done, at)

    def _upstream_rows(self, frames: Iterable[bytes], at: float) -> None:
        if self._again is None or self._attempt is None:
            return
        status = self._attempt.response.status if self._attempt.response is not None else 200
        for frame in frames:
            self._cut_into_frames = True
            self._row(frame, self._again.failed(frame) if status >= 400 else self._again.feed(frame), at)

    def _row(self, frame: bytes, done: Done, at: float | None) -> None:
        assert self._again is not None
        row = Row(
            at=at if self._recorded else None,
            events=[event_cell(event) for event in done.events],
            lines=self._new(done.lines),
        )
        row.upstream = [cell_of(frame, self._again.exchange.upstream.name)] if frame else []
        self._add(row)
        cutter = Cutter(self._framing)
        for written in (*cutter.feed(done.written), *cutter.close()):
            if self._recorded:
                # Where tools are run here, one answer to the client is made of several, and not frame by frame.
                self._expected += [] if self._recording.serves else [(row, mark_of(written))]
            else:
                self._client_frames += 1
                self._client_bytes += len(written)
                row.client.append(cell_of(written, self._recording.head.client))

    def _client_rows(self, frames: Iterable[bytes], at: float | None) -> None:
        """Frames that the client got: each to the row that it was written for."""
        for frame in frames:
            self._client_frames += 1
            cell = cell_of(frame, self._recording.head.client)
            row = self._row_of(frame)
            if row is not None:
                row.client.append(cell)
                continue
            self._strange += not frame.startswith(b":")
            last = self._entries[-1] if self._entries else None
            if isinstance(last, Row) and (self._recording.serves or not (last.upstream or last.events)):
                last.client.append(cell)
            else:
                self._add(Row(at=at, client=[cell]))

    def _row_of(self, frame: bytes) -> Row | None:
        wanted = mark_of(frame)
        for number, (row, written) in enumerate(self._expected):
            if number >= WINDOW:
                break
            if written == wanted:
                for _ in range(number + 1):
                    self._expected.popleft()
                return row
        return None

    def _add(self, row: Row) -> None:
        self._rows += 1
        row.number = self._rows
        self._entries.append(row)

    def _banner(self, at: float | None, text: str, kind: str = "", lines: tuple[Loss, ...] = ()) -> None:
        self._entries.append(Banner(at=at, text=text, kind=kind, lines=lines))

    def _new(self, lines: Sequence[Loss]) -> tuple[Loss, ...]:
        """Lines of the receipt that no other place has told. The recorded receipt is what counts: what it does not have
        is told apart."""
        fresh = [line for line in lines if key_of(line) not in self._receipt]
        self._receipt |= {key_of(line) for line in fresh}
        if self._recorded_receipt is None:
            return tuple(fresh)
        self._news |= {key_of(line): line for line in fresh if not self._recorded_receipt.has(key_of(line))}
        return tuple(line for line in fresh if key_of(line) not in self._news)

    def _totals(self) -> Iterator[str]:
        recording = self._recording
        told = self._receipt if self._recorded_receipt is None else self._recorded_receipt.found
        rest = [line for line in map(loss_of, recording.receipt) if key_of(line) not in told]
        for line in rest:
            yield f"receipt{', from elsewhere' if recording.attempts else ''}: {line}"
        yield from self._news_told()
        first = f", the first byte to the client after {self._first:.3f} s" if self._first is not None else ""
        if self._recorded:
            served = f", {counted(len(recording.served), 'tool')} run here" if recording.served else ""
            yield f"{counted(len(recording.attempts), 'attempt')}{served}{first}"
        got = sum(len(piece.data) for attempt in recording.attempts for piece in attempt.pieces)
        written = len(recording.body) if self._recorded else self._client_bytes
        frames = counted(self._client_frames, "frame")
        yield f"{counted(got, 'byte')} from upstream, {counted(written, 'byte')} to the client in {frames}"
        yield from self._end()
        yield from self._answer_told()

    def _news_told(self) -> Iterator[str]:
        """Of the receipt."""
        replayed = self._replayed
        differs = bool(replayed.receipt) if isinstance(replayed, Comparison) else self._unknown is None
        if not differs or isinstance(replayed, str):
            return
        for line in self._news.values():
            yield f"today's code would say: {line}"
        if replayed is not None and not self._news:
            yield "today's code writes another receipt: `toolglot replay` tells the differences"

    def _answer_told(self) -> Iterator[str]:
        recording, replayed = self._recording, self._replayed
        if isinstance(replayed, str):
            yield f"`toolglot replay` does not run it again: {replayed}"
            return
        failed = recording.response is not None and recording.response.status >= 400
        placed = failed or recording.serves or not (self._strange or self._expected)
        differs = bool(recording.body and recording.whole and not placed)
        if replayed is not None:
            differs = bool(replayed.answer or replayed.breaches)
        if differs:
            yield "today's code writes other bytes to the client: `toolglot replay` tells the differences"

    def _end(self) -> Iterator[str]:
        end = self._recording.end
        if not self._recorded:
            return
        if end is None:
            yield "the end of the recording is missing: its writer was stopped"
            return
        usage = ", ".join(f"{name} {count}" for name, count in (end.usage or {}).items() if count)
        message = end.message or ""
        if message.startswith(WOULD_LOSE) and self._recording.receipt:
            message = f"{WOULD_LOSE} what the receipt tells"  # which stands above
        failure = f"error {end.error}: {message}" if end.error is not None else ""
        told = [f"stop {end.stop}" if end.stop else "", usage, failure, f"cut: {end.cut}" if end.cut else ""]
        if any(told):
            yield ", ".join(filter(None, told))


def _upstream_request(line: UpstreamRequest, again: Again, made: str | None) -> Asked:
    passes = dict.fromkeys(change.name for change in again.changes)
    if again.exchange.verbatim and again.same:
        how = "the client's bytes, but for the model's name"
    else:
        how = f"changed by {', '.join(passes)}" if passes else "translated; no pass changed anything"
    lines = [how] if made is None else [how, made]
    about = request_text(decoded(line.dialect, line.data), len(line.data))
    return Asked(
        title=f"attempt {line.attempt}: {line.method} {line.url}",
        about=", ".join(filter(None, (line.upstream, line.dialect, line.model, about))),
        body=document_cell(line.data, line.dialect),
        lines=tuple(lines),
    )
