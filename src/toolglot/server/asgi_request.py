"""One HTTP request over ASGI: reads its body, writes its answer, and fills in its record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl

from toolglot.config.schema import Limits
from toolglot.dialects import DEFAULT, DIALECTS
from toolglot.errors import ApiError
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.request_record import RequestRecord
from toolglot.server.body_budget import BodyHold
from toolglot.server.credentials import find_credentials, hide, hide_in_error
from toolglot.server.json_array import JsonArray
from toolglot.server.request_body import decode_headers, read_body
from toolglot.server.response_cycle import CUT
from toolglot.server.routes import Match, NoMatch
from toolglot.server.security import NO_CALLER, Operator

if TYPE_CHECKING:
    from toolglot.gateway.features.recording import ExchangeRecording

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Scope: TypeAlias = MutableMapping[str, Any]


OUR_HEADERS = "x-toolglot-"
"""Prefix of the headers that describe the exchange. They may contain names that a client chose."""


class ClientLeftError(Exception):
    """The client has disconnected, or has stopped reading."""


class AsgiRequest:
    """A request and its answer over ASGI.

    `begun`: the head of the answer was sent, and cannot be changed. `finished`: the end was sent, too.

    `gateway` is the one that was active when the request arrived: a later reload does not affect the request.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, record: RequestRecord, gateway: Gateway) -> None:
        self.scope = scope
        self.receive = receive
        self.record = record
        self.gateway = gateway
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = decode_headers(scope["headers"])
        self.query = parse_query(scope["query_string"])
        self.begun = False
        self.finished = False
        self.extra_headers: dict[str, str] = {}
        """Headers of any answer: the request's id, CORS permissions."""
        self.default_headers: dict[str, str] = {}
        """Headers of any answer that has no such header."""
        self.framing: JsonArray | None = None
        """Framing of a streamed answer, if it is not server-sent events."""
        self.stream_headers: Mapping[str, str] = {}
        """Headers of a stream in the client's framing."""
        self.recording: ExchangeRecording | None = None
        """The recording of this exchange, if it is recorded."""
        self.hold: BodyHold | None = None
        """The share of the body budget that this request's body takes."""
        self.caller = NO_CALLER
        self.operator: Operator | None = None
        """Who administers the team with this request, or looks on."""
        self._send = send
        self._loop = asyncio.get_running_loop()

    @cached_property
    def credentials(self) -> tuple[str, ...]:
        """Credentials that the client sent in headers or query."""
        return tuple(dict.fromkeys(find_credentials(self.headers, self.query)))

    @property
    def peer(self) -> str | None:
        """The address of the connection's other side."""
        client = self.scope.get("client")
        return client[0] if client else None

    def hide_in_error(self, error: ApiError) -> ApiError:
        """Remove credentials from an error: the client's own and those of the configuration."""
        return hide_in_error(error, (*self.gateway.secrets, *self.credentials))

    async def body(self) -> bytes:
        """Read the whole body and decompress it. Raises a `BodyError`."""
        return await read_body(self.scope, self.receive, self.limits, self.hold)

    @property
    def limits(self) -> Limits:
        return self.gateway.config.limits

    async def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer. A HEAD request gets no body."""
        length = {} if status == 204 else {"content-length": str(len(body))}  # RFC 9110, section 8.6
        await self._begin(status, {**headers, **length})
        await self._write(b"" if self.method == "HEAD" else body, more=False)

    async def begin(self, headers: Mapping[str, str]) -> None:
        """Send the head of a streamed answer."""
        framing = self.stream_headers if self.framing is None else self.framing.headers
        await self._begin(200, {**headers, **framing})

    async def write(self, data: bytes) -> None:
        """Send a piece of a streamed answer. Waits while the client reads slowly. Raises `ClientLeftError`."""
        await self._write(data if self.framing is None else self.framing.feed(data), more=True)

    async def end(self) -> None:
        await self._write(b"" if self.framing is None else self.framing.close(), more=False)

    async def cut(self) -> None:
        """Close the connection without ending the answer, so that the client sees a broken stream."""
        self.finished = self.record.cut = True
        self.record.ended = self._loop.time()
        if self.recording is not None:
            self.recording.data(b"", more=False)
        if (cut := self.scope.get(CUT)) is not None:  # other ASGI servers close a connection whose answer has no end
            cut()

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.begun = True
        self.record.status = status
        fields = {**self.default_headers, **headers, **self.extra_headers}
        if self.credentials:
            fields |= {
                name: hide(value, self.credentials) for name, value in fields.items() if name.startswith(OUR_HEADERS)
            }
        if self.recording is not None:
            self.recording.head(status, fields)
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        await self._send_message({"type": "http.response.start", "status": status, "headers": raw})

    async def _write(self, data: bytes, *, more: bool) -> None:
        now = self._loop.time()
        if self.record.first_byte is None and data:
            self.record.first_byte = now
        self.record.bytes_out += len(data)
        if self.recording is not None:
            self.recording.data(data, more=more)
        if not more:
            self.finished = True
            self.record.ended = now
        await self._send_message({"type": "http.response.body", "body": data, "more_body": more})

    async def _send_message(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:  # ASGI servers raise this when the client has disconnected
            raise ClientLeftError from None


def hide_in_record(record: RequestRecord, credentials: Sequence[str]) -> None:
    """Remove the client's credentials from the record, which goes to logs, metrics and traces."""
    if credentials:
        record.path = hide(record.path, credentials)
        record.model, record.upstream_model, record.message, record.user_agent = (
            text and hide(text, credentials)
            for text in (record.model, record.upstream_model, record.message, record.user_agent)
        )


def parse_query(raw: bytes) -> dict[str, str]:
    return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True)) if raw else {}


_DIALECT_HEADERS = {
    header: manifest.name for manifest in DIALECTS.manifests.values() for header in manifest.client_headers
}


def find_client_dialect(incoming: AsgiRequest, match: Match | NoMatch) -> str:
    """Find the client's dialect: by the path, or else by headers that only its clients send."""
    return guess_client_dialect(match, incoming.headers)


def guess_client_dialect(match: Match | NoMatch, headers: Mapping[str, str]) -> str:
    """Guess the client's dialect, like `find_client_dialect`. Header names are in lower case, or `headers` ignores
    case."""
    if match.dialect is not None:
        return match.dialect
    guess = (match.nearest if isinstance(match, NoMatch) else None) or DEFAULT
    return next((dialect for header, dialect in _DIALECT_HEADERS.items() if header in headers), guess)
