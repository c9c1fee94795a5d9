"""DirectRoutes: for which clients and models requests may cross in callbacks, and all that can be made ready for them.

A route is opened by the general way, once it has had an answer without anything out of the ordinary: it is that which
looks up what is known of a model. A route closes after a minute, as what is known may change; the next request opens it
again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.direct.answer import Label
from toolglot.direct.request import DirectRequests, Learnt, Translated
from toolglot.gateway.commands import Steps
from toolglot.gateway.flow import FlowContext, Translation, UpstreamTarget
from toolglot.gateway.known_heads import RequestHead
from toolglot.ir import Request
from toolglot.passes.envelope import BOUND_TO_MODEL, TAKES_BACK
from toolglot.passes.history_policy import settle
from toolglot.receipt import Loss, Receipt
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.issuers import issuer
from toolglot.server.outcomes import told
from toolglot.server.record import Record
from toolglot.server.verdicts import FRESH
from toolglot.upstream.exchange import exchange_factory, history_policy
from toolglot.upstream.http_client import HttpTransport, request_head
from toolglot.upstream.upstream import Upstream

if TYPE_CHECKING:
    from toolglot.translate import Exchange
    from toolglot.upstream.breaker import Breaker


class SharedRequest(Struct, eq=False):
    """What is the same for all requests with one head."""

    head: bytes
    """The request line and the headers to the upstream."""
    record: Record
    """Without what is told of a single request."""
    lines: tuple[Loss, ...] | None = None
    """The last receipt that was told."""
    told: bytes = b""
    """The headers that told it."""
    fallbacks: tuple[Target, ...] = ()
    """The targets behind the route's own."""
    context: FlowContext | None = None
    """What the contexts of such requests have in common."""
    clean: tuple[Loss, ...] | None = None
    """The last receipt that was searched for the client's credentials, without finding one."""


MOST = 256
"""DirectRoutes of one gateway, and heads of one route: clients choose the names of models and some headers."""

_NO_POLICY = settle(())


