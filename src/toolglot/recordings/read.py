"""Read a recorded exchange from its lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct, field

from toolglot.errors import DecodeError
from toolglot.recordings.format import (
    AnyLine,
    ClientData,
    ClientResponse,
    ReceiptLines,
    RecordedClientRequest,
    RecordingEnd,
    RecordingHead,
    ServedProgress,
    ServedResult,
    ServedToolLine,
    ServedTools,
    StoreRead,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
    decoder,
)
from toolglot.wire import json

MAX_HEAD_BYTES = 1024 * 1024
"""Maximum bytes of the first line."""
NOT_A_RECORDING = "this is not a recorded exchange: its first lines should be `exchange` and `client.request`"


class Attempt(Struct, kw_only=True):
    """One call to an upstream, and its answer."""

    request: UpstreamRequest
    response: UpstreamResponse | None = None
    pieces: list[UpstreamData] = field(default_factory=list)
    end: UpstreamEnd | None = None

    @property
    def body(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)


class Recording(Struct, kw_only=True):
    """One exchange. `lines` has everything in chronological order; `whole`: the end was recorded."""

    head: RecordingHead
    request: RecordedClientRequest
    attempts: list[Attempt] = field(default_factory=list)
    response: ClientResponse | None = None
    pieces: list[ClientData] = field(default_factory=list)
    reads: list[StoreRead] = field(default_factory=list)
    """State that was read from the store."""
    at_hand: ServedTools | None = None
    """The MCP servers for this exchange, if any; earlier versions do not record them."""
    progress: list[ServedProgress] = field(default_factory=list)
    results: list[ServedResult] = field(default_factory=list)
    served: list[ServedToolLine] = field(default_factory=list)
    receipt: list[dict[str, str]] = field(default_factory=list)
    end: RecordingEnd | None = None
    lines: list[AnyLine] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return self.end is not None and self.end.cut is None

    @property
    def runs_tools(self) -> bool:
        """Whether the answer is from a loop that may run tools in between."""
        return self.at_hand is not None or bool(self.served)

    @property
    def missing(self) -> str | None:
        """The reason why it is incomplete; None if it is complete."""
        if self.end is None:
            return "its writer was stopped"
        return self.end.cut

    @property
    def body(self) -> bytes:
        """The body that the client received."""
        return b"".join(piece.data for piece in self.pieces)


def read_file(file: Path) -> Recording:
    """Read the exchange in a file. If it does not begin as a recording, the rest is not read.

    Raises:
        OSError: it cannot be read.
        DecodeError: it is not a recording, or one of a later version.
    """
    with file.open("rb") as lines:
        return read_open(lines)


def read_open(lines: IO[bytes]) -> Recording:
    """Same, for an open file."""
    first = lines.readline(MAX_HEAD_BYTES)
    if first.strip() and not isinstance(_read_line(first, 1, is_last=False), RecordingHead):
        raise DecodeError("$", NOT_A_RECORDING)
    return read_recording(chain((first,), lines))


def read_recording(data: bytes | Iterable[bytes]) -> Recording:
    """Read the exchange from bytes or lines. A truncated last line is ignored.

    Raises:
        DecodeError: it is not a recording, or one of a later version.
    """
    known = list(_read_lines(data.splitlines() if isinstance(data, bytes) else data))
    if (
        len(known) < 2
        or not isinstance(known[0], RecordingHead)
        or not isinstance(known[1], (RecordedClientRequest, RecordingEnd))
    ):
        raise DecodeError("$", NOT_A_RECORDING)
    # A request that exceeds the size limit of a recording is omitted.
    request = known[1] if isinstance(known[1], RecordedClientRequest) else RecordedClientRequest()
    recording = Recording(head=known[0], request=request, lines=known)
    for line in known[1:]:
        _add_line(recording, line)
    return recording


def _read_lines(lines: Iterable[bytes]) -> Iterator[AnyLine]:
    for number, (text, following) in enumerate(pairwise(chain(lines, (None,))), 1):
        assert text is not None
        line = _read_line(text, number, is_last=following is None) if text.strip() else None
        if line is not None:
            yield line


def _read_line(text: bytes, number: int, *, is_last: bool) -> AnyLine | None:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        if "Invalid value" in str(error) and "$.type" in str(error):
            return None  # of a later version
        raise DecodeError(f"line {number}", str(error)) from None
    except RecursionError:
        raise DecodeError(f"line {number}", json.TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if is_last:
            return None
        raise DecodeError(f"line {number}", f"this is not JSON: {error}") from None


def _add_line(recording: Recording, line: AnyLine) -> None:
    match line:
        case UpstreamRequest():
            recording.attempts.append(Attempt(request=line))
        case UpstreamResponse() | UpstreamData() | UpstreamEnd():
            _add_answer_line(recording, line)
        case ClientResponse():
            recording.response = line
        case ClientData():
            recording.pieces.append(line)
        case StoreRead():
            recording.reads.append(line)
        case ServedTools():
            recording.at_hand = line
        case ServedProgress():
            recording.progress.append(line)
        case ServedResult():
            recording.results.append(line)
        case ServedToolLine():
            recording.served.append(line)
        case ReceiptLines():
            recording.receipt = line.lines
        case RecordingEnd():
            recording.end = line


def _add_answer_line(recording: Recording, line: UpstreamResponse | UpstreamData | UpstreamEnd) -> None:
    attempt = next((each for each in recording.attempts if each.request.attempt == line.attempt), None)
    if attempt is None:
        raise DecodeError("$", f"there is an answer to the upstream request {line.attempt}, and no such request")
    match line:
        case UpstreamResponse():
            attempt.response = line
        case UpstreamData():
            attempt.pieces.append(line)
        case UpstreamEnd():
            attempt.end = line
