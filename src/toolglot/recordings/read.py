"""A recorded exchange as a value, read from its lines."""

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
    ClientRequest,
    ClientResponse,
    End,
    Head,
    ReceiptLines,
    Served,
    ServedProgress,
    ServedResult,
    ServedTools,
    StoreRead,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
    decoder,
)
from toolglot.wire import json

LONGEST_HEAD = 1024 * 1024
"""Bytes of the first line."""
NOT_ONE = "this is no recorded exchange: its first lines should be `exchange` and `client.request`"


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
    """One exchange. `lines` has everything in the order of time; `whole`: its end is there."""

    head: Head
    request: ClientRequest
    attempts: list[Attempt] = field(default_factory=list)
    response: ClientResponse | None = None
    pieces: list[ClientData] = field(default_factory=list)
    reads: list[StoreRead] = field(default_factory=list)
    """What the store had."""
    at_hand: ServedTools | None = None
    """The MCP servers for this exchange, if there were any; earlier versions do not tell."""
    progress: list[ServedProgress] = field(default_factory=list)
    results: list[ServedResult] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    receipt: list[dict[str, str]] = field(default_factory=list)
    end: End | None = None
    lines: list[AnyLine] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return self.end is not None and self.end.cut is None

    @property
    def serves(self) -> bool:
        """Is the answer one of a loop that may run tools in between?"""
        return self.at_hand is not None or bool(self.served)

    @property
    def missing(self) -> str | None:
        """Why it is not whole; None where it is."""
        if self.end is None:
            return "its writer was stopped"
        return self.end.cut

    @property
    def body(self) -> bytes:
        """What the client got."""
        return b"".join(piece.data for piece in self.pieces)


def read_file(file: Path) -> Recording:
    """The exchange in a file. One that does not begin as a recording is not read any further.

    Raises:
        OSError: it cannot be read.
        DecodeError: it is no recording, or one of a later version.
    """
    with file.open("rb") as lines:
        return read_open(lines)


def read_open(lines: IO[bytes]) -> Recording:
    """The same of a file that is open."""
    first = lines.readline(LONGEST_HEAD)
    if first.strip() and not isinstance(_read_line(first, 1, is_last=False), Head):
        raise DecodeError("$", NOT_ONE)
    return read_recording(chain((first,), lines))


def read_recording(data: bytes | Iterable[bytes]) -> Recording:
    """The exchange in these bytes, or lines. The last line may be cut: then it is left out.

    Raises:
        DecodeError: it is no recording, or one of a later version.
    """
    known = list(_read_lines(data.splitlines() if isinstance(data, bytes) else data))
    if len(known) < 2 or not isinstance(known[0], Head) or not isinstance(known[1], (ClientRequest, End)):
        raise DecodeError("$", NOT_ONE)
    # A request that is larger than a recording may be is left out.
    request = known[1] if isinstance(known[1], ClientRequest) else ClientRequest()
    recording = Recording(head=known[0], request=request, lines=known)
    for line in known[1:]:
        _add(recording, line)
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


def _add(recording: Recording, line: AnyLine) -> None:
    match line:
        case UpstreamRequest():
            recording.attempts.append(Attempt(request=line))
        case UpstreamResponse() | UpstreamData() | UpstreamEnd():
            _answer(recording, line)
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
        case Served():
            recording.served.append(line)
        case ReceiptLines():
            recording.receipt = line.lines
        case End():
            recording.end = line


def _answer(recording: Recording, line: UpstreamResponse | UpstreamData | UpstreamEnd) -> None:
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
