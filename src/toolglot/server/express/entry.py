"""The way in: which requests may take the express lane, decided from the head and then from the body."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from secrets import token_bytes
from typing import TYPE_CHECKING

from toolglot.dialect import Dialect
from toolglot.dialects import DIALECTS
from toolglot.server.express.account import Account
from toolglot.server.express.client import Client
from toolglot.server.express.crossing import Crossing
from toolglot.server.express.waiting import Head, Waiting
from toolglot.server.headers import OURS
from toolglot.server.ingress import named
from toolglot.server.record import Record
from toolglot.server.security import Caller

if TYPE_CHECKING:
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
_LENGTH = b"content-length"


class Express:
    """The way in for all connections of a server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._heads: dict[tuple[object, ...], Head | None] = {}
        self._guard = service.gateway.guard
        self._randomness = b""

    def admit(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Waiting | None:
        """Whether a request with this head may take the lane, once its body is there."""
        gateway = self._service.gateway
        if not self._is_open():
            return None
        if gateway.guard is not self._guard:
            self._guard = gateway.guard
            self._heads.clear()
        key = (url, *[field for field in fields if field[0] != _LENGTH])
        head = self._heads.get(key, _UNKNOWN)
        if head is _UNKNOWN:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            head = self._heads[key] = self._head(url, fields)
        return None if head is None else Waiting(head, gateway.config.limits.body)

    def _is_open(self) -> bool:
        """Asked for the head and for the body, between which much may happen."""
        service = self._service
        config = service.gateway.config
        if service.tapes is not None or config.mcp.servers or not service.accepting:
            return False
        return service.in_flight < config.limits.concurrent_requests

    def _head(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Head | None:
        path, _, query = url.partition(b"?")
        client, asked = PATHS.get(path.decode("latin-1")), QUERIES.get(query)
        headers = named(fields)
        if client is None or asked is None or not _DECIDING.isdisjoint(headers):
            return None
        verdict = self._guard.check("POST", headers)
        caller, error = self._guard.identify(headers, {})
        if verdict.error is not None or verdict.headers or error is not None:
            return None
        return Head(path=path.decode("latin-1"), client=client, query=asked, headers=headers, caller=caller or _NOBODY)

    def try_to_cross(self, client: Client, waiting: Waiting) -> Crossing | None:
        """Send a whole request on its way; None if it has to go the general way."""
        try:
            crossing = self._cross(client, waiting)
        except Exception:  # a fault of ours, which must not cost the client its answer: nothing has been sent
            log.exception("a request could not be read on the express lane; it goes the general way")
            return None
        if crossing is not None:
            self._service.crossings.add(crossing)
            crossing.begin()
        return crossing

    def _cross(self, client: Client, waiting: Waiting) -> Crossing | None:
        service, head, body = self._service, waiting.head, waiting.body()
        gateway, now = service.gateway, asyncio.get_running_loop().time()
        dialect, caller, limits = head.client, head.caller, gateway.config.limits
        if not self._is_open():
            return None
        plain = None if dialect.direct is None else dialect.direct.read_request(body)
        if plain is None or (lane := gateway.lanes.find(dialect.name, plain.model, now)) is None:
            return None
        store = service.store
        if lane.issuer is not None and store is not None and store.may_have_states(caller.owner, lane.issuer):
            return None
        if len(plain.turns) + len(plain.system) >= limits.messages:
            return None
        asked = lane.requests.translate_plain(plain, body)
        if asked is None or len(asked.learnt.asked.tools) > limits.tools:
            return None
        if (ticket := lane.breaker.enter(now)) is None:
            return None
        upstream = lane.upstream
        record = Record(
            id=self._new_id(),
            method="POST",
            path=head.path,
            started=now,
            route=head.path,
            key=caller.label or None,
            owner=caller.owner,
            client=dialect.name,
            user_agent=head.headers.get("user-agent"),
            traceparent=head.headers.get("traceparent"),
            model=plain.model,
            upstream=upstream.name,
            upstream_dialect=upstream.dialect.name,
            upstream_model=asked.learnt.model,
            stream=asked.learnt.sent.stream,
            calls={upstream.name: 1},
            bytes_in=len(body),
        )
        account = Account(service, lane.breaker, ticket, record)
        return Crossing(service, client, lane, asked, waiting, account)

    def _new_id(self) -> str:
        """As the general way makes them, but for the system calls: randomness is fetched for many at once."""
        if not self._randomness:
            self._randomness = token_bytes(12 * 256)
        own, self._randomness = self._randomness[:12], self._randomness[12:]
        return f"req_{own.hex()}"


_UNKNOWN = Head(path="", client=next(iter(PATHS.values())), query={}, headers={}, caller=_NOBODY)
"""Stands for a head that was not seen before."""
