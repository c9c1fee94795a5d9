"""The exchange between a client and what routing has found for it: one way to make it, for whoever asks an upstream."""

from __future__ import annotations

from toolglot.dialect import Dialect, capabilities
from toolglot.ir import replace
from toolglot.routing import Target
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import Exchange
from toolglot.upstream.upstream import Upstream


def exchange_for(
    client: Dialect,
    upstream: Upstream,
    target: Target,
    *,
    text_calls: TextCalls | None = None,
    strict: bool = False,
    created: int | None = None,
    answer_id: str = "",
) -> Exchange:
    """The exchange with the target's model at its upstream, as the configuration describes both. `text_calls`: how its
    tool calls are written as text, if they are."""
    can = replace(capabilities(upstream.dialect, target.model), **target.quirks) if target.quirks else None
    return Exchange(
        client,
        upstream.dialect,
        strict=strict or target.strict,
        model=target.model,
        can=can,
        created=created,
        answer_id=answer_id,
        verbatim=upstream.verbatim,
        hide=upstream.hide,
        text_calls=text_calls,
        history_format=target.history,
    )
