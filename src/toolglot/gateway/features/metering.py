"""Limits and budgets of a team's keys: wraps the flow of an answer.

Before an upstream is called, the request reserves its maximum usage. The limits are checked again before each further
call (a retry, a fallback, a round of tools). When the flow ends, in any way, it settles the reported usage once. Single
events of a stream need no extra work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from time import time
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.errors import ApiError, RateLimit
from toolglot.gateway.commands import Flow, Steps
from toolglot.gateway.flow import FlowContext, await_result
from toolglot.gateway.received import ReceivedRequest
from toolglot.gateway.request_record import NANO, Charge
from toolglot.ir import COUNTS, Usage, replace
from toolglot.missing_usage import CHARACTERS_PER_TOKEN
from toolglot.prices import billed_tokens, ceiling_of, cost_of
from toolglot.routing import Target
from toolglot.store import StoreError
from toolglot.streaming import StreamTranslation
from toolglot.team.counters import Demand, Exceeded, Hold, Spent
from toolglot.team.directory import Account
from toolglot.team.keys import KeyLimits
from toolglot.team.sql import MOST, UsageRow
from toolglot.upstream.pricing import Pricing

if TYPE_CHECKING:
    from toolglot.team.service import Team

log = logging.getLogger("toolglot.server")

_BYTES_PER_TOKEN = 3
"""Bytes per token for a quick, high estimate of the tokens in a request body."""
_WORDS = {
    "requests_per_minute": "requests per minute",
    "tokens_per_minute": "tokens per minute",
    "concurrent_requests": "concurrent requests",
    "tokens_per_day": "tokens per day",
    "tokens_per_month": "tokens per month",
    "nano_usd_per_day": "USD per day",
    "nano_usd_per_month": "USD per month",
}
_MOST_TOKENS = 10**9
"""Most tokens that one answer can have used. An upstream that reports more counts wrong."""
_MOST_CANDIDATES = 128
"""Most answers that a vendor gives to one request."""
_NO_LIMITS = KeyLimits()
_AWAY = ApiError(
    kind="overloaded",
    status=503,
    code="budgets_unavailable",
    message="This server cannot check the key's budget at the moment: its database does not answer",
    retry_after=2.0,
)


class RequestMeter(Struct, eq=False):
    """Limits and usage of one request."""

    team: Team
    account: Account
    pricing: Pricing
    received: ReceivedRequest
    target: Target
    """The request's first target."""
    note: Callable[[FlowContext], None]
    """Writes the available facts about the answer into its record."""
    hold: Hold | None = None

    def reserve(self, context: FlowContext) -> Steps[ApiError | None]:
        """Reserve the maximum usage of the request. Returns an error if it exceeds a limit."""
        key = self.account.key
        refusal = self.refuse_unpriced(self.target.upstream, self.target.model)
        if refusal is not None:
            return refusal
        try:
            found = yield from self._take_hold(context, is_exact=False)
            if isinstance(found, Exceeded) and found.limit == "tokens_per_minute":
                # The estimate was a quick one. Nothing was reserved yet.
                found = yield from self._take_hold(context, is_exact=True)
        except StoreError:
            log.warning("the spend of a key could not be read", exc_info=True)
            return _AWAY
        if isinstance(found, Exceeded):
            return describe_refusal(key.name, found)
        self.hold = found
        return None

    def _take_hold(self, context: FlowContext, *, is_exact: bool) -> Steps[Hold | Exceeded]:
        """Reserve from the shared counters, or from those of this process. Raises `StoreError`."""
        key, shared, counters = self.account.key, self.team.shared, self.team.counters
        demand = self._demand(key.policy.limits, is_exact=is_exact)
        if shared is not None and demand.limits != _NO_LIMITS:
            if shared.is_connected:
                found = yield from await_result(context, partial(shared.reserve, demand))
                if found is not None:
                    return found
            demand = replace(demand, limits=shared.share_of(demand.limits))
        if not counters.knows(key.id):
            try:
                yield from await_result(context, partial(self.team.ledger.load, key.id))
            except StoreError:
                if demand.limits.has_budget:
                    raise
                counters.load(key.id, {})
        return counters.reserve(demand, time())

    def _demand(self, limits: KeyLimits, *, is_exact: bool) -> Demand:
        key = self.account.key.id
        if limits == _NO_LIMITS:
            return Demand(key, limits, 0, 0)
        request = self.received.request
        tokens = estimate_input(self.received) if is_exact else len(self.received.body) // _BYTES_PER_TOKEN + 1
        output = hold_output = self.team.config.hold_output
        if request.max_output_tokens is not None and request.max_output_tokens > 0:  # others mean no limit
            output = min(request.max_output_tokens, hold_output)
        output *= min(max(request.candidates or 1, 1), _MOST_CANDIDATES)
        price = self.pricing.find(self.target.upstream, self.target.model)
        nano = 0
        if limits.nano_usd_per_day is not None or limits.nano_usd_per_month is not None:
            if price.price is not None:
                tier = request.service_tier
                nano = ceiling_of(price.price, input_tokens=tokens, output_tokens=output, service_tier=tier)
            elif price.is_due:
                nano = 1  # an unknown cost needs a budget that is not spent
        return Demand(key, limits, tokens + output, nano)

    def admit(self, context: FlowContext) -> Steps[ApiError | None]:
        """Check the limits before a call to the upstream that the record names. Returns an error if the call is not
        allowed."""
        if not self.team.keys.may_continue(self.account):
            return self.team.keys.refuse(self.account)
        hold, record = self.hold, context.record
        if hold is None or hold.demand.limits == _NO_LIMITS:
            return None
        upstream, model = record.upstream or "", record.upstream_model or ""
        if (refusal := self.refuse_unpriced(upstream, model)) is not None:
            return refusal
        used = Spent(0, 0)
        if record.charges:
            counted = [charge for charge in record.charges if _is_plausible(charge.usage)]
            tokens = sum(_tokens_of(charge.usage) for charge in counted)
            used = Spent(tokens, sum(charge.cost or 0 for charge in counted))
        costs_money = self.pricing.find(upstream, model).is_due
        shared = self.team.shared
        if shared is None or not shared.has(hold):
            exceeded = self.team.counters.check(hold, used, costs_money=costs_money, now=time())
        elif (upstream, model) == (self.target.upstream, self.target.model) and not record.charges:
            exceeded = None  # it was reserved for this call
        else:
            check = partial(shared.check, hold, used, costs_money=costs_money)
            exceeded = yield from await_result(context, check)
        return None if exceeded is None else describe_refusal(self.account.key.name, exceeded)

    def refuse_unpriced(self, upstream: str, model: str) -> ApiError | None:
        """Return the error for a model without a known price, if the key has a budget in USD and may not use it."""
        policy = self.account.key.policy
        limits = policy.limits
        if limits.nano_usd_per_day is None and limits.nano_usd_per_month is None:
            return None
        unknown = policy.unknown_price or self.team.config.unknown_price
        price = self.pricing.find(upstream, model)
        if unknown != "deny" or price.price is not None or not price.is_due:
            return None
        message = (
            f"The key {self.account.key.name} has a budget in USD, and the price of the model {upstream}/{model} is "
            "unknown: set it under [prices], or set unknown_price"
        )
        return ApiError(kind="permission", code="price_unknown", param="model", message=message)

    def settle(self, context: FlowContext) -> None:
        """Replace the reservation with the actual usage. Called once, at the end of the flow."""
        hold = self.hold
        if hold is None:
            return
        self.hold = None
        rows: list[UsageRow] = []
        try:
            self.note(context)
            rows = list(self._rows(context, hold))
        finally:
            # Tokens without a price count for token budgets only.
            used = Spent(sum(row.tokens for row in rows), sum(row.nano_usd or 0 for row in rows))
            shared = self.team.shared
            if shared is not None and shared.has(hold):
                shared.settle(hold, used)
            else:
                self.team.counters.settle(hold, used)
        if rows:
            self.team.ledger.add(rows)

    def _rows(self, context: FlowContext, hold: Hold) -> Iterator[UsageRow]:
        """Yield one row for each model call that answered."""
        record = context.record
        charges = record.charges
        if not charges:
            if record.usage is None and not _has_output(context):
                return  # no upstream has answered
            model = record.upstream_model or self.target.model
            charges = (Charge(record.upstream or self.target.upstream, model, record.usage, 0, None),)
        for attempt, charge in enumerate(charges, 1):
            usage = charge.usage if _is_plausible(charge.usage) else None
            counts = None if usage is None else billed_tokens(usage)
            nano, is_estimated = None if counts is None else charge.cost, counts is None
            if usage is None or counts is None:
                usage = self._estimate(context, usage)
                counts = billed_tokens(usage)
                assert counts is not None
            found = self.pricing.find(charge.upstream, charge.model)
            if not found.is_due:
                nano = 0
            elif nano is None and (price := found.price) is not None:
                nano = cost_of(usage, price) if is_estimated else None
                if nano is None:  # the rate is unknown: the cost must be neither zero nor too low
                    nano, is_estimated = ceiling_of(price, input_tokens=counts.input, output_tokens=counts.output), True
            yield UsageRow(
                request_id=record.id,
                attempt=attempt,
                key_id=hold.demand.key,
                at=round(time() * 1000),
                day=hold.windows[0],
                upstream=charge.upstream,
                model=charge.model,
                fresh_tokens=counts.fresh,
                cached_tokens=counts.read,
                cache_write_tokens=counts.written,
                cache_write_long_tokens=counts.written_long,
                output_tokens=counts.output,
                nano_usd=None if nano is None else min(nano, MOST),
                estimated=is_estimated,
            )

    def _estimate(self, context: FlowContext, usage: Usage | None) -> Usage:
        """Estimate missing counts: the answer was cut off, or the upstream reports no counts."""
        stream, characters = context.stream, context.record.bytes_out
        if isinstance(stream, StreamTranslation):
            characters = stream.characters
            if usage is None and (begun := stream.usage_at_start) is not None and _is_plausible(begun):
                # Servers send 0 if they do not know the input yet. The output's count is that of its first token.
                usage = replace(begun, input_tokens=begun.input_tokens or None, output_tokens=None)
        usage = Usage() if usage is None else usage
        output = -(-characters // CHARACTERS_PER_TOKEN)
        return Usage(
            input_tokens=estimate_input(self.received) if usage.input_tokens is None else usage.input_tokens,
            output_tokens=output if usage.output_tokens is None else usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_long_tokens=usage.cache_write_long_tokens,
        )


def with_metering(flow: Flow, context: FlowContext, meter: RequestMeter) -> Flow:
    """Run a flow within the limits of its key."""
    try:
        refusal = yield from meter.reserve(context)
        if refusal is not None:
            flow.close()
            return refusal
        context.admit = meter.admit
        return (yield from flow)
    finally:
        context.admit = None
        meter.settle(context)


def estimate_input(received: ReceivedRequest) -> int:
    from toolglot.tokens import estimate  # only needed if an upstream reports no usage, or a limit is close

    return estimate(received.request, image_tokens=received.client.request.image_tokens)


def describe_refusal(key: str, exceeded: Exceeded) -> ApiError:
    """Build the client's error for an exceeded limit. It names the limit and the time when the limit frees up."""
    words = _WORDS[exceeded.limit]
    is_money = exceeded.limit.startswith("nano_usd")
    amount = f"{exceeded.amount / NANO:g}" if is_money else str(exceeded.amount)
    if exceeded.renews is None:
        message = f"The key {key} has reached its limit of {amount} {words}"
        scope = "tokens" if "tokens" in words else "requests"
        limits = (RateLimit(scope=scope, limit=amount, remaining="0", reset=f"{exceeded.retry_after:.0f}s"),)
        return ApiError(
            kind="rate_limit",
            code="key_rate_limit_exceeded",
            message=message,
            retry_after=exceeded.retry_after,
            limits=limits,
        )
    from toolglot.team.administration import format_time

    renews = format_time(round(exceeded.renews * 1000))
    message = f"The key {key} has used its budget of {amount} {words}. It renews at {renews}"
    return ApiError(
        kind="rate_limit",
        code="key_budget_exceeded",
        message=message,
        retry_after=exceeded.retry_after,
        should_retry=False,
    )


def _tokens_of(usage: Usage | None) -> int:
    return 0 if usage is None else (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _is_plausible(usage: Usage | None) -> bool:
    """Whether an upstream can have counted this. A wrong number must not use up a budget, or break the database."""
    return usage is None or all((getattr(usage, name) or 0) <= _MOST_TOKENS for name in COUNTS)


def _has_output(context: FlowContext) -> bool:
    """Whether the client has received part of an answer."""
    return context.stream is not None or context.record.usage is not None
