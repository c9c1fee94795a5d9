"""Which requests the callback driver answers: decided from the head, and then from the body.

What it does not take goes to the ASGI app, whose driver awaits: what is recorded, what MCP servers take part in, what
goes on from a stored response, large and packed bodies, and requests that are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from random import random
from secrets import token_bytes
from time import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec.structs import replace

from toolglot.dialects import find
from toolglot.direct.plain import PlainRequest
from toolglot.direct.reading import Reader
from toolglot.direct.request import LARGEST
from toolglot.errors import ApiError, ToolglotError
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.client_connection import ClientConnection
from toolglot.gateway.client_request import ClientRequest
from toolglot.gateway.context import client_context
from toolglot.gateway.direct_request import DirectRequest, encode_direct_fault, with_direct_state
from toolglot.gateway.direct_routes import DirectRoute, SharedRequest
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.responses_state import with_turn
from toolglot.gateway.features.separate_error import with_separate_error
from toolglot.gateway.flow import Environment, FlowContext, answer
from toolglot.gateway.known_heads import KnownRequestHead, PendingRequest, RequestHead, around_length
from toolglot.gateway.plain_answer import plain_answer
from toolglot.gateway.received import ReceivedRequest, check_request, decode_request
from toolglot.gateway.targets import RequestTargets, answer_without_model, log_failure
from toolglot.ir import Request
from toolglot.routing import MAX_NAME
from toolglot.server import failures, json_array, routes
from toolglot.server.attaching import find_requested_servers, note_withheld_servers
from toolglot.server.body_budget import SMALL, BodyBudget, BodyHold
from toolglot.server.calling import Calling
from toolglot.server.credentials import hide_in_error, mentions, shown_credentials
from toolglot.server.headers import OURS, header_lines, stream_headers
from toolglot.server.incoming import parse_query
from toolglot.server.ingress import named
from toolglot.server.recent_prefixes import plain_prefix_key
from toolglot.server.record import Record
from toolglot.server.replays import Replays
from toolglot.server.security import Caller
from toolglot.server.states import States
from toolglot.server.turn import Turn

if TYPE_CHECKING:
    from toolglot.server.gateway import Gateway
    from toolglot.server.service import Service

_DECIDING = frozenset({"origin", "content-encoding", "expect", "upgrade", *OURS})
"""Headers that only the app looks at."""

log = logging.getLogger("toolglot.server")

_NOBODY = Caller("", "")
_MOST_HEADS = 1024
_IDS = 256
_LENGTH = b"content-length"


class CallbackAdmission:
    """The way in for all connections of a server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._heads: dict[tuple[object, ...], RequestHead | None] = {}
        self._known_heads: dict[tuple[bytes, bytes, int], KnownRequestHead] = {}
        self._guard = service.gateway.guard
        self._readers: dict[str, Reader] = {}
        self._ids: list[str] = []

    def admit(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> PendingRequest | None:
        """The request with this head, if the callback driver may take it once its body is there."""
        gateway = self.service.gateway
        if not self._is_open():
            return None
        if gateway.guard is not self._guard:
            self._guard = gateway.guard
            self._heads.clear()
        head = self._head(url, fields)
        return None if head is None else PendingRequest(head, min(gateway.config.limits.body, LARGEST), [])

    def known_head(self, data: bytes, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> KnownRequestHead | None:
        """How to know the next request with this head, of which `data` is all: it was admitted."""
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
        """Asked for the head and for the body, between which much may happen."""
        service = self.service
        config = service.gateway.config
        if service.tapes is not None or not service.accepting:
            return False
        return service.in_flight < config.limits.concurrent_requests

    def _head(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> RequestHead | None:
        """What this head says; None for one that only the app reads."""
        key = (url, *[field for field in fields if field[0] != _LENGTH])
        head = self._heads.get(key)
        if head is None and key not in self._heads:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            head = self._heads[key] = self._read(url, fields)
        return head

    def _read(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> RequestHead | None:
        raw_path, _, raw_query = url.partition(b"?")
        path, query, headers = unquote(raw_path.decode("latin-1")), parse_query(raw_query), named(fields)
        match = routes.find("POST", path)
        if isinstance(match, routes.NoMatch) or match.route.action != "generate" or match.dialect is None:
            return None
        if not _DECIDING.isdisjoint(headers) or json_array.wanted(match, query):
            return None
        verdict = self._guard.check("POST", headers)
        caller, error = self._guard.identify(headers, query)
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
            stream_lines=header_lines(stream_headers(client.stream.framing)) + b"transfer-encoding: chunked\r\n",
            query=query,
            headers=headers,
            caller=caller or _NOBODY,
            shown=tuple(dict.fromkeys(shown_credentials(headers, query))),
            guard=self._guard,
        )

    def known_driver(
        self, client: ClientConnection, known_head: KnownRequestHead, data: bytes
    ) -> CallbackDriver | None:
        """The driver of a request that came in one piece and has this head; None if it has to be read."""
        body = known_head.body(data)
        if body is None or len(body) > LARGEST or len(body) > self.service.gateway.config.limits.body:
            return None
        return self.driver(client, PendingRequest(known_head.head, 0, [body], known_head), body)

    def driver(self, client: ClientConnection, pending: PendingRequest, body: bytes) -> CallbackDriver | None:
        """The driver of a whole request; None for one that is the app's."""
        if pending.head.guard is not self.service.gateway.guard or not self._is_open():
            return None
        try:
            driver = self._direct_driver(client, pending, body)
            return self._translating_driver(client, pending.head, body) if driver is None else driver
        except (ToolglotError, FailedError):
            return None  # the app tells the client
        except Exception:  # a defect of ours, which must not cost the client its answer: nothing was sent
            log.exception("a request could not be read for the callback driver; the app answers it")
            return None

    def _translating_driver(self, client: ClientConnection, head: RequestHead, body: bytes) -> CallbackDriver | None:
        """The driver of a request that is translated by an exchange. Raises what the app is to tell the client."""
        service, gateway, now = self.service, self.service.gateway, client.loop.time()
        dialect, owner, store, limits = head.client, head.caller.owner, service.store, gateway.config.limits
        request = decode_request(dialect, body, head.route, head.values)
        check_request(dialect, request, limits)
        routed = gateway.router.resolve(request.model)
        keeps_state = gateway.upstreams[routed[0].upstream].keeps_state
        begun = Turn.begin_alone(dialect.name, body, store, owner, upstream_keeps_state=keeps_state)
        if begun is None:
            return None
        turn, whole = begun
        if whole is not body:
            request = decode_request(dialect, whole, head.route, head.values)
        label = head.caller.label or None
        received = ReceivedRequest(
            client=dialect,
            request=request,
            body=whole,
            headers=head.headers,
            query=head.query,
            shown=head.shown,
            call_heads=head.call_heads,
            can_cut=True,
            strict=gateway.config.strict,
            lines=(*turn.withheld, *note_withheld_servers(gateway.config.mcp, routed[0], label)),
        )
        if answer_without_model(gateway, received, routed[0]) is not None:
            return None
        if find_requested_servers(gateway, received, routed[0], label).wanted:
            return None
        hold = _try_hold(service.bodies, body) if len(body) > SMALL else None
        if hold is None and len(body) > SMALL:
            return None  # the app waits for room
        record = self._new_record(head, request, len(body), now)
        context = client_context(record, received, limits, partial(_hide, gateway, head.shown))
        calling, replays, states = Calling(service.verdicts, store), Replays(store, owner), States(store, owner)
        targets = RequestTargets(gateway, received, context, calling, replays, states)
        flow = plain_answer(targets, routed).flow
        if turn.is_active:
            flow = with_turn(flow, context, turn)
        if request.stream and dialect.stream.apart:
            flow = with_separate_error(flow, context, dialect.stream.apart)
        service.in_flight += 1
        answered = ClientRequest(service, head, record, received, targets, turn, hold)
        return CallbackDriver(
            client, answered, context, flow, flow.send, service.sweep, record, now, now, record.stream
        )

    def _new_record(self, head: RequestHead, request: Request, size: int, now: float) -> Record:
        return Record(
            id=(self._ids or self._more_ids()).pop(),
            method="POST",
            path=head.path,
            started=now,
            route=head.route.path,
            key=head.caller.label or None,
            owner=head.caller.owner,
            client=head.client.name,
            user_agent=head.headers.get("user-agent"),
            traceparent=head.headers.get("traceparent"),
            model=request.model[:MAX_NAME],
            stream=request.stream,
            bytes_in=size,
        )

    def _direct_driver(self, client: ClientConnection, pending: PendingRequest, body: bytes) -> CallbackDriver | None:
        """The driver of a request that can be translated directly."""
        service, head = self.service, pending.head
        gateway, now = service.gateway, client.loop.time()
        dialect, caller, limits = head.client, head.caller, gateway.config.limits
        if dialect.direct is None or gateway.config.mcp.servers:
            return None
        reader = self._readers.get(dialect.name)
        if reader is None:
            reader = self._readers[dialect.name] = Reader(dialect.direct)
        plain = reader.read(body)
        if plain is None or (route := gateway.direct_routes.find(dialect.name, plain.model, now)) is None:
            return None
        store = service.store
        if route.issuer is not None and store is not None and store.may_have_states(caller.owner, route.issuer):
            return None
        if len(plain.turns) + len(plain.system) >= limits.messages:
            return None
        repeats = partial(_prefix_repeats, gateway, caller, route, now) if route.requests.by_marks else None
        asked = route.requests.translate_plain(plain, body, repeats)
        if asked is None or len(asked.learnt.asked.tools) > limits.tools:
            return None
        shared = route.shared(head, plain.model, asked.learnt)
        if shared.clean is not asked.lines:
            if any(each in plain.model for each in head.shown) or mentions(asked.lines, head.shown):
                return None  # a credential, which has to be hidden
            shared.clean = asked.lines
        hold = _try_hold(service.bodies, body) if len(body) > SMALL else None
        if hold is None and len(body) > SMALL:
            return None  # the app waits for room
        ids = self._ids or self._more_ids()
        record = replace(shared.record, id=ids.pop(), started=now, bytes_in=len(body))
        service.in_flight += 1
        body, limit = asked.body, limits.response
        request = DirectRequest(
            service,
            gateway,
            client,
            route,
            shared,
            asked,
            pending,
            record,
            hold,
            body,
            len(body),
            route.transport,
            limit,
        )
        context = (shared.context or self._new_context(gateway, route, shared, head)).__copy__()  # type: ignore[attr-defined]
        context.record, context.prepared = record, request
        flow = answer(context, request.targets(context))
        if request.keeps_state:
            flow = with_direct_state(flow, context, request)
        return CallbackDriver(client, request, context, flow, flow.send, service.sweep, record, now, now, record.stream)

    def _new_context(
        self, gateway: Gateway, route: DirectRoute, shared: SharedRequest, head: RequestHead
    ) -> FlowContext:
        shared.fallbacks = gateway.router.resolve(shared.record.model or "")[1:]
        shared.context = FlowContext(
            record=shared.record,
            environment=Environment(asyncio.get_running_loop().time, random, time),
            is_streaming=shared.record.stream,
            encode_keepalive=route.encode_keepalive,
            keepalive_seconds=gateway.config.limits.keepalive,
            encode_fault=encode_direct_fault,
            describe_failure=failures.told,
            hide=partial(_hide, gateway, head.shown),
            on_failure=log_failure,
        )
        return shared.context

    def _more_ids(self) -> list[str]:
        """As the app makes them, but for the system calls: randomness is fetched for many at once."""
        randomness = token_bytes(12 * _IDS).hex()
        self._ids = [f"req_{randomness[start : start + 24]}" for start in range(0, 24 * _IDS, 24)]
        return self._ids


def _hide(gateway: Gateway, shown: Sequence[str], error: ApiError) -> ApiError:
    return hide_in_error(error, (*gateway.secrets, *shown))


def _prefix_repeats(
    gateway: Gateway, caller: Caller, route: DirectRoute, now: float, plain: PlainRequest, tools: frozenset[str]
) -> bool:
    """Have the tools and the system text of this request come a short time ago?"""
    key = plain_prefix_key(caller.owner, route.upstream.name, route.target.model, plain, tools)
    return gateway.recent_prefixes.note(key, now)


def _try_hold(bodies: BodyBudget, body: bytes) -> BodyHold | None:
    """The memory of this body, counted; None where there is no room for it now."""
    hold = bodies.hold()
    if not hold.try_add(body):
        hold.release()
        return None
    hold.settle()
    return hold
