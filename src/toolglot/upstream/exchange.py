"""The exchange between a client and what routing has found for it: one way to make it, for whoever asks an upstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import time
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.dialect import Dialect, capabilities
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.ir import Request, replace, with_native
from toolglot.passes import Context, RequestPass
from toolglot.passes.answer_state import AnswerState
from toolglot.passes.digest import digest
from toolglot.passes.history_policy import HistoryPolicy, Layer, Settled, settle, with_policy
from toolglot.passes.kept import with_states
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.routing import Target
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import Exchange
from toolglot.upstream.replay.transport import ReplayTransport
from toolglot.upstream.upstream import Upstream


class Told(Struct, frozen=True, kw_only=True):
    """What is known of a conversation that goes on. `replay` is what the upstream has sent of it, and `covered` the
    number of messages that this tells; `unknown`: nothing is, though there should be something."""

    replay: Mapping[str, Any] | None = None
    covered: int = 0
    unknown: bool = False
    whole: bool = False
    """Leave nothing out, whatever the configuration says."""
    states: Mapping[int, AnswerState] = {}
    """What the upstream wants back of the answers of these numbers, and the client may not have sent."""


NOTHING_TOLD = Told()


def policy_of(upstream: Upstream, target: Target) -> Settled:
    """What the sections of the upstream and of the model say together. A text is the model's format of calls alone."""
    own = HistoryPolicy(calls=target.history) if isinstance(target.history, str) else target.history
    return settle(upstream.history if own is None else (*upstream.history, Layer(own)))


def _passes(client: Dialect, upstream: Upstream, told: Told, policy: Settled) -> tuple[RequestPass, ...]:
    at_warp = upstream.dialect.name == WARP
    if at_warp and client.name == WARP:
        return REQUEST_PASSES  # it has its own tasks, and says itself what it can do
    # What the upstream gets back of its own it has measured itself.
    passes = REQUEST_PASSES
    if not told.whole and told.replay is None:
        passes = with_policy(
            REQUEST_PASSES,
            policy,
            image_tokens=upstream.dialect.request.image_tokens,
            leans=lambda request: client.request.refuse_elsewhere(request) is not None,
        )
    return (*passes, _telling(upstream, told)) if at_warp else passes


def _telling(upstream: Upstream, told: Told) -> RequestPass:
    """The pass that says how Warp is told of what was said before, and whose tools it may use."""
    history = upstream.warp_history if upstream.warp_history != "replay" or told.replay is not None else "native"
    fields: dict[str, Any] = {"history": history}
    if told.replay is not None:
        fields |= {**told.replay, "covered": told.covered}
    if not upstream.disable_warp_tools:
        fields["settings"] = {"supported_tools": []}

    def tell(request: Request, context: Context) -> Request:
        if told.unknown:
            context.receipt.note("messages", "history", "nothing is kept of this conversation: it is told anew")
        return with_native(request, WARP, **fields)

    return tell


def exchange_for(
    client: Dialect,
    upstream: Upstream,
    target: Target,
    *,
    text_calls: TextCalls | None = None,
    strict: bool = False,
    created: int | None = None,
    answer_id: str = "",
    told: Told | None = None,
    forward: bool = True,
    keeps_state: bool = False,
) -> Exchange:
    """The exchange with the target's model at its upstream, as the configuration describes both. `text_calls`: how its
    tool calls are written as text, if they are; `told`: what is known of the conversation at an upstream that is to be
    told what it said itself; `forward`: bytes may go through as they are; `keeps_state`: what its client cannot carry
    for the upstream is kept."""
    made = exchanges_for(
        client, upstream, target, text_calls=text_calls, strict=strict, told=told or NOTHING_TOLD, forward=forward
    )
    return made(created=created, answer_id=answer_id, keeps_state=keeps_state)


def exchanges_for(
    client: Dialect,
    upstream: Upstream,
    target: Target,
    *,
    text_calls: TextCalls | None = None,
    strict: bool = False,
    told: Told = NOTHING_TOLD,
    forward: bool = True,
) -> Callable[..., Exchange]:
    """Makes exchanges of one kind, which share all that they have in common. What they differ in, `created`,
    `answer_id`, `keeps_state` and `prefix_repeats`, they are made with."""
    can = replace(capabilities(upstream.dialect, target.model), **target.quirks) if target.quirks else None
    policy = policy_of(upstream, target)
    return partial(
        Exchange,
        client,
        upstream.dialect,
        strict=strict or target.strict,
        model=target.model,
        can=can,
        verbatim=forward and upstream.verbatim,
        hide=upstream.hide,
        clock=time,
        text_calls=text_calls,
        history_format=policy.said.calls,
        cache_marks=upstream.cache_marks,
        issuer=digest(upstream.name, upstream.base_url),
        takes_back=upstream.transport.issuers if isinstance(upstream.transport, ReplayTransport) else frozenset(),
        passes=with_states(_passes(client, upstream, told, policy), told.states),
    )


_Kind: TypeAlias = tuple[str, str, str, TextCalls | None, bool, bool]

MOST_KINDS = 256


class Exchanges:
    """Makes the exchanges of one configuration: what those of one kind have in common is made once."""

    def __init__(self) -> None:
        self._made: dict[_Kind, tuple[Target, Upstream, Callable[..., Exchange]]] = {}

    def of_kind(
        self,
        client: Dialect,
        upstream: Upstream,
        target: Target,
        *,
        text_calls: TextCalls | None,
        strict: bool,
        told: Told,
        forward: bool,
    ) -> Callable[..., Exchange]:
        """As `exchanges_for`, and the same for the same. What is told of a conversation is a kind of its own."""
        is_common = told is NOTHING_TOLD and not isinstance(upstream.transport, ReplayTransport)
        kind = (client.name, target.asked, target.model, text_calls, strict, forward)
        known = self._made.get(kind) if is_common else None
        if known is not None and known[0] is target and known[1] is upstream:
            return known[2]
        made = exchanges_for(client, upstream, target, text_calls=text_calls, strict=strict, told=told, forward=forward)
        if is_common:
            if len(self._made) >= MOST_KINDS:
                self._made.clear()
            self._made[kind] = (target, upstream, made)
        return made
