"""Which requests are answered on a lane: decided from the head, and then from the body."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from copy import copy
from functools import partial
from random import random
from secrets import token_bytes
from time import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolglot.dialect import Dialect
from toolglot.dialects import DIALECTS
from toolglot.direct.plain import PlainRequest
from toolglot.direct.reading import Reader
from toolglot.direct.request import LARGEST
from toolglot.errors import ApiError
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.client_connection import ClientConnection
from toolglot.gateway.flow import Environment, FlowContext, answer
from toolglot.gateway.known_heads import Familiar, Head, Waiting, around_length
from toolglot.gateway.lane_request import LaneRequest, encode_lane_fault, with_lane_state
from toolglot.gateway.lanes import Lane, Passage
from toolglot.gateway.targets import log_failure
from toolglot.server import failures
from toolglot.server.body_budget import SMALL, BodyBudget, BodyHold
from toolglot.server.credentials import hide_in_error, mentions, shown_credentials
from toolglot.server.headers import OURS
from toolglot.server.ingress import named
from toolglot.server.recent_prefixes import plain_prefix_key
from toolglot.server.security import Caller

if TYPE_CHECKING:
    from toolglot.server.gateway import Gateway
    from toolglot.server.service import Service

PATHS: dict[str, Dialect] = {
    path: DIALECTS[name] for path, name in (("/v1/chat/completions", "openai_chat"), ("/v1/messages", "anthropic"))
}
"""The paths that have one, as clients write them that write them right. Clients of the Responses API have a history
that is kept for them, which is the general way's business."""

QUERIES: dict[bytes, dict[str, str]] = {b"": {}, b"beta=true": {"beta": "true"}}
"""Anthropic's own clients say the second. Any other query goes the general way."""

_DECIDING = frozenset({"origin", "content-encoding", "expect", "upgrade", *OURS})
"""Headers that only the general way looks at."""

log = logging.getLogger("toolglot.server")

_NOBODY = Caller("", "")
_MOST_HEADS = 1024
_IDS = 256
_LENGTH = b"content-length"


