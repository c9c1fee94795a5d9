"""Set up the current gateway inside this process with the recorded answers of one exchange, in order: the answers of
its upstreams, tool servers and store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config.addresses import DEMO_URL
from toolglot.config.assemble import assemble, make_router
from toolglot.config.schema import BreakerConfig, Config, Limits, ModelConfig, Retries, UpstreamConfig
from toolglot.dialect import Dialect
from toolglot.dialects import STORED
from toolglot.gateway.features.mcp_approvals import PendingApprovals
from toolglot.gateway.features.responses_history import UNSTORED_REASON
from toolglot.gateway.gateway import Gateway
from toolglot.passes.digest import digest
from toolglot.recordings.answer_label import first_start, recorded_start
from toolglot.recordings.comparison import RerunOutcome, SentRequest
from toolglot.recordings.format import CallSettings, ServedResult, UpstreamRequest
from toolglot.recordings.read import Recording
from toolglot.recordings.recorded_settings import recorded_history, recorded_quirks
from toolglot.recordings.redact import split_address
from toolglot.recordings.rerun.recorded_store import RecordedStore
from toolglot.recordings.rerun.servers import RecordedHost, available_servers, mcp_config
from toolglot.server.app import App
from toolglot.server.metrics import Metrics
from toolglot.server.service import RecentReceipts, Service
from toolglot.server.startup import build_gateway
from toolglot.upstream.replay.reply import RecordedReply
from toolglot.upstream.replay.transport import replay_attempt
from toolglot.upstream.transport import TransportError, UpstreamCall
from toolglot.upstream.vendors import VENDORS

_MAX_ATTEMPTS = 100
_MAX_PARTS = 32
"""Maximum number of parts of an address."""
_NO_TIMEOUTS = BreakerConfig(failures=1_000_000)
_LONG = Limits(keepalive=3600.0, drain=0.0)
SILENCE_BEFORE_LEAVING = 0.01
"""Seconds of silence after which a client with nothing more to wait for disconnects."""
STORED_ID_LENGTH = 53
"""Length of a stored response's id: `resp_` and 48 characters."""


class ReplaySettings(Struct, frozen=True, kw_only=True):
    """Settings of a model and its upstream."""

    tools: str = "auto"
    bad_calls: str = "pass"
    rescue: bool = False
    verbatim: bool | None = None
    rounds: int | None = None
    """Maximum number of model calls, if the recorded run had fewer than the configuration allows because of the time
    limit.
    """

    @property
    def model_fields(self) -> dict[str, Any]:
        return {"tools": self.tools, "bad_calls": self.bad_calls, "rescue": self.rescue}


class ReplayQuestion(Struct, frozen=True, kw_only=True):
    """A client's request."""

    client: str
    path: str
    """Includes the query."""
    headers: Mapping[str, str]
    body: bytes


class _RecordedAnswers(Struct):
    """The recorded answers, and the requests that got them."""

    recording: Recording
    sent: list[SentRequest]


class RecordedUpstream:
    """Returns the recorded answers of one recorded upstream in order, regardless of the request."""

    recorded = True

    def __init__(self, tape: _RecordedAnswers, upstream: str, dialect: Dialect) -> None:
        self._tape = tape
        self._upstream = upstream
        self._dialect = dialect

    async def send(self, call: UpstreamCall) -> RecordedReply:
        tape = self._tape
        number = len(tape.sent)
        tape.sent.append(
            SentRequest(upstream=self._upstream, dialect=self._dialect.name, path=call.url, body=call.body)
        )
        if number >= len(tape.recording.attempts):
            raise TransportError("pool", "nothing more is recorded")  # not retried
        return await replay_attempt(tape.recording, tape.recording.attempts[number], "none")

    async def close(self) -> None:
        """There is no connection to close."""


class UnusedTransport:
    """The network, which is not used."""

    async def send(self, call: UpstreamCall) -> RecordedReply:
        raise TransportError("connect", "recorded exchanges do not use the network")

    async def close(self) -> None:
        """There is no connection to close."""


