"""The exchange between a client and what routing has found for it: one way to make it, for whoever asks an upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolglot.dialect import Dialect, capabilities
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.ir import Request, replace, with_native
from toolglot.passes import Context, RequestPass
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.passes.trim import with_trimming
from toolglot.routing import Target
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import Exchange
from toolglot.upstream.upstream import Upstream


class Told(Struct, frozen=True, kw_only=True):
    """What is known of a conversation that goes on. `replay` is what the upstream has sent of it, and `covered` the
    number of messages that this tells; `unknown`: nothing is, though there should be something."""

    replay: Mapping[str, Any] | None = None
    covered: int = 0
    unknown: bool = False
    whole: bool = False
    """Leave nothing out, whatever the configuration says."""


def _passes(client: Dialect, upstream: Upstream, told: Told) -> tuple[RequestPass, ...]:
    at_warp = upstream.dialect.name == WARP
    if at_warp and client.name == WARP:
        return REQUEST_PASSES  # it has its own tasks, and says itself what it can do
    # What the upstream gets back of its own it has measured itself.
    whole = told.whole or told.replay is not None
    passes = REQUEST_PASSES if whole else with_trimming(REQUEST_PASSES, upstream.max_messages, upstream.max_results)
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
) -> Exchange:
    """The exchange with the target's model at its upstream, as the configuration describes both. `text_calls`: how its
    tool calls are written as text, if they are; `told`: what is known of the conversation at an upstream that is to be
    told what it said itself; `forward`: bytes may go through as they are."""
    can = replace(capabilities(upstream.dialect, target.model), **target.quirks) if target.quirks else None
    return Exchange(
        client,
        upstream.dialect,
        strict=strict or target.strict,
        model=target.model,
        can=can,
        created=created,
        answer_id=answer_id,
        verbatim=forward and upstream.verbatim,
        hide=upstream.hide,
        text_calls=text_calls,
        history_format=target.history,
        passes=_passes(client, upstream, told or Told()),
    )
