"""The way to recordings: it leaves the process only to read files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from toolglot.dialect import Dialect
from toolglot.errors import ApiError, DecodeError
from toolglot.ir import replace
from toolglot.models import ModelInfo
from toolglot.recordings.label import label_of
from toolglot.recordings.patterns import Pattern
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.redact import Finder, Redactor
from toolglot.recordings.tools import declared
from toolglot.upstream.replay import labels
from toolglot.upstream.replay.index import Entry, Index, Match, Recorded, read_entry
from toolglot.upstream.replay.matching import Asked, Part, asked, document, parts_of
from toolglot.upstream.replay.reply import Clock, RecordedReply, Speed, WrittenReply, failure_of
from toolglot.upstream.replay.unmatched import no_recording
from toolglot.upstream.transport import Call, Reply, TransportError

log = logging.getLogger("toolglot.server")

WAITS = frozenset({"retry-after", "retry-after-ms", "x-retry-after"})
"""Headers that tell how long to wait before the next call."""


class ReplayTransport:
    """Answers calls in one dialect with what was recorded for them."""

    recorded = True

    def __init__(self, dialect: Dialect, place: Path, *, speed: Speed = "none") -> None:
        self.dialect = dialect
        self.speed = speed
        self._index = Index(place.expanduser())
        self._finders: tuple[Finder, ...] = ()
        self._turns = asyncio.Lock()  # an index belongs to one thread at a time

    @property
    def issuers(self) -> frozenset[str]:
        """Those whose state clients carry in these recordings: it comes back here, and is compared."""
        return self._index.issuers

    def redact(self, patterns: Sequence[str]) -> None:
        """What recordings do not have in them, by the patterns of the configuration, is not compared."""
        self._finders = tuple(Pattern(text).find for text in patterns)

    async def send(self, call: Call) -> Reply:
        if call.method != "POST":
            return await self._listed(call)
        async with self._turns:
            found = await asyncio.to_thread(self._find, call)
        if isinstance(found, ApiError):
            return self._refuse(found)
        reply = await given(found.recording, found.attempt, self.speed)
        reply.headers.pop(labels.RECORDING, None)  # of a recorded gateway that has answered from recordings itself
        reply.headers |= labels.headers_of_match(found.match, found.entry.file.name)
        return reply

    async def close(self) -> None:
        """There is no connection to close."""

    def _find(self, call: Call) -> Recorded | ApiError:
        redactor = Redactor(finders=self._finders)
        redactor.keep(declared(call.body) if self._finders else ())
        wanted = asked(self.dialect.name, call.url, call.body, redactor)
        entry = self._index.next(wanted)
        match: Match = "exact" if entry is not None and entry.asked.exact == wanted.exact else "changed"
        if entry is None:
            entry, match = self._index.next_with_holes(wanted, lambda: self._parts(call, redactor)), "redacted"
        if entry is None:
            return self._unmatched(wanted, call, redactor)
        if match != "exact":
            # Whoever tests something that depends on a date wants to know.
            log.info("answered from %s: %s", entry.file.name, labels.LOOSELY[match])
        return replace(_read(entry), match=match)

    def _parts(self, call: Call, redactor: Redactor) -> list[Part]:
        return list(parts_of(self.dialect.name, document(self.dialect.name, call.body), redactor))

    def _unmatched(self, wanted: Asked, call: Call, redactor: Redactor) -> ApiError:
        error = no_recording(self._index, wanted, self.dialect.name, call)
        return replace(error, message=redactor.text(error.message))

    async def _listed(self, call: Call) -> Reply:
        """The models that were asked."""
        if call.method != "GET" or not call.url.endswith(self.dialect.listing.path):
            return self._refuse(ApiError(kind="not_found", message=f"Recordings have no {call.method} there"))
        async with self._turns:
            names = await asyncio.to_thread(self._index.models, self.dialect.name)
        body = self.dialect.listing.encode_models([ModelInfo(name=name) for name in names], {})
        return WrittenReply(200, [("content-type", "application/json")], body)

    def _refuse(self, error: ApiError) -> Reply:
        written = self.dialect.encode_error(error)
        return WrittenReply(written.status, written.headers.items(), written.body)


def _read(entry: Entry) -> Recorded:
    try:
        return read_entry(entry)
    except (OSError, DecodeError) as error:
        raise TransportError("reset", f"the recording {entry.file.name} cannot be read: {error}") from None


async def given(recording: Recording, attempt: Attempt, speed: Speed) -> RecordedReply:
    """The recorded reply. Raises the failure that stands in its place."""
    end = attempt.end
    if attempt.response is None:
        if end is not None:
            await Clock(attempt.request.at, speed).until(end.at)
        raise failure_of("reset: no answer was recorded" if end is None or end.error is None else end.error)
    await Clock(attempt.request.at, speed).until(attempt.response.at)
    reply = RecordedReply(attempt, label_of(recording), speed)
    if speed == "none" and attempt is not recording.attempts[-1]:
        # It was asked again; now nobody has to wait for that.
        reply.headers = {name: value for name, value in reply.headers.items() if name not in WAITS}
    return reply
