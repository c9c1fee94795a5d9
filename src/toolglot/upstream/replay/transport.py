"""The transport that answers from recordings. It only reads files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from toolglot.dialect import Dialect
from toolglot.errors import ApiError, DecodeError
from toolglot.ir import replace
from toolglot.models import ModelInfo
from toolglot.recordings.answer_label import answer_label
from toolglot.recordings.declared_tools import declared_tool_names
from toolglot.recordings.linear_regex import LinearPattern
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.redact import Finder, Redactor
from toolglot.upstream.replay import labels
from toolglot.upstream.replay.index import MatchKind, RecordedCall, RecordedCallEntry, RecordingIndex, read_entry
from toolglot.upstream.replay.matching import (
    RequestFingerprint,
    RequestPart,
    fingerprint_request,
    request_document,
    request_parts,
)
from toolglot.upstream.replay.reply import RecordedReply, ReplayClock, Speed, SyntheticReply, parse_failure
from toolglot.upstream.replay.unmatched import no_recording_error
from toolglot.upstream.transport import Reply, TransportError, UpstreamCall

log = logging.getLogger("toolglot.server")

RETRY_HEADERS = frozenset({"retry-after", "retry-after-ms", "x-retry-after"})
"""Headers that say how long to wait before a retry."""


class ReplayTransport:
    """Answers calls in one dialect from recordings."""

    recorded = True

    def __init__(self, dialect: Dialect, place: Path, *, speed: Speed = "none") -> None:
        self.dialect = dialect
        self.speed = speed
        self._index = RecordingIndex(place.expanduser())
        self._finders: tuple[Finder, ...] = ()
        self._turns = asyncio.Lock()  # the index is not safe for concurrent threads

    @property
    def issuers(self) -> frozenset[str]:
        """Servers whose state clients carry in these recordings: it comes back here and is compared."""
        return self._index.issuers

    def redact(self, patterns: Sequence[str]) -> None:
        """Ignore in comparisons what recordings do not contain, by the configured patterns."""
        self._finders = tuple(LinearPattern(text).find for text in patterns)

    async def send(self, call: UpstreamCall) -> Reply:
        if call.method != "POST":
            return await self._list_models(call)
        async with self._turns:
            found = await asyncio.to_thread(self._find, call)
        if isinstance(found, ApiError):
            return self._refuse(found)
        reply = await replay_attempt(found.recording, found.attempt, self.speed)
        reply.headers.pop(labels.RECORDING, None)  # set by a recorded gateway that itself answered from recordings
        reply.headers |= labels.match_headers(found.match, found.entry.file.name)
        return reply

    async def close(self) -> None:
        """There is no connection to close."""

    def _find(self, call: UpstreamCall) -> RecordedCall | ApiError:
        redactor = Redactor(finders=self._finders)
        redactor.keep_tool_names(declared_tool_names(call.body) if self._finders else ())
        wanted = fingerprint_request(self.dialect.name, call.url, call.body, redactor)
        entry = self._index.next(wanted)
        match: MatchKind = "exact" if entry is not None and entry.asked.exact == wanted.exact else "changed"
        if entry is None:
            entry, match = self._index.next_redacted(wanted, lambda: self._parts(call, redactor)), "redacted"
        if entry is None:
            return self._no_match_error(wanted, call, redactor)
        if match != "exact":
            # Tests that depend on a date need to know.
            log.info("answered from %s: %s", entry.file.name, labels.INEXACT_MATCHES[match])
        return replace(_read_recorded(entry), match=match)

    def _parts(self, call: UpstreamCall, redactor: Redactor) -> list[RequestPart]:
        return list(request_parts(self.dialect.name, request_document(self.dialect.name, call.body), redactor))

    def _no_match_error(self, wanted: RequestFingerprint, call: UpstreamCall, redactor: Redactor) -> ApiError:
        error = no_recording_error(self._index, wanted, self.dialect.name, call)
        return replace(error, message=redactor.text(error.message))

    async def _list_models(self, call: UpstreamCall) -> Reply:
        """List the models that were called."""
        if call.method != "GET" or not call.url.endswith(self.dialect.listing.path):
            return self._refuse(ApiError(kind="not_found", message=f"Recordings have no {call.method} there"))
        async with self._turns:
            names = await asyncio.to_thread(self._index.models, self.dialect.name)
        body = self.dialect.listing.encode_models([ModelInfo(name=name) for name in names], {})
        return SyntheticReply(200, [("content-type", "application/json")], body)

    def _refuse(self, error: ApiError) -> Reply:
        written = self.dialect.encode_error(error)
        return SyntheticReply(written.status, written.headers.items(), written.body)


def _read_recorded(entry: RecordedCallEntry) -> RecordedCall:
    try:
        return read_entry(entry)
    except (OSError, DecodeError) as error:
        raise TransportError("reset", f"the recording {entry.file.name} cannot be read: {error}") from None


async def replay_attempt(recording: Recording, attempt: Attempt, speed: Speed) -> RecordedReply:
    """Return the recorded reply, or raise the recorded failure."""
    end = attempt.end
    if attempt.response is None:
        if end is not None:
            await ReplayClock(attempt.request.at, speed).until(end.at)
        raise parse_failure("reset: no answer was recorded" if end is None or end.error is None else end.error)
    await ReplayClock(attempt.request.at, speed).until(attempt.response.at)
    reply = RecordedReply(attempt, answer_label(recording), speed)
    if speed == "none" and attempt is not recording.attempts[-1]:
        # The call was retried then; now no client has to wait for the retry.
        reply.headers = {name: value for name, value in reply.headers.items() if name not in RETRY_HEADERS}
    return reply
