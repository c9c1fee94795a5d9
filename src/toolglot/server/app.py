"""The ASGI app: routes a request, checks access, runs its action, and reports errors in the client's dialect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING

from toolglot import __version__
from toolglot.dialects import DIALECTS, STORED
from toolglot.errors import ApiError, LossError
from toolglot.gateway.errors import FailedError
from toolglot.gateway.request_record import RequestRecord
from toolglot.receipt import Receipt
from toolglot.server import actions, error_replies, headers, json_array, routes
from toolglot.server.asgi_request import (
    AsgiRequest,
    ClientLeftError,
    Receive,
    Scope,
    Send,
    find_client_dialect,
    hide_in_record,
)
from toolglot.server.security import Operator, find_keys
from toolglot.server.service import Service
from toolglot.store import StoreError

if TYPE_CHECKING:
    from toolglot.team.directory import KeyDirectory
    from toolglot.team.service import Team

log = logging.getLogger("toolglot.server")

_KEYS_AWAY = ApiError(
    kind="overloaded",
    status=503,
    code="keys_unavailable",
    message="This server cannot check keys at the moment: its database does not answer",
    retry_after=2.0,
)
NO_WEBSOCKET = ApiError(
    kind="bad_request",
    status=426,
    code="websocket_unsupported",
    message="toolglot does not serve WebSockets: send the same request as POST over HTTP",
)
"""After a 426 Codex switches to HTTP at once; after any other status only when it has tried seven times."""
_UPGRADE_HEADERS = {"upgrade": "HTTP/1.1", "connection": "upgrade"}
"""RFC 9110, section 15.5.22: a 426 names the supported protocol."""


class App:
    """Runs in any ASGI server. The caller opens and closes the `service`."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await _refuse_websocket(scope, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, loop = self.service, asyncio.get_running_loop()
        record = RequestRecord(
            id=f"req_{token_hex(12)}", method=scope["method"], path=scope["path"], started=loop.time()
        )
        incoming = AsgiRequest(scope, receive, send, record, service.gateway)
        record.user_agent = incoming.headers.get("user-agent")
        record.traceparent = incoming.headers.get("traceparent")
        incoming.extra_headers |= {"x-request-id": record.id, "x-toolglot-version": __version__}
        service.in_flight += 1
        incoming.hold = service.bodies.hold()
        try:
            await self._answer(incoming)
        except asyncio.CancelledError:
            if not record.cancelled:
                raise
            # The client has disconnected: its work is cancelled, and no error is sent.
            current = asyncio.current_task()
            assert current is not None
            current.uncancel()
        except ClientLeftError:
            record.cancelled = True
        finally:
            service.in_flight -= 1
            incoming.hold.release()
            record.ended = record.ended or loop.time()
            hide_in_record(record, incoming.credentials)
            if incoming.recording is not None:
                incoming.recording.end(record)
            service.observe(record)

    async def _answer(self, incoming: AsgiRequest) -> None:
        match = routes.find(incoming.method, incoming.path)
        if isinstance(match, routes.Match) and json_array.wants_json_array(match.route, incoming.query):
            incoming.framing = json_array.JsonArray()
        incoming.record.admitted = False
        try:
            if self.service.team is not None:
                await look_up_keys(self.service.team.keys, incoming.headers, incoming.query)
                incoming.operator = await find_operator(self.service.team, incoming, match)
            if (refusal := self._refuse(incoming, match)) is not None:
                raise FailedError(refusal)
            is_open = isinstance(match, routes.Match) and match.route.open
            incoming.record.admitted = not is_open and incoming.method != "OPTIONS"
            if incoming.method == "OPTIONS":
                await incoming.reply(204, {}, b"")
                return
            if isinstance(match, routes.NoMatch):
                if match.allowed:
                    incoming.extra_headers["allow"] = ", ".join(match.allowed)
                    if incoming.headers.get("upgrade", "").lower() == "websocket":
                        incoming.extra_headers |= _UPGRADE_HEADERS
                        raise FailedError(NO_WEBSOCKET)
                raise FailedError(match.error)
            incoming.record.route, incoming.record.client = match.route.path, match.dialect
            if name := DIALECTS[find_client_dialect(incoming, match)].headers.request_id:
                incoming.default_headers[name] = incoming.record.id
            await actions.ACTIONS[match.route.action](self.service, incoming, match)
        except BaseException as failure:  # also a cancellation, which may mean that the drain time has elapsed
            if (error := error_replies.describe_failure(failure, incoming.record)) is None:
                raise
            receipt = failure.receipt if isinstance(failure, (FailedError, LossError)) else None
            await self._fail(incoming, match, error, receipt)

    def _refuse(self, incoming: AsgiRequest, match: routes.Match | routes.NoMatch) -> ApiError | None:
        """Check access and limits. Only the matched route matters; a path that is not known to be open needs a key."""
        guard = incoming.gateway.guard
        keys = self.service.keys
        decision = guard.check(incoming.method, incoming.headers, keys)
        incoming.extra_headers |= decision.headers
        if decision.error is not None or incoming.method == "OPTIONS":
            return decision.error
        if isinstance(match, routes.Match) and match.route.open:
            return None
        error = self._identify(incoming, match)
        if error is None and headers.count_hops(incoming.headers) >= headers.MAX_HOPS:
            message = f"This request has come through {headers.MAX_HOPS} gateways: is one the upstream of another?"
            return ApiError(kind="server", status=508, code="circle", message=message)
        if error is not None:
            return error
        if not self.service.is_accepting:
            return error_replies.DRAINING
        limit = incoming.gateway.config.limits.concurrent_requests
        reserved = isinstance(match, routes.Match) and match.route.reserved
        if self.service.in_flight > limit and not reserved:
            message = f"toolglot has {limit} requests in flight, its limit"
            return ApiError(kind="overloaded", status=503, code="too_many_requests", message=message, retry_after=1.0)
        return None

    def _identify(self, incoming: AsgiRequest, match: routes.Match | routes.NoMatch) -> ApiError | None:
        """Find who sends the request, and check whether the route is for them."""
        guard, record = incoming.gateway.guard, incoming.record
        caller, error = guard.identify(incoming.headers, incoming.query, self.service.keys)
        if caller is not None:
            incoming.caller = caller
            record.key, record.owner = caller.label, caller.owner
        operator = incoming.operator
        if operator is not None:
            record.key = operator.name
        if isinstance(match, routes.NoMatch):
            return error if operator is None else None
        if match.route.role == "client":
            return error
        refusal = guard.check_role(match.route.role, operator, caller)
        return refusal or (error if operator is None else None)

    async def _fail(
        self,
        incoming: AsgiRequest,
        match: routes.Match | routes.NoMatch,
        error: ApiError,
        receipt: Receipt | None = None,
    ) -> None:
        """Send the error in the client's dialect. An answer that has begun is left unfinished instead."""
        error = incoming.hide_in_error(error)
        incoming.record.error, incoming.record.message = error.kind, error.message
        if incoming.begun:
            return
        dialect = DIALECTS[find_client_dialect(incoming, match)]  # encoding an error needs no optional package
        reply = error_replies.encode_error_reply(dialect, error, incoming.record)
        lost = headers.describe_receipt(receipt) if receipt is not None else {}
        body = reply.body if incoming.framing is None else incoming.framing.wrap(reply.body)
        await incoming.reply(reply.status, {**reply.headers, **lost}, body)