class DirectRoute:
    """From one dialect's clients to one model of an upstream."""

    __slots__ = (
        "_own",
        "_shared",
        "_told",
        "breaker",
        "client",
        "destination",
        "encode_keepalive",
        "issuer",
        "new_exchange",
        "opened",
        "requests",
        "strict",
        "target",
        "targets",
        "transport",
        "upstream",
    )

    def __init__(
        self, client: Dialect, upstream: Upstream, target: Target, breaker: Breaker, *, strict: bool, now: float
    ) -> None:
        assert isinstance(upstream.transport, HttpTransport)
        self.client = client
        self.upstream = upstream
        self.target = target
        self.breaker = breaker
        self.strict = strict
        self.opened = now
        self.transport = upstream.transport
        self.destination = self.transport.destination(upstream.base_url)
        owner = upstream.dialect.name
        self._own = client.name == owner
        self.issuer = issuer(upstream, target.model if owner in BOUND_TO_MODEL else "") if owner in TAKES_BACK else None
        """Whose state may be kept in the store, if there can be any."""
        self.new_exchange = exchange_factory(client, upstream, target, strict=strict)
        self.requests = DirectRequests(self.new_exchange)
        own = UpstreamTarget(
            name=upstream.name,
            breaker=breaker,
            prepare=_ready,
            retries=upstream.retries,
            describe=partial(told, upstream),
        )
        self.targets = (own,)
        self.encode_keepalive = client.stream_encoder(Request(model=""), Receipt()).keepalive
        self._shared: dict[tuple[RequestHead, str, str, bool], SharedRequest] = {}
        self._told: dict[tuple[Loss, ...], bytes] = {}

    def shared(self, head: RequestHead, model: str, learnt: Learnt) -> SharedRequest:
        """That of requests with this head and these settings, which ask for this model."""
        key = (head, learnt.path, learnt.model, learnt.sent.stream)
        known = self._shared.get(key)
        if known is None:
            if len(self._shared) >= MOST:
                self._shared.clear()
            known = self._shared[key] = SharedRequest(self._head(head, learnt), self._record(head, model, learnt))
        return known

    def _head(self, head: RequestHead, learnt: Learnt) -> bytes:
        client, dialect = self.client, self.upstream.dialect
        passed = headers.to_upstream(client, dialect, head.headers, stream=learnt.sent.stream)
        called = self.upstream.call(headers.with_query(learnt.path, client, dialect, head.query), b"", passed)
        return request_head(called, self.destination)

    def _record(self, head: RequestHead, model: str, learnt: Learnt) -> Record:
        return Record(
            id="",
            method="POST",
            path=head.path,
            started=0.0,
            route=head.route.path,
            key=head.caller.label or None,
            owner=head.caller.owner,
            client=self.client.name,
            user_agent=head.headers.get("user-agent"),
            traceparent=head.headers.get("traceparent"),
            model=model,
            upstream=self.upstream.name,
            upstream_dialect=self.upstream.dialect.name,
            upstream_model=learnt.model,
            stream=learnt.sent.stream,
        )

    def exchange(self, asked: Translated, label: Label, *, keeps_state: bool) -> Exchange:
        """One that goes on from this request, as if it had made it."""
        exchange = self.new_exchange(
            created=label.created,
            answer_id=label.answer_id,
            keeps_state=keeps_state,
            can_cut=True,
            holds_head=True,
        )
        learnt = asked.learnt
        tools, verbatim = learnt.originals, not learnt.pieces
        exchange.adopt(learnt.asked, learnt.sent, tools, asked.call_ids, asked.lines, verbatim=verbatim)
        return exchange

    def told(self, shared: SharedRequest, asked: Translated, upstream_headers: Mapping[str, str]) -> bytes:
        """The headers of an answer that tell of the exchange."""
        if shared.lines is not asked.lines:  # most have the very same, which are not even to be compared
            shared.lines, shared.told = asked.lines, self._told.get(asked.lines) or self._of(asked)
        if not self._own and "ratelimit" not in " ".join(upstream_headers):
            return shared.told
        return self._passed(upstream_headers) + shared.told

    def _passed(self, upstream_headers: Mapping[str, str]) -> bytes:
        """Those of the upstream's headers that are the client's business; our own id stands in the place of its."""
        client, dialect = self.client, self.upstream.dialect
        of_client = client.headers.of_answers
        wanted = {
            name: value
            for name, value in upstream_headers.items()
            if (name.startswith(of_client) if self._own else "ratelimit" in name) and name != "x-request-id"
        }
        return (
            headers.header_lines(headers.to_client(client, dialect, self.upstream.safe_headers(wanted)))
            if wanted
            else b""
        )

    def _of(self, asked: Translated) -> bytes:
        receipt = Receipt()
        receipt.add(asked.lines)
        if len(self._told) >= MOST:
            self._told.clear()
        told = self._told[asked.lines] = headers.header_lines(
            {
                **headers.of_receipt(receipt),
                **headers.of_target(self.upstream.name, asked.learnt.model),
                **headers.VERSION,
            }
        )
        return told


class DirectRoutes:
    """Those of one gateway."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], DirectRoute] = OrderedDict()

    def find(self, client: str, model: str, now: float) -> DirectRoute | None:
        """The route for this model, as clients of this dialect call it."""
        route = self._open.get((client, model))
        return None if route is None or now - route.opened >= FRESH else route

    def open(
        self,
        client: Dialect,
        model: str,
        upstream: Upstream,
        target: Target,
        breaker: Breaker,
        strict: bool,
        now: float,
    ) -> None:
        """The general way has had an answer, with tools as they are and the history as it is."""
        key = (client.name, model)
        known = self._open.get(key)
        if known is not None and known.upstream is upstream and known.target == target and known.strict == strict:
            known.opened = now
            return
        if not is_plain(client, upstream, target):
            return
        self._open[key] = DirectRoute(client, upstream, target, breaker, strict=strict, now=now)
        if len(self._open) > MOST:
            self._open.popitem(last=False)


def _ready(context: FlowContext) -> Steps[Translation]:
    raise AssertionError("a request on a route is translated before its flow begins")


def is_plain(client: Dialect, upstream: Upstream, target: Target) -> bool:
    """Is there nothing to these two but what the direct way knows of?"""
    return (
        client.direct is not None
        and client.direct.read_request is not None
        and upstream.dialect.direct is not None
        and upstream.dialect.headers.sign is None
        and isinstance(upstream.transport, HttpTransport)
        and upstream.tokens is None
        and not target.mcp
        and history_policy(upstream, target) == _NO_POLICY
    )
