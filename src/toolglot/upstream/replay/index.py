"""An index of recordings by request. For each recorded call it holds a few hashes in memory; the rest is read from disk
on demand. Changed folders are scanned again, so new recordings are found."""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolglot.errors import DecodeError, ToolglotError
from toolglot.passes.answer_state import issuer_of
from toolglot.recordings.format import SUFFIX, VERSION, RecordingHead, UpstreamRequest, decoder
from toolglot.recordings.read import Attempt, Recording, read_file
from toolglot.recordings.redacted_spans import recorded_body
from toolglot.upstream.replay.matching import (
    RequestFingerprint,
    RequestPart,
    fingerprint_request,
    likeness,
    matches_redacted,
    redaction_gap,
    request_document,
    request_parts,
)

log = logging.getLogger("toolglot.server")

MAX_ENTRIES = 100_000
"""Maximum number of indexed calls."""
MAX_FOLDERS = 10_000
MAX_LINE = 64 * 1024 * 1024
MAX_HOLE_CANDIDATES = 64
"""Redacted recordings to read, those with the smallest redactions first, to see whether they match a request."""


class RecordedCallEntry(Struct, frozen=True, kw_only=True):
    """One recorded call."""

    order: tuple[str, str, int]
    """Time of its exchange, file name, and index of the call in it: the order of recording."""
    file: Path
    attempt: int
    dialect: str
    model: str
    asked: RequestFingerprint
    issuer: str = ""
    """The server that accepts the state that clients carry for it."""


MatchKind: TypeAlias = Literal["exact", "changed", "redacted"]
"""How a recorded request matches: exactly, except for values that change between runs, or except for redacted
values."""


class RecordedCall(Struct, frozen=True):
    """A recorded call, as read from its file."""

    entry: RecordedCallEntry
    recording: Recording
    attempt: Attempt
    match: MatchKind = "exact"


class _LineType(Struct):
    type: str = ""


_line_type = msgspec.json.Decoder(_LineType)


class RecordingIndex:
    """The recordings in a folder and its subfolders, or in one file."""

    def __init__(self, place: Path, most: int = MAX_ENTRIES) -> None:
        self.place = place
        self.entries = 0
        self._most = most
        self._groups: dict[bytes, list[RecordedCallEntry]] = {}
        self._with_holes: dict[bytes, list[RecordedCallEntry]] = {}
        self._files: set[Path] = set()
        self._folders: dict[Path, int] = {}
        self._given: dict[tuple[Any, ...], int] = {}
        self._models: dict[tuple[str, str], None] = {}
        self._issuers: set[str] = set()

    def models(self, dialect: str) -> list[str]:
        """Return the models that were called in a dialect."""
        self.refresh()
        return [model for of, model in self._models if of == dialect]

    def dialects(self) -> list[str]:
        """Return the dialects of all indexed calls."""
        return sorted({dialect for dialect, _ in self._models})

    @property
    def issuers(self) -> frozenset[str]:
        """Return the servers that sealed the client-carried state in these recordings."""
        if not self.entries:
            self.refresh()
        return frozenset(self._issuers)

    def next(self, wanted: RequestFingerprint) -> RecordedCallEntry | None:
        """Return the next recording for a request: in the order of recording, then the last one repeatedly."""
        self.refresh()
        group = self._groups.get(wanted.group, [])
        exact = [entry for entry in group if entry.asked.exact == wanted.exact] or group
        chosen = [entry for entry in exact if entry.asked.model == wanted.model] or exact
        if not chosen:
            return None
        # Each request with differing values has its own counter.
        return self._next_in_turn(
            chosen, wanted.exact if exact is not group else wanted.group, wanted.model if chosen is not exact else ""
        )

    def next_redacted(
        self, wanted: RequestFingerprint, live: Callable[[], Sequence[RequestPart]]
    ) -> RecordedCallEntry | None:
        """Return the next match, as `next` does, among redacted recordings: those with the smallest redactions first.
        `live` returns the parts of the request."""
        alike = [entry for entry in self._with_holes.get(wanted.shape, ()) if _may_match(entry.asked, wanted)]
        alike.sort(
            key=lambda entry: (redaction_gap(entry.asked, wanted), entry.asked.model != wanted.model, entry.order)
        )
        now, fitting = live() if alike else (), list[RecordedCallEntry]()
        for entry in alike[:MAX_HOLE_CANDIDATES]:
            if fitting and entry.asked.firm != fitting[0].asked.firm:
                break
            fitting += [entry] if _matches(entry, now) else []
        same = [entry for entry in fitting if entry.asked.model == wanted.model]
        return self._next_in_turn(same or fitting, b"holes" + wanted.group, wanted.model) if fitting else None

    def _next_in_turn(self, chosen: Sequence[RecordedCallEntry], *key: Any) -> RecordedCallEntry:
        given = self._given.get(key, 0)
        self._given[key] = given + 1
        return chosen[min(given, len(chosen) - 1)]

    def nearest(self, wanted: RequestFingerprint, dialect: str) -> RecordedCallEntry | None:
        """Return the recording that has most in common with a request; of several, the one with the least in
        addition."""
        entries = (entry for group in self._groups.values() for entry in group if entry.dialect == dialect)
        return max(entries, key=lambda entry: likeness(wanted, entry.asked), default=None)

    def refresh(self) -> None:
        """Read new files."""
        for file in self._new_files():
            if self.entries >= self._most:
                log.warning("%s: more than %d calls are recorded: the rest is not used", self.place, self._most)
                break
            self._files.add(file)
            if not file.is_file():  # reading a pipe or a device could block forever
                log.warning("%s cannot be replayed: it is not a file", file)
                continue
            try:
                for entry in _read_entries(file):
                    self._add(entry)
            except (OSError, ToolglotError, ValueError, KeyError, RecursionError) as error:
                # A bad file must not prevent reading the files beside it.
                log.warning("%s cannot be replayed: %s", file, str(error)[:500])

    def _add(self, entry: RecordedCallEntry) -> None:
        self.entries += 1
        self._models[entry.dialect, entry.model] = None
        if entry.issuer:
            self._issuers.add(issuer_of(entry.issuer, entry.dialect, entry.model))
        if None in entry.asked.solid:
            self._with_holes.setdefault(entry.asked.shape, []).append(entry)
        else:
            entry = replace(entry, asked=replace(entry.asked, solid=()))  # not needed in memory
        insort(self._groups.setdefault(entry.asked.group, []), entry, key=lambda each: each.order)

    def _new_files(self) -> list[Path]:
        if self.place.is_file():
            return [] if self.place in self._files else [self.place]
        found: list[Path] = []
        folders = list(self._folders) or [self.place]
        for folder in folders:  # the list grows
            try:
                changed = folder.stat().st_mtime_ns
                if self._folders.get(folder) == changed:
                    continue
                inside = sorted(folder.iterdir())
            except OSError:
                continue  # removed, or not created yet
            self._folders[folder] = changed
            for path in inside:
                if path.name.endswith(SUFFIX):
                    found += [path] if path not in self._files else []
                elif path not in self._folders and path.is_dir() and not path.is_symlink():
                    folders += [path] if len(folders) < MAX_FOLDERS else []
        return found


