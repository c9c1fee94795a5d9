"""Create the `ExchangeCore` between a client and the target that routing chose. Every caller of an upstream uses this
module."""

from __future__ import annotations

from collections.abc import Mapping
from time import time
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.capabilities import change_capabilities
from toolglot.dialect import Dialect, capabilities
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.exchange_settings import AnswerLabels, CallerOptions, ExchangeSettings
from toolglot.ir import Request, with_native
from toolglot.passes import Context, RequestPass
from toolglot.passes.answer_state import AnswerState
from toolglot.passes.digest import digest
from toolglot.passes.history_policy import HistoryPolicy, Layer, MergedPolicy, merge_layers, with_policy
from toolglot.passes.kept_state import with_states
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.routing import Target
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore
from toolglot.upstream.replay.transport import ReplayTransport
from toolglot.upstream.upstream import Upstream


class ConversationState(Struct, frozen=True, kw_only=True):
    """State of a continued conversation. `replay` is the upstream's earlier state, and `covered` is the number of
    messages that it includes. `unknown`: the expected state is missing.
    """

    replay: Mapping[str, Any] | None = None
    covered: int = 0
    unknown: bool = False
    whole: bool = False
    """Send everything, regardless of the history policy."""
    states: Mapping[int, AnswerState] = {}
    """State that the upstream expects back with the answers of these indices, and that the client may not have sent."""


NO_CONVERSATION_STATE = ConversationState()


def history_policy(upstream: Upstream, target: Target) -> MergedPolicy:
    """Merge the history policies of the upstream and of the model. A text target only takes the model's call format."""
    own = HistoryPolicy(calls=target.history) if isinstance(target.history, str) else target.history
    return merge_layers(upstream.history if own is None else (*upstream.history, Layer(own)))


def _request_passes(
    client: Dialect, upstream: Upstream, told: ConversationState, policy: MergedPolicy
) -> tuple[RequestPass, ...]:
    at_warp = upstream.dialect.name == WARP
    if at_warp and client.name == WARP:
        return REQUEST_PASSES  # the upstream has its own tasks, and reports itself what it supports
    # The upstream has already counted the state that it gets back.
    passes = REQUEST_PASSES
    if not told.whole and told.replay is None:
        passes = with_policy(
            REQUEST_PASSES,
            policy,
            image_tokens=upstream.dialect.request.image_tokens,
            leans=lambda request: client.request.refuse_elsewhere(request) is not None,
        )
    return (*passes, _warp_history_pass(upstream, told)) if at_warp else passes


def _warp_history_pass(upstream: Upstream, told: ConversationState) -> RequestPass:
    """Return the pass that selects the form of the earlier conversation for Warp, and the tools that it may use."""
    history = upstream.warp_history if upstream.warp_history != "replay" or told.replay is not None else "native"
    fields: dict[str, Any] = {"history": history}
    if told.replay is not None:
        fields |= {**told.replay, "covered": told.covered}
    if not upstream.disable_warp_tools:
        fields["settings"] = {"supported_tools": []}

    def tell(request: Request, context: Context) -> Request:
        if told.unknown:
            context.receipt.note("messages", "history", "this conversation is not stored: it is sent in full")
        return with_native(request, WARP, **fields)

    return tell


def target_quirks(upstream: Upstream, target: Target) -> Mapping[str, Any]:
    """Return the configured capabilities of the target's model. A configured window applies if requests can set it."""
    if target.context_window is None or not sets_window(upstream, target.model):
        return target.quirks
    return {"context_window": target.context_window, **target.quirks}


def sets_window(upstream: Upstream, model: str) -> bool:
    """Return whether requests to this model set its context window, rather than the server's settings."""
    return capabilities(upstream.dialect, model).limits.window_member is not None


def make_exchange(
    client: Dialect,
    upstream: Upstream,
    target: Target,
    *,
    text_calls: TextCalls | None = None,
    strict: bool = False,
    created: int | None = None,
    answer_id: str = "",
    told: ConversationState | None = None,
    forward: bool = True,
    keeps_state: bool = False,
) -> ExchangeCore:
    """Create the exchange with the target's model at its upstream, according to their configuration.

    Args:
        text_calls: how tool calls are written as text, if they are.
        told: state of the conversation, for an upstream that needs its own earlier messages.
        forward: bytes may be forwarded unchanged.
        keeps_state: state that the client cannot carry for the upstream is stored.
    """
    settings = exchange_settings(
        client,
        upstream,
        target,
        text_calls=text_calls,
        strict=strict,
        told=told or NO_CONVERSATION_STATE,
        forward=forward,
    )
    labels = AnswerLabels(created, answer_id, settings.clock)
    return ExchangeCore.begin(settings, CallerOptions(keeps_state=keeps_state), labels)


def exchange_settings(
    client: Dialect,
    upstream: Upstream,
    target: Target,
    *,
    text_calls: TextCalls | None = None,
    strict: bool = False,
    told: ConversationState = NO_CONVERSATION_STATE,
    forward: bool = True,
) -> ExchangeSettings:
    """Return the settings of every exchange with the target's model, from the configuration of both."""
    quirks = target_quirks(upstream, target)
    can = change_capabilities(capabilities(upstream.dialect, target.model), **quirks) if quirks else None
    policy = history_policy(upstream, target)
    return ExchangeSettings(
        client=client,
        upstream=upstream.dialect,
        strict=strict or target.strict,
        model=target.model,
        can=can,
        verbatim=forward and upstream.verbatim,
        hide=upstream.describe_error,
        clock=time,
        text_calls=text_calls,
        history_format=policy.merged.calls,
        cache_marks=upstream.cache_marks,
        marks_cache=client.name != upstream.dialect.name
        and capabilities(upstream.dialect, target.model).cache.by_marks,
        issuer=digest(upstream.name, upstream.base_url, *((upstream.account,) if upstream.account else ())),
        takes_back=upstream.transport.issuers if isinstance(upstream.transport, ReplayTransport) else frozenset(),
        passes=with_states(_request_passes(client, upstream, told, policy), told.states),
    )


_SettingsKey: TypeAlias = tuple[str, str, str, str, TextCalls | None, bool, bool]

MAX_SETTINGS = 256


class KnownExchangeSettings:
    """Caches exchange settings for one configuration."""

    def __init__(self) -> None:
        self._made: dict[_SettingsKey, tuple[Target, Upstream, ExchangeSettings]] = {}

    def of_kind(
        self,
        client: Dialect,
        upstream: Upstream,
        target: Target,
        *,
        text_calls: TextCalls | None,
        strict: bool,
        told: ConversationState,
        forward: bool,
    ) -> ExchangeSettings:
        """Return settings like `exchange_settings`, with caching. Settings with conversation state are never cached."""
        is_common = told is NO_CONVERSATION_STATE and not isinstance(upstream.transport, ReplayTransport)
        kind = (client.name, upstream.member, target.asked, target.model, text_calls, strict, forward)
        known = self._made.get(kind) if is_common else None
        if known is not None and known[0] is target and known[1] is upstream:
            return known[2]
        made = exchange_settings(
            client, upstream, target, text_calls=text_calls, strict=strict, told=told, forward=forward
        )
        if is_common:
            if len(self._made) >= MAX_SETTINGS:
                self._made.clear()
            self._made[kind] = (target, upstream, made)
        return made