class _RecordedApprovals(PendingApprovals):
    """Recorded approvals: a call is approved if its tool ran in the recording. No tool runs now."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._counted = bool(recording.results)

    def take(self, owner: str, fingerprint: str) -> bool:
        return self._counted


async def replay_question(recording: Recording, question: ReplayQuestion, settings: ReplaySettings) -> RerunOutcome:
    """Return the current result of the question, with the recorded answers of the upstreams."""
    tape, left = _RecordedAnswers(recording, []), asyncio.Event()
    store = RecordedStore(recording) if _had_store(recording) else None
    service = Service(
        gateway=_make_gateway(tape, settings),
        receipts=RecentReceipts(),
        metrics=Metrics(),
        store=store,
        host=RecordedHost(recording, left.set) if recording.at_hand is not None else None,
        approvals=_RecordedApprovals(recording),
    )
    try:
        status, headers, body, ended = await _call_app(App(service), question, left, _http_version(recording))
    finally:
        if store is not None:
            await store.close()
    receipts = service.receipts.latest("", 1)
    return RerunOutcome(
        client=question.client,
        sent=tuple(tape.sent),
        status=status,
        body=_with_recorded_ids(recording, question.client, headers.get("x-request-id", ""), body),
        receipt=tuple(receipts[0]["lines"]) if receipts else (),
        left=left.is_set(),
        is_cut=not ended,
    )


def _http_version(recording: Recording) -> str:
    """Return the HTTP version in which the answer ends as recorded. HTTP/1.0 clients cannot detect a cut connection,
    and older versions of toolglot did not cut it."""
    told = [attempt.request.settings for attempt in recording.attempts]
    return "1.1" if any(settings is not None and settings.can_cut for settings in told) else "1.0"


def _had_store(recording: Recording) -> bool:
    told = [attempt.request.settings for attempt in recording.attempts]
    if any(each.keeps_state for each in told if each is not None) or recording.reads or _was_stored(recording):
        return True
    if recording.head.client == STORED and recorded_start(recording) is None:
        # No answer shows this, but the receipt says if nothing is stored.
        return not any(line.get("why") == UNSTORED_REASON for line in recording.receipt)
    return recording.at_hand is not None and recording.at_hand.keeps


def _was_stored(recording: Recording) -> bool:
    """Return whether the answer has the id of a stored response."""
    start = recorded_start(recording) if recording.head.client == STORED else None
    return start is not None and start.id.startswith("resp_") and len(start.id) == STORED_ID_LENGTH


def _with_recorded_ids(recording: Recording, client: str, request_id: str, body: bytes) -> bytes:
    """Replace the new random ids with the recorded ones."""
    if request_id:
        body = body.replace(request_id.encode(), recording.head.id.encode())
    if client == recording.head.client and _was_stored(recording):
        then, now = recorded_start(recording), first_start(client, body)
        if then is not None and now is not None and len(now.id) == STORED_ID_LENGTH:
            body = body.replace(now.id.encode(), then.id.encode())
    return body


def _make_gateway(tape: _RecordedAnswers, settings: ReplaySettings) -> Gateway:
    """Set up the recorded upstreams in order of their calls, the first for the model and the others as fallbacks."""
    recording = tape.recording
    places: dict[tuple[str, str], None] = {}
    upstreams: dict[str, UpstreamConfig] = {}
    for attempt in recording.attempts:
        asked = attempt.request
        places[asked.upstream, asked.model] = None
        upstreams[asked.upstream] = _upstream_config(asked.upstream, asked.dialect, asked.url, recording, settings)
    models = _model_configs(recording, list(places), settings)
    default = next(iter(upstreams), None)
    config = Config(
        upstreams=upstreams,
        models=models,
        default_upstream=default,
        discover=False,
        limits=_LONG,
        mcp=mcp_config(recording, settings.rounds),
    )
    config = assemble(config, {}).config
    made = build_gateway(config, UnusedTransport())
    behind = {
        name: replace(
            upstream, transport=RecordedUpstream(tape, name, upstream.dialect), **_recorded_fields(recording, name)
        )
        for name, upstream in made.upstreams.items()
    }
    return Gateway(config, behind, make_router(config))


def _model_configs(
    recording: Recording, places: Sequence[tuple[str, str]], settings: ReplaySettings
) -> dict[str, ModelConfig]:
    """Return the requested model, and its fallbacks under separate names if their settings are known."""
    models: dict[str, ModelConfig] = {}
    if not places:
        return models
    fallbacks: list[str] = []
    for number, (upstream, model) in enumerate(places[1:]):
        if told := _recorded_settings(recording, upstream, model):
            fallbacks.append(f"recorded fallback {number}")
            models[fallbacks[-1]] = ModelConfig(upstream=upstream, model=model or None, **_model_fields(told))
        elif model:
            fallbacks.append(f"{upstream}/{model}")
    upstream, model = places[0]
    told = _recorded_settings(recording, upstream, model)
    fields = _model_fields(told) if told else settings.model_fields
    # A server may have been attached by an alias, a header or the request: an alias covers all of these.
    fields["mcp"] = tuple(each.server for each in available_servers(recording))
    models[recording.head.model] = ModelConfig(
        upstream=upstream, model=model or None, fallbacks=tuple(fallbacks), **fields
    )
    return models


def _recorded_settings(recording: Recording, upstream: str, model: str) -> list[CallSettings]:
    """Return the recorded settings of the calls to a model."""
    asked = [attempt.request for attempt in recording.attempts]
    return [each.settings for each in asked if (each.upstream, each.model) == (upstream, model) and each.settings]


def _model_fields(told: Sequence[CallSettings]) -> dict[str, Any]:
    first = told[0]
    text_format = first.text_format
    tools = "native" if text_format is None or first.rescue else text_format
    if any(each.text_format != text_format for each in told):
        tools = "auto"  # it was refused natively, and sent as text
    return {
        "tools": tools,
        "rescue": text_format if text_format is not None and first.rescue else False,
        "bad_calls": first.bad_calls,
        "starts_in_reasoning": first.starts_in_reasoning,
        "strict": first.strict,
        "quirks": recorded_quirks(first),
    }


def _recorded_fields(recording: Recording, name: str) -> dict[str, Any]:
    """Return the known settings of an upstream."""
    for attempt in recording.attempts:
        told = attempt.request.settings
        if told is not None and attempt.request.upstream == name:
            warp = {} if told.warp_history is None else {"warp_history": told.warp_history}
            tools = {"disable_warp_tools": told.disable_warp_tools}
            known = {"history": recorded_history(told), "verbatim": told.verbatim, "cache_marks": told.cache_marks}
            return {**known, **warp, **tools, **_recorded_address(attempt.request)}
    return {}


def _recorded_address(asked: UpstreamRequest) -> dict[str, Any]:
    """Return the configured address, if it can be determined: client-carried state is sealed for it."""
    issuer = "" if asked.settings is None else asked.settings.issuer
    parts = asked.url.partition("?")[0].split("/")[:_MAX_PARTS]
    for count in range(1, len(parts) + 1):
        address = "/".join(parts[:count])
        if digest(asked.upstream, address) == issuer:
            return {"base_url": address}
    return {}


def _upstream_config(
    name: str, dialect: str, url: str, recording: Recording, settings: ReplaySettings
) -> UpstreamConfig:
    asked = max(sum(each.upstream == name for each in asked) for asked in call_rounds(recording))
    parts = split_address(url)
    vendor = next((each for each in VENDORS.values() if each.base_url and _host(each.base_url) == parts.netloc), None)
    is_demo = url.startswith(DEMO_URL)
    return UpstreamConfig(
        dialect=dialect,
        vendor=vendor.name if vendor is not None and parts.netloc else None,
        base_url=DEMO_URL if is_demo else f"http://{parts.netloc or 'recorded.invalid'}",
        verbatim=settings.verbatim,
        retries=Retries(attempts=min(asked, _MAX_ATTEMPTS), first_wait=0.0),
        breaker=_NO_TIMEOUTS,
    )


def call_rounds(recording: Recording) -> list[list[UpstreamRequest]]:
    """Group the calls to upstreams by the tool runs between them."""
    rounds: list[list[UpstreamRequest]] = [[]]
    for line in recording.lines:
        if isinstance(line, ServedResult) and rounds[-1]:
            rounds.append([])
        elif isinstance(line, UpstreamRequest):
            rounds[-1].append(line)
    return [each for each in rounds if each]


def _host(url: str) -> str:
    return urlsplit(url).netloc


async def _call_app(
    app: App, question: ReplayQuestion, left: asyncio.Event, http_version: str
) -> tuple[int, dict[str, str], bytes, bool]:
    """Return the ASGI app's answer to one request, and whether it ended. The client waits for the whole answer, or
    until it disconnects.
    """
    parts = urlsplit(question.path)
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "http_version": http_version,
        "method": "POST",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in _headers(question)],
    }
    unread = [{"type": "http.request", "body": question.body, "more_body": False}]
    told: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if unread:
            return unread.pop()
        await left.wait()
        got = -1
        while got != len(told):  # wait for everything in flight
            got = len(told)
            await asyncio.sleep(SILENCE_BEFORE_LEAVING)
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        told.append(message)

    await app(scope, receive, send)
    if not told:  # the client disconnected before there was anything
        return 0, {}, b"", False
    head, ended = told[0], not told[-1].get("more_body", True)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head["headers"]}
    return head["status"], headers, b"".join(message.get("body", b"") for message in told[1:]), ended


_CONNECTION_HEADERS = frozenset(
    """authorization connection content-encoding content-length cookie expect host keep-alive origin proxy-authorization
    te transfer-encoding upgrade x-api-key x-goog-api-key x-toolglot-mcp""".split()  # noqa: SIM905
)
"""A client's headers that belong to its connection or its identity."""


def _headers(question: ReplayQuestion) -> list[tuple[str, str]]:
    passed = [
        (name.lower(), value) for name, value in question.headers.items() if name.lower() not in _CONNECTION_HEADERS
    ]
    return [*passed, ("host", "127.0.0.1"), ("content-length", str(len(question.body)))]