def _read_entries(file: Path) -> Iterator[RecordedCallEntry]:
    """Yield the calls in a file. Only the lines with requests are parsed completely."""
    head = RecordingHead()
    with file.open("rb") as lines:
        while line := lines.readline(MAX_LINE):
            if len(line) == MAX_LINE:
                return
            try:
                kind = _line_type.decode(line).type
                if kind not in ("exchange", "upstream.request"):
                    continue
                read = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return  # truncated, or not a recording
            if isinstance(read, RecordingHead):
                head = read
                if head.version > VERSION:
                    return
            elif isinstance(read, UpstreamRequest):
                yield RecordedCallEntry(
                    order=(head.time, file.name, read.attempt),
                    file=file,
                    attempt=read.attempt,
                    dialect=read.dialect,
                    model=read.model,
                    asked=fingerprint_request(read.dialect, read.url, recorded_body(read)),
                    issuer="" if read.settings is None else read.settings.issuer,
                )


def _may_match(then: RequestFingerprint, now: RequestFingerprint) -> bool:
    """Return whether the parts without redactions are the same."""
    return len(then.solid) == len(now.solid) and all(
        one is None or one == other for one, other in zip(then.solid, now.solid, strict=True)
    )


def _matches(entry: RecordedCallEntry, now: Sequence[RequestPart]) -> bool:
    try:
        request = read_entry(entry).attempt.request
    except (OSError, DecodeError):
        return False
    return matches_redacted(
        list(request_parts(entry.dialect, request_document(entry.dialect, recorded_body(request)))), now
    )


def read_entry(entry: RecordedCallEntry) -> RecordedCall:
    """Read the recording of an entry.

    Raises:
        OSError, DecodeError: its file was removed or replaced.
    """
    recording = read_file(entry.file)
    for attempt in recording.attempts:
        if attempt.request.attempt == entry.attempt:
            return RecordedCall(entry, recording, attempt)
    raise DecodeError(entry.file.name, f"there is no call {entry.attempt} in it any more")
