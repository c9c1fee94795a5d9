"""Sampling and limits: fields that the target's wire has, with values that it takes."""

from __future__ import annotations

from typing import Any

from toolglot import features
from toolglot.ir import Request, replace
from toolglot.passes import Context
from toolglot.plan import runs_on
from toolglot.receipt import describe_setting

PLAIN = tuple(features.SETTINGS)
"""The fields that a target either has or has not. Others (`tool_choice`, `reasoning` …) have a pass of their own."""

DEFAULTS: dict[str, Any] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "candidates": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "service_tier": "auto",
    "verbosity": "medium",
    "store": False,
}
"""What every API does when it is not told: leaving these values out changes nothing."""

BOOKKEEPING = frozenset({"user", "metadata", "store"})
"""Labels for the vendor's own records."""


def _triggers(context: Context) -> int:
    can, own = context.can, context.source == context.target
    if own and not context.aliased:
        return 0
    bits = 0
    for name, bit in features.SETTINGS.items():
        if name not in can.fields:
            bits |= bit
    if can.max_stop_sequences is not None:
        bits |= features.SETTINGS["stop"]
    if can.default_output_tokens is not None and not own:
        return features.ANY
    if can.max_tools is not None:
        bits |= features.TOOLS
    limits = features.SETTINGS["max_output_tokens"] if can.min_output_tokens > 0 else 0
    return bits | limits | features.SETTINGS["temperature"] | features.SETTINGS["top_logprobs"]


@runs_on(_triggers)
def fit(request: Request, context: Context) -> Request:
    """A client of the target's own dialect knows what its model takes, unless the model is another one."""
    if context.source == context.target and not context.aliased:
        return request
    request = _with_logprobs(request, context)
    changes: dict[str, Any] = {}
    for name in PLAIN:
        value = getattr(request, name)
        if value is None or value == () or name in context.can.fields:
            continue
        if name in ("candidates", "store") and context.source == context.target:  # its own client knows its server
            continue
        changes[name] = () if name == "stop" else None
        if name in BOOKKEEPING:
            context.receipt.note(name, _shown(name, value), "the target has no such parameter; no answer depends on it")
        elif value == DEFAULTS.get(name):
            context.receipt.note(
                name, describe_setting(name, value), "the target has no such parameter; this is what it does anyway"
            )
        else:
            context.receipt.loss(name, _shown(name, value), "the target has no such parameter")
    changes |= _limits(replace(request, **changes) if changes else request, context)
    return replace(request, **changes) if changes else request


def _with_logprobs(request: Request, context: Context) -> Request:
    """Whoever wants the likeliest tokens wants log probabilities: some wires refuse the one without the other."""
    if context.source == context.target or not request.top_logprobs or request.logprobs:
        return request
    if request.logprobs is None:
        return replace(request, logprobs=True)
    context.receipt.note("top_logprobs", f"top_logprobs {request.top_logprobs}", "no log probabilities are asked for")
    return replace(request, top_logprobs=None)


def _shown(name: str, value: Any) -> str:
    """Values of a client's own are not for receipts, which end up in headers and logs."""
    return name if name in ("user", "metadata", "stop") else describe_setting(name, value)


def _limits(request: Request, context: Context) -> dict[str, Any]:
    can, receipt = context.can, context.receipt
    changes: dict[str, Any] = {}
    if request.temperature is not None and request.temperature > can.max_temperature:
        changes["temperature"] = can.max_temperature
        receipt.loss(
            "temperature", f"temperature {request.temperature}", f"the target's highest is {can.max_temperature}"
        )
    tokens = request.max_output_tokens
    if context.source == context.target:  # no limit counts tokens, a limit of 0 warms the cache
        pass
    elif tokens is None and can.default_output_tokens is not None:
        changes["max_output_tokens"] = can.default_output_tokens
        context.limit_is_ours = True
        receipt.note("max_output_tokens", "no output limit", f"the target requires one: {can.default_output_tokens}")
    elif tokens is not None and tokens < can.min_output_tokens:
        changes["max_output_tokens"] = can.min_output_tokens
        receipt.note("max_output_tokens", f"limit of {tokens}", f"the target's lowest is {can.min_output_tokens}")
    if can.max_tools is not None and len(request.tools) > can.max_tools and context.source != context.target:
        receipt.loss("tools", f"{len(request.tools)} tools", f"the target takes {can.max_tools}, and may refuse more")
    most = can.max_stop_sequences
    if most is not None and len(request.stop) > most:
        changes["stop"] = request.stop[:most]
        receipt.loss("stop", f"{len(request.stop)} stop sequences", f"the target takes {most}; the first ones stay")
    return changes
