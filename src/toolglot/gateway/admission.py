"""Decide which requests are answered directly on their connection: first by the head, then by the body.

Others go to the ASGI app (`server/generate.py`): recorded exchanges, bodies that are large, compressed or slow,
HTTP/1.0 and CORS clients, and requests that are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from secrets import token_bytes
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec.structs import replace

from toolglot.dialects import find
from toolglot.errors import ToolglotError
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.client_answer import continue_preparation
from toolglot.gateway.client_connection import ClientConnection
from toolglot.gateway.client_request import ClientRequest
from toolglot.gateway.commands import Flow
from toolglot.gateway.context import copy_context
from toolglot.gateway.errors import FailedError
from toolglot.gateway.known_heads import KnownRequestHead, PendingRequest, RequestHead, around_length
from toolglot.gateway.model_route import find_route
from toolglot.gateway.received import ReceivedRequest, check_request, decode_request
from toolglot.server import json_array, routes
from toolglot.server.asgi_request import parse_query
from toolglot.server.body_budget import SMALL_BODY
from toolglot.server.credentials import find_credentials
from toolglot.server.headers import CLIENT_SETTINGS, encode_lines, stream_headers
from toolglot.server.request_body import decode_headers
from toolglot.server.security import NO_CALLER, Caller
from toolglot.upstream.offload import LARGE

if TYPE_CHECKING:
    from toolglot.server.service import Service

_DECIDING = frozenset({"origin", "content-encoding", "expect", "upgrade", *CLIENT_SETTINGS})
"""Headers that only the ASGI app handles."""

log = logging.getLogger("toolglot.server")

_MOST_HEADS = 1024
_IDS = 256
_LENGTH = b"content-length"


class CallbackAdmission:
    """Admits requests to the callback driver, for all connections of a server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._heads: dict[tuple[object, ...], RequestHead | None] = {}
        self._known_heads: dict[tuple[bytes, bytes, int], KnownRequestHead] = {}
        self._guard = service.gateway.guard
        self._ids: list[str] = []

    def admit(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> PendingRequest | None:
        """Return a pending request if a request with this head may be answered on its connection; otherwise None."""
        gateway = self.service.gateway
        if not self._is_open():
            return None
        if gateway.guard is not self._guard:
            self._guard = gateway.guard
            self._heads.clear()
        head = self._head(url, fields)
        return None if head is None else PendingRequest(head, min(gateway.config.limits.body, LARGE), [])

    def known_head(self, data: bytes, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> KnownRequestHead | None:
        """Describe the admitted head in `data`, so that the next request with the same head is recognized."""
        around, head = around_length(data), self._head(url, fields)
        if around is None or head is None:
            return None
        found = self._known_heads.get(around)
        if found is None or found.head is not head:
            if len(self._known_heads) >= _MOST_HEADS:
                self._known_heads.clear()
            found = self._known_heads[around] = KnownRequestHead(*around, head)
        return found

    def _is_open(self) -> bool:
        """Return whether requests are accepted. Checked for the head and again for the body, since much may happen in
        between."""
        service = self.service
        config = service.gateway.config
        if service.recorder is not None or not service.is_accepting:
            return False
        return service.in_flight < config.limits.concurrent_requests

    def _head(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> RequestHead | None:
        """Parse this head; None if the request must be handled by the ASGI app."""
        key = (url, *[field for field in fields if field[0] != _LENGTH])
        head = self._heads.get(key)
        if head is not None and not self._is_valid(head.caller):
            head = self._heads.pop(key) and None
        if head is None and key not in self._heads:
            head = self._read(url, fields)
            if head is None and self.service.team is not None:
                return None  # the app may look up its key
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[key] = head
        return head

    def _is_valid(self, caller: Caller) -> bool:
        """Return whether the caller's key has not changed since the head was parsed."""
        if caller.account is None:
            return True
        keys = self.service.keys
        return keys is not None and keys.is_valid(caller.account)

    def _read(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> RequestHead | None:
        raw_path, _, raw_query = url.partition(b"?")
        path, query, headers = unquote(raw_path.decode("latin-1")), parse_query(raw_query), decode_headers(fields)
        match = routes.find("POST", path)
        if isinstance(match, routes.NoMatch) or match.route.action != "generate" or match.dialect is None:
            return None
        if not _DECIDING.isdisjoint(headers) or json_array.wants_json_array(match.route, query):
            return None
        keys = self.service.keys
        verdict = self._guard.check("POST", headers, keys)
        caller, error = self._guard.identify(headers, query, keys)
        if verdict.error is not None or verdict.headers or error is not None:
            return None
        try:
            client = find(match.dialect)
        except ToolglotError:
            return None
        return RequestHead(
            path=path,
            route=match.route,
            values=match.values,
            client=client,
            stream_lines=encode_lines(stream_headers(client.stream.framing)) + b"transfer-encoding: chunked\r\n",
            request_id_start=b"%b: " % client.headers.request_id.encode() if client.headers.request_id else b"",
            query=query,
            headers=headers,
            caller=caller or NO_CALLER,
            credentials=tuple(dict.fromkeys(find_credentials(headers, query))),
            guard=self._guard,
        )

    def known_driver(
        self, client: ClientConnection, known_head: KnownRequestHead, data: bytes
    ) -> CallbackDriver | None:
        """Return the driver of a request that arrived in one piece with this known head; None if it must be parsed."""
        body = known_head.body(data)
        if body is None or len(body) > LARGE or len(body) > self.service.gateway.config.limits.body:
            return None
        return self.driver(client, known_head.head, body)

    def driver(self, client: ClientConnection, head: RequestHead, body: bytes) -> CallbackDriver | None:
        """Return the driver of a complete request; None if the ASGI app must handle it."""
        if head.guard is not self.service.gateway.guard or not self._is_open() or not self._is_valid(head.caller):
            return None
        try:
            return self._new_driver(client, head, body)
        except (ToolglotError, FailedError):
            return None  # the app sends the error to the client
        except Exception:  # a bug of ours; the client still gets an answer, since nothing was sent yet
            log.exception("a request could not be prepared on its connection; the app answers it")
            return None

    def _new_driver(self, client: ClientConnection, head: RequestHead, body: bytes) -> CallbackDriver | None:
        """Raises the error that the app sends to the client."""
        service, now, dialect = self.service, client.loop.time(), head.client
        gateway = service.gateway
        request = decode_request(dialect, body, head.route, head.values)
        check_request(dialect, request, gateway.config.limits)
        route = find_route(gateway, head, request.model)
        received = ReceivedRequest(
            client=dialect,
            request=request,
            body=body,
            headers=head.headers,
            query=head.query,
            caller=head.caller,
            credentials=head.credentials,
            call_heads=head.call_heads,
            can_cut=True,
            strict=gateway.config.strict,
        )
        record = replace(
            route.record,
            id=(self._ids or self._more_ids()).pop(),
            started=now,
            stream=request.stream,
            bytes_in=len(body),
        )
        context = copy_context(route.context, record, received)
        answer = ClientRequest(service, gateway, head, route, record, received, context, hold=None, connection=client)
        steps = answer.prepare()
        try:
            first = next(steps)
        except StopIteration as end:
            flow: Flow = end.value
        else:
            answer.is_awaited, answer.hold = True, service.bodies.hold()
            flow = continue_preparation(steps, first)
        if len(body) > SMALL_BODY:
            answer.hold = service.bodies.hold_whole(body)
            if answer.hold is None:
                return None  # the app waits for room
        service.in_flight += 1
        return CallbackDriver(
            answer, client.loop, context, flow, flow.send, service.sweep, record, now, now, request.stream
        )

    def _more_ids(self) -> list[str]:
        """Create request ids like the app's, with fewer system calls: random bytes are fetched for many ids at a
        time."""
        randomness = token_bytes(12 * _IDS).hex()
        self._ids = [f"req_{randomness[start : start + 24]}" for start in range(0, 24 * _IDS, 24)]
        return self._ids
