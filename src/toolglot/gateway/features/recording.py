"""Recording an exchange: the client's request and answer, and each upstream's request and reply.

Without a recorder there is no recording, and only this check costs time. Otherwise each step is passed to the
recorder's thread, which redacts and writes it; nothing here waits for the disk.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import asdict

from toolglot import __version__
from toolglot.config.schema import RecordConfig
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Request
from toolglot.receipt import Receipt
from toolglot.recordings.format import (
    UNREAD,
    VERSION,
    CallSettings,
    ClientResponse,
    ReceiptLines,
    RecordedClientRequest,
    RecordingEnd,
    RecordingHead,
    StoreRead,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
)
from toolglot.recordings.recorded_settings import STATE_ADDED, record_history
from toolglot.recordings.writing.recorder import OUTCOMES, Recorder, RecordingWriter
from toolglot.routing import Pattern, Target, bare
from toolglot.server.credentials import find_credentials, select_long
from toolglot.server.metrics import Metrics
from toolglot.store import Store, StoreError
from toolglot.store.as_json import RECORDED_READS, StoredKind, encode_stored, stored_size
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore
from toolglot.upstream.exchange import ConversationState, history_policy, target_quirks
from toolglot.upstream.transport import Reply, TransportError, UpstreamCall
from toolglot.upstream.upstream import Upstream

if TYPE_CHECKING:
    from toolglot.server.asgi_request import AsgiRequest

_PLACEHOLDER = re.compile(r"[A-Za-z]{1,7}")
"""A placeholder key of one short word (`none`, `ollama`). It is redacted only where keys occur: redacting it
everywhere would damage `"tool_choice": "none"`."""
_USAGE_FIELDS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


def start_recording(config: RecordConfig, metrics: Metrics, shares: int = 1) -> ExchangeRecorder | None:
    """Start the recorder if the configuration has one. `shares` is the number of processes that record into the folder.
    The caller closes the recorder. Raises `OSError` if the folder cannot be used."""
    if config.directory is None:
        return None
    for outcome in OUTCOMES:  # start at 0, and do not add labels while another thread reads
        metrics.recordings.add((outcome,), 0)
    recorder = Recorder(config, lambda outcome: metrics.recordings.add((outcome,)), shares)
    recorder.start()
    return ExchangeRecorder(config, recorder)


class ExchangeRecorder:
    """Selects the exchanges to record, and starts their recordings."""

    def __init__(self, config: RecordConfig, recorder: Recorder) -> None:
        self.recorder = recorder
        self._models = tuple(map(Pattern, config.models))
        self._keys = frozenset(config.keys)

    def begin(
        self, incoming: AsgiRequest, client: str, body: bytes, request: Request | None
    ) -> ExchangeRecording | None:
        """Start the recording of a request, if it is selected. `request` is None if it could not be decoded."""
        record, model = incoming.record, "" if request is None else request.model
        if self._keys and record.key not in self._keys:
            return None
        names = {model, bare(model)}
        if self._models and all(pattern.match(name) is None for pattern in self._models for name in names):
            return None
        secrets = [*_configured_secrets(incoming.gateway.secrets), *find_credentials(incoming.headers, incoming.query)]
        recording = ExchangeRecording(self.recorder.begin(record.id, secrets), record.started)
        came = datetime.now(UTC) - timedelta(seconds=recording.at)
        head = RecordingHead(
            version=VERSION,
            id=record.id,
            time=came.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            toolglot=__version__,
            client=client,
            model=model,
            stream=request is not None and request.stream,
            key=record.key,
        )
        query = incoming.scope["query_string"].decode("latin-1")
        path = incoming.scope.get("raw_path", b"").decode("latin-1") or incoming.path
        line = RecordedClientRequest(
            at=recording.at,
            method=incoming.method,
            path=f"{path.partition('?')[0]}?{query}" if query else path,
            headers=_without_encoding(incoming.headers),
        )
        recording.writing.begin(head, line, body, incoming.headers.get("content-type", ""))
        return recording


class ExchangeRecording:
    """The recording of one exchange."""

    def __init__(self, writing: RecordingWriter, started: float) -> None:
        self.writing = writing
        # The clock of the event loop may have a resolution of a millisecond only.
        self._began = monotonic() - (asyncio.get_running_loop().time() - started)
        self._calls: list[RecordedAttempt] = []
        self._content_type = ""

    @property
    def at(self) -> float:
        return round(monotonic() - self._began, 6)

    def call(
        self, upstream: Upstream, sent: Request, call: UpstreamCall, settings: CallSettings | None
    ) -> RecordedAttempt:
        """Record a call to an upstream."""
        number = len(self._calls) + 1
        line = UpstreamRequest(
            at=self.at,
            attempt=number,
            upstream=upstream.name,
            dialect=upstream.dialect.name,
            model=sent.model,
            stream=sent.stream,
            method=call.method,
            url=call.url,
            headers=dict(call.headers),
            settings=settings,
        )
        self.writing.line(line, call.body, call.headers.get("content-type", ""))
        attempt = RecordedAttempt(self, number, upstream)
        self._calls.append(attempt)
        return attempt

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the head of the client's answer."""
        self._content_type = headers.get("content-type", "")
        self.writing.line(ClientResponse(at=self.at, status=status, headers=dict(headers)))

    def data(self, data: bytes, *, more: bool) -> None:
        """Record a piece of the client's answer."""
        if data:
            self.writing.piece(0, self.at, data, self._content_type)
        if not more:
            self.writing.over(0, self.at)

    def receipt(self, receipt: Receipt) -> None:
        """Record the lines of the receipt."""
        lines = [
            {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why} for line in receipt
        ]
        self.writing.line(ReceiptLines(at=self.at, lines=lines))

    def end(self, record: RequestRecord) -> None:
        for call in self._calls:
            call.end(UNREAD)
        usage = record.usage
        line = RecordingEnd(
            at=self.at,
            error=record.error,
            message=record.message,
            stop=record.stop,
            usage=None if usage is None else {name: getattr(usage, name) for name in _USAGE_FIELDS},
            cancelled=record.cancelled,
        )
        self.writing.end(line)