class LaneAdmission:
    """The way in for all connections of a server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._heads: dict[tuple[object, ...], Head | None] = {}
        self._familiar: dict[tuple[bytes, bytes, int], Familiar] = {}
        self._guard = service.gateway.guard
        self._readers = {dialect.name: Reader(dialect.direct) for dialect in PATHS.values()}
        self._ids: list[str] = []

    def admit(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Waiting | None:
        """Whether a request with this head may take the lane, once its body is there."""
        gateway = self.service.gateway
        if not self._is_open():
            return None
        if gateway.guard is not self._guard:
            self._guard = gateway.guard
            self._heads.clear()
        head = self._head(url, fields)
        return None if head is None else Waiting(head, min(gateway.config.limits.body, LARGEST), [])

    def familiar(self, data: bytes, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Familiar | None:
        """How to know the next request with this head, of which `data` is all: it was admitted."""
        around, head = around_length(data), self._head(url, fields)
        if around is None or head is None:
            return None
        found = self._familiar.get(around)
        if found is None or found.head is not head:
            if len(self._familiar) >= _MOST_HEADS:
                self._familiar.clear()
            found = self._familiar[around] = Familiar(*around, head)
        return found

    def _is_open(self) -> bool:
        """Asked for the head and for the body, between which much may happen."""
        service = self.service
        config = service.gateway.config
        if service.tapes is not None or config.mcp.servers or not service.accepting:
            return False
        return service.in_flight < config.limits.concurrent_requests

    def _head(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Head | None:
        """What this head says; None for one that only the general way may read."""
        key = (url, *[field for field in fields if field[0] != _LENGTH])
        head = self._heads.get(key)
        if head is None and key not in self._heads:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            head = self._heads[key] = self._read(url, fields)
        return head

    def _read(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Head | None:
        path, _, query = url.partition(b"?")
        client, asked = PATHS.get(path.decode("latin-1")), QUERIES.get(query)
        headers = named(fields)
        if client is None or asked is None or not _DECIDING.isdisjoint(headers):
            return None
        verdict = self._guard.check("POST", headers)
        caller, error = self._guard.identify(headers, {})
        if verdict.error is not None or verdict.headers or error is not None:
            return None
        return Head(
            path=path.decode("latin-1"),
            client=client,
            query=asked,
            headers=headers,
            caller=caller or _NOBODY,
            shown=tuple(dict.fromkeys(shown_credentials(headers, {}))),
            guard=self._guard,
        )

    def known_driver(self, client: ClientConnection, familiar: Familiar, data: bytes) -> CallbackDriver | None:
        """The driver of a request that came in one piece and has this head; None if it has to be read."""
        body = familiar.body(data)
        if body is None or len(body) > LARGEST or len(body) > self.service.gateway.config.limits.body:
            return None
        return self.driver(client, Waiting(familiar.head, 0, [body], familiar), body)

    def driver(self, client: ClientConnection, waiting: Waiting, body: bytes) -> CallbackDriver | None:
        """The driver of a whole request; None if it is not plain, or no lane is open for it."""
        try:
            return self._driver(client, waiting, body)
        except Exception:  # a defect of ours, which must not cost the client its answer: nothing was sent
            log.exception("a request could not be read on its lane; it goes the general way")
            return None

    def _driver(self, client: ClientConnection, waiting: Waiting, body: bytes) -> CallbackDriver | None:
        service, head = self.service, waiting.head
        gateway, now = service.gateway, client.loop.time()
        dialect, caller, limits = head.client, head.caller, gateway.config.limits
        if head.guard is not gateway.guard or not self._is_open():
            return None
        plain = self._readers[dialect.name].read(body)
        if plain is None or (lane := gateway.lanes.find(dialect.name, plain.model, now)) is None:
            return None
        store = service.store
        if lane.issuer is not None and store is not None and store.may_have_states(caller.owner, lane.issuer):
            return None
        if len(plain.turns) + len(plain.system) >= limits.messages:
            return None
        repeats = None
        if lane.requests.by_marks:

            def repeats(plain: PlainRequest, tools: frozenset[str]) -> bool:
                key = plain_prefix_key(caller.owner, lane.upstream.name, lane.target.model, plain, tools)
                return gateway.recent_prefixes.note(key, now)

        asked = lane.requests.translate_plain(plain, body, repeats)
        if asked is None or len(asked.learnt.asked.tools) > limits.tools:
            return None
        passage = lane.passage(head, plain.model, asked.learnt)
        if passage.clean is not asked.lines:
            if any(each in plain.model for each in head.shown) or mentions(asked.lines, head.shown):
                return None  # a credential, which the general way hides
            passage.clean = asked.lines
        hold = _try_hold(service.bodies, body) if len(body) > SMALL else None
        if hold is None and len(body) > SMALL:
            return None  # the general way waits for room
        ids = self._ids or self._more_ids()
        record = replace(passage.record, id=ids.pop(), started=now, bytes_in=len(body))
        service.in_flight += 1
        body, limit = asked.body, limits.response
        request = LaneRequest(
            service,
            gateway,
            client,
            lane,
            passage,
            asked,
            waiting,
            record,
            hold,
            body,
            len(body),
            lane.transport,
            limit,
        )
        context = copy(passage.context or self._new_context(gateway, lane, passage, head))
        context.record, context.prepared = record, request
        flow = answer(context, request.targets(context))
        if request.keeps_state:
            flow = with_lane_state(flow, context, request)
        return CallbackDriver(client, request, context, flow, flow.send, service.sweep, record, now, now, record.stream)

    def _new_context(self, gateway: Gateway, lane: Lane, passage: Passage, head: Head) -> FlowContext:
        passage.fallbacks = gateway.router.resolve(passage.record.model or "")[1:]
        passage.context = FlowContext(
            record=passage.record,
            environment=Environment(asyncio.get_running_loop().time, random, time),
            is_streaming=passage.record.stream,
            keepalive=lane.keepalive,
            keepalive_seconds=gateway.config.limits.keepalive,
            encode_fault=encode_lane_fault,
            describe_failure=failures.told,
            hide=partial(_hide, gateway, head.shown),
            on_failure=log_failure,
        )
        return passage.context

    def _more_ids(self) -> list[str]:
        """As the general way makes them, but for the system calls: randomness is fetched for many at once."""
        randomness = token_bytes(12 * _IDS).hex()
        self._ids = [f"req_{randomness[start : start + 24]}" for start in range(0, 24 * _IDS, 24)]
        return self._ids


def _hide(gateway: Gateway, shown: Sequence[str], error: ApiError) -> ApiError:
    return hide_in_error(error, (*gateway.secrets, *shown))


def _try_hold(bodies: BodyBudget, body: bytes) -> BodyHold | None:
    """The memory of this body, counted; None where there is no room for it now."""
    hold = bodies.hold()
    if not hold.try_add(body):
        hold.release()
        return None
    hold.settle()
    return hold