async def look_up_keys(keys: KeyDirectory, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
    """Read unknown keys of a request from the database."""
    for shown in find_keys(headers, query):
        if not keys.needs_lookup(shown):
            continue
        try:
            await keys.look_up(shown)
        except StoreError:
            log.warning("a key could not be looked up", exc_info=True)
            raise FailedError(_KEYS_AWAY) from None


async def find_operator(team: Team, incoming: AsgiRequest, match: routes.Match | routes.NoMatch) -> Operator | None:
    """Find who administers the team with this request: by a credential, or as a person who has signed in."""
    operator = incoming.gateway.guard.find_operator(incoming.headers)
    is_person = team.config.proxy is not None or team.config.oidc is not None
    if operator is not None or not is_person or isinstance(match, routes.NoMatch) or match.route.role == "client":
        return operator
    from toolglot.server.sign_in import find_person  # most teams have none

    try:
        return await find_person(team, incoming)
    except StoreError:
        log.warning("a session could not be looked up", exc_info=True)
        raise FailedError(_KEYS_AWAY) from None


async def _refuse_websocket(scope: Scope, send: Send) -> None:
    """Refuse a WebSocket, for ASGI servers that handle the handshake; with ours the routes do it."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1003, "reason": NO_WEBSOCKET.message})
        return
    reply = DIALECTS[STORED].encode_error(NO_WEBSOCKET)
    fields = {**reply.headers, **_UPGRADE_HEADERS, "content-length": str(len(reply.body))}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "websocket.http.response.start", "status": NO_WEBSOCKET.status, "headers": raw})
    await send({"type": "websocket.http.response.body", "body": reply.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