def describe_settings(
    upstream: Upstream,
    target: Target,
    exchange: ExchangeCore,
    text_calls: TextCalls | None,
    state: ConversationState,
    *,
    forward: bool,
) -> CallSettings:
    """Return the settings of a call, which a rerun needs."""
    history, exact = (
        ({}, []) if state.whole or state.replay is not None else record_history(history_policy(upstream, target))
    )
    text: dict[str, Any] = {}
    if text_calls is not None:
        text = asdict(text_calls)
        text["text_format"] = text.pop("format")
    return CallSettings(
        **text,
        quirks=dict(target_quirks(upstream, target)),
        history=history,
        exact=exact,
        strict=exchange.strict,
        verbatim=forward and upstream.verbatim,
        keeps_state=exchange.options.keeps_state,
        can_cut=exchange.options.can_cut,
        issuer=exchange.settings.issuer,
        state_put_back=bool(state.states) and any(STATE_ADDED in line.why for line in exchange.receipt),
        conversation_put_back=state.replay is not None,
        cache_marks=exchange.settings.cache_marks,
        prefix_repeats=exchange.options.prefix_repeats,
        warp_history=upstream.warp_history if upstream.dialect.name == WARP else None,
        disable_warp_tools=upstream.disable_warp_tools,
    )


class RecordedAttempt:
    """The recording of one call to an upstream. It ends once."""

    def __init__(self, recording: ExchangeRecording, number: int, upstream: Upstream) -> None:
        self._recording = recording
        self._number = number
        self._upstream = upstream
        self._content_type = ""
        self._ended = False

    def record_reply(self, reply: Reply) -> Reply:
        """Record a reply. Returns a wrapper that records its body as it is read."""
        recording = self._recording
        if self._upstream.tokens is not None:  # the token may have been renewed since the call
            recording.writing.hide(self._upstream.tokens.secrets)
        self._content_type = reply.headers.get("content-type", "")
        recording.writing.line(
            UpstreamResponse(
                at=recording.at, attempt=self._number, status=reply.status, headers=_without_encoding(reply.headers)
            )
        )
        return _RecordingReply(reply, self)

    def data(self, data: bytes) -> None:
        self._recording.writing.piece(self._number, self._recording.at, data, self._content_type)

    def record_failure(self, failure: TransportError) -> None:
        """Record that the call failed, before or during the reply."""
        self.end(f"{failure.failure}: {failure}")

    def end(self, error: str | None = None) -> None:
        if not self._ended:
            self._ended = True
            self._recording.writing.line(UpstreamEnd(at=self._recording.at, attempt=self._number, error=error))


