"""What was recorded, by what was asked. Of each recorded call there are a few hashes in memory; the rest is read from
the disk when it is wanted. Folders that have changed are looked through again, so that new recordings are found."""

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
from toolglot.recordings.format import SUFFIX, VERSION, Head, UpstreamRequest, decoder
from toolglot.recordings.holes import recorded
from toolglot.recordings.read import Attempt, Recording, read_file
from toolglot.upstream.replay.matching import Asked, Part, asked, document, fits, likeness, looseness, parts_of

log = logging.getLogger("toolglot.server")

MOST_ENTRIES = 100_000
"""Calls that are known at most."""
MOST_FOLDERS = 10_000
LONGEST_LINE = 64 * 1024 * 1024
MOST_READ = 64
"""Recordings with holes that are read, those with the smallest ones first, to see whether they fit a request."""


class Entry(Struct, frozen=True, kw_only=True):
    """One recorded call."""

    order: tuple[str, str, int]
    """When its exchange came, the file's name, and which call of it this is: the order of recording."""
    file: Path
    attempt: int
    dialect: str
    model: str
    asked: Asked
    issuer: str = ""
    """The server that takes back the state that clients carry for it."""


Match: TypeAlias = Literal["exact", "changed", "redacted"]
"""How a recorded request is the one that is asked: in all that counts, but for what changes from run to run, or but for
what was redacted in it."""


class Recorded(Struct, frozen=True):
    """A recorded call, as its file tells it."""

    entry: Entry
    recording: Recording
    attempt: Attempt
    match: Match = "exact"


class _Kind(Struct):
    type: str = ""


_kind = msgspec.json.Decoder(_Kind)


class Index:
    """The recordings in a folder and the folders below it, or in one file."""

    def __init__(self, place: Path, most: int = MOST_ENTRIES) -> None:
        self.place = place
        self.entries = 0
        self._most = most
        self._groups: dict[bytes, list[Entry]] = {}
        self._with_holes: dict[bytes, list[Entry]] = {}
        self._files: set[Path] = set()
        self._folders: dict[Path, int] = {}
        self._given: dict[tuple[Any, ...], int] = {}
        self._models: dict[tuple[str, str], None] = {}
        self._issuers: set[str] = set()

    def models(self, dialect: str) -> list[str]:
        """The models that were asked in a dialect."""
        self.look()
        return [model for of, model in self._models if of == dialect]

    def dialects(self) -> list[str]:
        """Those of all calls that are known."""
        return sorted({dialect for dialect, _ in self._models})

    @property
    def issuers(self) -> frozenset[str]:
        """Those who have sealed the state that clients carry in these recordings."""
        if not self.entries:
            self.look()
        return frozenset(self._issuers)

    def next(self, wanted: Asked) -> Entry | None:
        """The recording whose turn it is for a request: in the order of recording, the last one again and again."""
        self.look()
        group = self._groups.get(wanted.group, [])
        exact = [entry for entry in group if entry.asked.exact == wanted.exact] or group
        chosen = [entry for entry in exact if entry.asked.model == wanted.model] or exact
        if not chosen:
            return None
        # Who is given something else each time has a count of its own.
        return self._turn(
            chosen, wanted.exact if exact is not group else wanted.group, wanted.model if chosen is not exact else ""
        )

    def next_with_holes(self, wanted: Asked, live: Callable[[], Sequence[Part]]) -> Entry | None:
        """The same among recordings in which something was redacted, those with the smallest holes first. `live`
        gives the parts of the request."""
        alike = [entry for entry in self._with_holes.get(wanted.shape, ()) if _may_fit(entry.asked, wanted)]
        alike.sort(key=lambda entry: (looseness(entry.asked, wanted), entry.asked.model != wanted.model, entry.order))
        now, fitting = live() if alike else (), list[Entry]()
        for entry in alike[:MOST_READ]:
            if fitting and entry.asked.firm != fitting[0].asked.firm:
                break
            fitting += [entry] if _fits(entry, now) else []
        same = [entry for entry in fitting if entry.asked.model == wanted.model]
        return self._turn(same or fitting, b"holes" + wanted.group, wanted.model) if fitting else None

    def _turn(self, chosen: Sequence[Entry], *key: Any) -> Entry:
        given = self._given.get(key, 0)
        self._given[key] = given + 1
        return chosen[min(given, len(chosen) - 1)]

    def nearest(self, wanted: Asked, dialect: str) -> Entry | None:
        """The recording that has the most in common with a request; of several, the one with the least besides."""
        entries = (entry for group in self._groups.values() for entry in group if entry.dialect == dialect)
        return max(entries, key=lambda entry: likeness(wanted, entry.asked), default=None)

    def look(self) -> None:
        """Read the files that are new."""
        for file in self._new_files():
            if self.entries >= self._most:
                log.warning("%s: more than %d calls are recorded: the rest is not used", self.place, self._most)
                break
            self._files.add(file)
            if not file.is_file():  # a pipe or a device could be read for ever
                log.warning("%s cannot be replayed: it is no file", file)
                continue
            try:
                for entry in _entries(file):
                    self._add(entry)
            except (OSError, ToolglotError, ValueError, KeyError, RecursionError) as error:
                # Whatever is in it, it must not keep anybody from the files beside it.
                log.warning("%s cannot be replayed: %s", file, str(error)[:500])

    def _add(self, entry: Entry) -> None:
        self.entries += 1
        self._models[entry.dialect, entry.model] = None
        if entry.issuer:
            self._issuers.add(issuer_of(entry.issuer, entry.dialect, entry.model))
        if None in entry.asked.solid:
            self._with_holes.setdefault(entry.asked.shape, []).append(entry)
        else:
            entry = replace(entry, asked=replace(entry.asked, solid=()))  # which nobody needs
        insort(self._groups.setdefault(entry.asked.group, []), entry, key=lambda each: each.order)

    def _new_files(self) -> list[Path]:
        if self.place.is_file():
            return [] if self.place in self._files else [self.place]
        found: list[Path] = []
        folders = list(self._folders) or [self.place]
        for folder in folders:  # it grows
            try:
                changed = folder.stat().st_mtime_ns
                if self._folders.get(folder) == changed:
                    continue
                inside = sorted(folder.iterdir())
            except OSError:
                continue  # it has gone, or is not there yet
            self._folders[folder] = changed
            for path in inside:
                if path.name.endswith(SUFFIX):
                    found += [path] if path not in self._files else []
                elif path not in self._folders and path.is_dir() and not path.is_symlink():
                    folders += [path] if len(folders) < MOST_FOLDERS else []
        return found


