"""The record of one request. Its log line, metrics and trace are made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.ir import Usage
from toolglot.receipt import ReceiptLine

if TYPE_CHECKING:
    from toolglot.upstream.pricing import ModelPrice


NANO = 1_000_000_000
"""Nano-USD in a US dollar."""


class Charge(Struct, frozen=True, gc=False):
    """One model call that costs money."""

    upstream: str
    model: str
    """The upstream's name of the model."""
    usage: Usage | None
    """None if the answer has no usage: it was cut off, or its upstream counts nothing."""
    cost: int | None
    """In nano-USD; None if the price or the usage is unknown."""
    priced_as: str | None
    """The name under which the price was found: one of the table's or of the configuration's."""

    @property
    def why_unpriced(self) -> str:
        """What is unknown: the `price` of the model, the `usage`, or the `rate` of a service tier or a cache write."""
        if self.priced_as is None:
            return "price"
        usage = self.usage
        return "usage" if usage is None or None in (usage.input_tokens, usage.output_tokens) else "rate"


def make_charge(upstream: str, model: str, usage: Usage | None, service_tier: str | None, found: ModelPrice) -> Charge:
    """Charge a model call at the price that was found."""
    price, cost_of = found.price, found.cost_of
    if price is None or cost_of is None:
        return Charge(upstream, model, usage, None, None)
    return Charge(upstream, model, usage, None if usage is None else cost_of(usage, price, service_tier), price.model)


class RequestRecord(Struct, kw_only=True, gc=False):
    """Filled in while the request is processed. It contains no secret and no part of the conversation.

    Some records are copies of others: replace a collection, never change it.
    """

    id: str
    method: str
    path: str
    started: float
    """Monotonic seconds, like the other times."""
    admitted: bool = True
    """True if the caller had access to a route that is not open to everyone."""
    route: str = ""
    key: str | None = None
    """The label of the caller's key, never the key."""
    owner: str = ""
    """The owner of this request's state: derived from the key, empty without keys."""
    client: str | None = None
    """The client's dialect."""
    user_agent: str | None = None
    traceparent: str | None = None
    """The client's `traceparent` header (W3C Trace Context)."""
    model: str | None = None
    """The client's name of the model."""
    upstream: str | None = None
    member: str | None = None
    """The member of the upstream's pool; None without a pool."""
    member_calls: Sequence[tuple[str, str, str]] = ()
    """Calls to members of pools: upstream, member, outcome."""
    moved: bool = False
    """True if another member answered than the one that the conversation belongs to."""
    upstream_dialect: str | None = None
    upstream_model: str | None = None
    stream: bool = False
    is_simple: bool = False
    """One successful call answered it, on its connection. Such requests are counted in batches."""
    status: int = 0
    error: str | None = None
    """The kind of the client's error, including errors inside a stream."""
    message: str | None = None
    """The message of the client's error."""
    calls: Mapping[str, int] = {}
    """Number of calls by upstream."""
    rounds: int = 1
    """Number of model calls for this answer: one more after each round of tool calls that ran here."""
    fallbacks: int = 0
    mended: int = 0
    asked_again: int = 0
    """Number of repeated model calls because of an invalid tool call."""
    served: Mapping[str, int] = {}
    """Number of tool calls that ran here, by MCP server."""
    served_failed: Mapping[str, int] = {}
    """Number of those calls that failed."""
    usage: Usage | None = None
    charges: tuple[Charge, ...] = ()
    """The model calls that cost money, in their order. Calls to local servers cost nothing, unless they have a price in
    the configuration."""
    cost: int | None = None
    """Sum of their known costs in nano-USD; None if none is known."""
    unpriced: int = 0
    """Number of charges whose cost is unknown."""
    stop: str | None = None
    losses: int = 0
    notes: int = 0
    receipt: tuple[float, tuple[ReceiptLine, ...], int] | None = None
    """The kept part of its receipt: the time, the first lines, and the number of all lines."""
    prefix_reuse: Sequence[tuple[str, float]] = ()
    """For each upstream: the share of the history that it got in an earlier turn, from 0 to 1."""
    bytes_in: int = 0
    bytes_out: int = 0
    first_byte: float | None = None
    ended: float | None = None
    cut: bool = False
    """True if the client's connection was cut because the upstream broke off in the middle of the answer."""
    cancelled: bool = False
    """True if the client disconnected before the answer was complete."""

    @property
    def attempts(self) -> int:
        return sum(self.calls.values())

    @property
    def has_one_call(self) -> bool:
        """Whether one upstream was called once, without a remedy or retry."""
        if self.member is not None:
            return False  # members are counted one by one
        return not (self.fallbacks or self.mended or self.asked_again) and self.calls is _one_call(self.upstream or "")

    def count_call(self, upstream: str) -> None:
        # Most requests have one call; they share one mapping.
        self.calls = {**self.calls, upstream: self.calls.get(upstream, 0) + 1} if self.calls else _one_call(upstream)

    def charge(self, charge: Charge) -> None:
        self.charges = (*self.charges, charge)
        if charge.cost is None:
            self.unpriced += 1
        else:
            self.cost = (self.cost or 0) + charge.cost

    def count_served(self, server: str, *, failed: bool) -> None:
        self.served = {**self.served, server: self.served.get(server, 0) + 1}
        if failed:
            self.served_failed = {**self.served_failed, server: self.served_failed.get(server, 0) + 1}

    @property
    def seconds(self) -> float:
        return (self.ended or self.started) - self.started


@lru_cache(256)
def _one_call(upstream: str) -> Mapping[str, int]:
    return {upstream: 1}