class _RecordingReply:
    """A reply that is recorded as it is read."""

    def __init__(self, reply: Reply, call: RecordedAttempt) -> None:
        self._reply = reply
        self._call = call
        self.status = reply.status
        self.headers = reply.headers

    async def read(self, limit: int) -> bytes:
        try:
            body = await self._reply.read(limit)
        except TransportError as failure:
            self._call.record_failure(failure)
            raise
        self._call.data(body)
        self._call.end()
        return body

    def chunks(self) -> AsyncIterator[bytes]:
        return _RecordedChunks(self._reply.chunks(), self._call)

    def close(self) -> None:
        self._call.end(UNREAD)
        self._reply.close()


class _RecordedChunks:
    def __init__(self, chunks: AsyncIterator[bytes], call: RecordedAttempt) -> None:
        self._chunks = chunks
        self._call = call

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._call.end()
            raise
        except TransportError as failure:
            self._call.record_failure(failure)
            raise
        self._call.data(chunk)
        return chunk


def record_store_reads(store: Store | None, recording: ExchangeRecording | None) -> Store | None:
    """Wrap the store so that reads for a request are recorded; the store itself if nothing is recorded."""
    return store if store is None or recording is None else cast("Store", _RecordingStore(store, recording))


class _RecordingStore:
    """A store whose recorded reads are written to the recording. Other methods are passed through."""

    def __init__(self, store: Store, recording: ExchangeRecording) -> None:
        self._store = store
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return partial(self._read, RECORDED_READS[name], method) if name in RECORDED_READS else method

    def may_have_states(self, owner: str, issuer: str) -> bool:
        """Return True always, because a rerun needs every lookup in the same order."""
        return True

    async def _read(self, kind: StoredKind, method: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        recording = self._recording
        try:
            value = await method(*args, **options)
        except StoreError as error:
            recording.writing.line(StoreRead(at=recording.at, what=kind, failure=error.failure, message=str(error)))
            raise
        except asyncio.CancelledError:
            # The read timed out, or the client has disconnected: in both cases nothing was found.
            recording.writing.line(StoreRead(at=recording.at, what=kind, failure="failed", message="no answer in time"))
            raise
        # It may be large: the recorder's thread encodes it.
        recording.writing.deferred_line(
            StoreRead(at=recording.at, what=kind), stored_size(value), partial(encode_stored, value)
        )
        return value


def _without_encoding(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a recorded body, which is never compressed."""
    return {name: value for name, value in headers.items() if name != "content-encoding"}


def _configured_secrets(secrets: Iterable[str]) -> Iterator[str]:
    """Yield the configured secrets, and the credential in a header's value (`Bearer ...`)."""
    for secret in secrets:
        if not _PLACEHOLDER.fullmatch(secret):
            yield secret
        yield from select_long((secret.partition(" ")[2].strip(),))