def _entries(file: Path) -> Iterator[Entry]:
    """The calls in a file. Only the lines that tell what was asked are read whole."""
    head = Head()
    with file.open("rb") as lines:
        while line := lines.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                return
            try:
                kind = _kind.decode(line).type
                if kind not in ("exchange", "upstream.request"):
                    continue
                read = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return  # what was cut, or is no recording
            if isinstance(read, Head):
                head = read
                if head.version > VERSION:
                    return
            elif isinstance(read, UpstreamRequest):
                yield Entry(
                    order=(head.time, file.name, read.attempt),
                    file=file,
                    attempt=read.attempt,
                    dialect=read.dialect,
                    model=read.model,
                    asked=asked(read.dialect, read.url, recorded(read)),
                    issuer="" if read.settings is None else read.settings.issuer,
                )


def _may_fit(then: Asked, now: Asked) -> bool:
    """Whether the parts without holes are the same."""
    return len(then.solid) == len(now.solid) and all(
        one is None or one == other for one, other in zip(then.solid, now.solid, strict=True)
    )


def _fits(entry: Entry, now: Sequence[Part]) -> bool:
    try:
        request = read_entry(entry).attempt.request
    except (OSError, DecodeError):
        return False
    return fits(list(parts_of(entry.dialect, document(entry.dialect, recorded(request)))), now)


def read_entry(entry: Entry) -> Recorded:
    """What an entry stands for.

    Raises:
        OSError, DecodeError: its file has gone, or is another one by now.
    """
    recording = read_file(entry.file)
    for attempt in recording.attempts:
        if attempt.request.attempt == entry.attempt:
            return Recorded(entry, recording, attempt)
    raise DecodeError(entry.file.name, f"there is no call {entry.attempt} in it any more")
