"""Fit sampling parameters and limits to the fields and values that the target accepts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from toolglot import features
from toolglot.capabilities import Capabilities, ReasoningCapabilities
from toolglot.ir import Request, replace
from toolglot.passes import Context
from toolglot.plan import runs_on
from toolglot.receipt import Receipt, describe_setting

PLAIN = tuple(features.SETTINGS)
"""Fields that a target either has or lacks. Other fields (`tool_choice`, `reasoning` …) have their own passes."""

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
"""Values that every API uses by default. Omitting them changes nothing."""

BOOKKEEPING = frozenset({"user", "legacy_user", "metadata", "store"})
"""Fields that only affect the vendor's records, not the answer."""

_KNOWN_TO_ITS_SERVER = frozenset({"candidates", "store", "legacy_user", "moderation"})
"""Fields that stay if both sides speak the same dialect: the client knows what its server accepts."""

_PRIVATE = frozenset({"user", "legacy_user", "metadata", "stop", "moderation"})
"""Fields whose values must not appear in receipts, because receipts end up in headers and logs."""


def _triggers(context: Context) -> int:
    limits, max_tools, own = context.can.limits, context.can.tools.max_count, context.source == context.target
    if own and not context.aliased:
        return 0
    bits = _bits_without(context.can.parameters.fields)
    if limits.max_stop_sequences is not None:
        bits |= features.SETTINGS["stop"]
    if limits.default_output_tokens is not None and not own:
        bits |= features.NO_LIMIT
    if max_tools is not None:
        bits |= features.MANY_TOOLS if max_tools >= features.MANY else features.TOOLS
    bits |= features.LOW_LIMIT if limits.min_output_tokens <= features.LOW else features.SETTINGS["max_output_tokens"]
    bits |= features.HOT if limits.max_temperature >= 1 else features.SETTINGS["temperature"]
    return bits | features.SETTINGS["top_logprobs"]


@runs_on(_triggers)
def fit(request: Request, context: Context) -> Request:
    """Drop or clamp settings that the target does not accept. A client of the target's own dialect knows what its model
    accepts, unless the model was replaced."""
    if context.source == context.target and not context.aliased:
        return request
    request = _with_logprobs(request, context)
    changes: dict[str, Any] = {}
    fields = accepted_fields(request, context.can)
    unfit = context.features & _bits_without(fields)
    for name, bit in features.SETTINGS.items() if unfit else ():
        if not unfit & bit or (value := getattr(request, name)) is None or value == ():
            continue
        if name in _KNOWN_TO_ITS_SERVER and context.source == context.target:
            continue
        changes[name] = () if name == "stop" else None
        if name in BOOKKEEPING:
            context.receipt.note(
                name, _describe(name, value), "the target has no such parameter; no answer depends on it"
            )
        elif value == DEFAULTS.get(name):
            context.receipt.note(
                name, describe_setting(name, value), "the target has no such parameter; this is what it does anyway"
            )
        else:
            excludes_reasoning = name in context.can.parameters.fields_without_reasoning
            reason = "takes it only without reasoning" if excludes_reasoning else "has no such parameter"
            why = f"the target {reason}"
            context.receipt.loss(name, _describe(name, value), why)
    changes |= _limits(replace(request, **changes) if changes else request, context)
    return replace(request, **changes) if changes else request


@lru_cache
def _bits_without(fields: frozenset[str]) -> int:
    """Return the feature bits of all settings except these."""
    bits = 0
    for name, bit in features.SETTINGS.items():
        bits |= 0 if name in fields else bit
    return bits


def accepted_fields(request: Request, can: Capabilities) -> frozenset[str]:
    """Return the fields that the target accepts in this request."""
    if not can.parameters.fields_without_reasoning or _reasons(request, can.reasoning):
        return can.parameters.fields
    return can.parameters.fields | can.parameters.fields_without_reasoning


def _reasons(request: Request, can: ReasoningCapabilities) -> bool:
    """Return whether the model will reason, given the settings that `effort.fit` will leave in the request."""
    if request.tools and not can.with_tools:
        return False
    wanted = request.reasoning
    if wanted is None or all(value is None for value in (wanted.mode, wanted.effort, wanted.budget_tokens)):
        return can.on_by_default
    is_off = wanted.mode == "off" or wanted.effort == "none"
    return not (is_off and can.can_disable)


def _with_logprobs(request: Request, context: Context) -> Request:
    """Enable `logprobs` if `top_logprobs` is set: some APIs reject the second without the first."""
    if context.source == context.target or not request.top_logprobs or request.logprobs:
        return request
    if request.logprobs is None:
        return replace(request, logprobs=True)
    context.receipt.note("top_logprobs", f"top_logprobs {request.top_logprobs}", "no log probabilities are requested")
    return replace(request, top_logprobs=None)


def with_one_candidate(request: Request, receipt: Receipt, why: str) -> Request:
    """Ask for one answer. Calls that are run or read here are those of the first answer."""
    if request.candidates in (None, 1):
        return request
    receipt.loss("candidates", describe_setting("candidates", request.candidates), why)
    return replace(request, candidates=None)


def _describe(name: str, value: Any) -> str:
    return name if name in _PRIVATE else describe_setting(name, value)


def _limits(request: Request, context: Context) -> dict[str, Any]:
    limits, max_tools, receipt = context.can.limits, context.can.tools.max_count, context.receipt
    changes: dict[str, Any] = {}
    if request.temperature is not None and request.temperature > limits.max_temperature:
        changes["temperature"] = limits.max_temperature
        receipt.loss(
            "temperature", f"temperature {request.temperature}", f"the target's highest is {limits.max_temperature}"
        )
    tokens = request.max_output_tokens
    if context.source == context.target:  # no limit counts tokens, a limit of 0 warms the cache
        pass
    elif tokens is None and limits.default_output_tokens is not None:
        changes["max_output_tokens"] = limits.default_output_tokens
        context.limit_is_ours = True
        receipt.note("max_output_tokens", "no output limit", f"the target requires one: {limits.default_output_tokens}")
    elif tokens is not None and tokens < limits.min_output_tokens:
        changes["max_output_tokens"] = limits.min_output_tokens
        receipt.note("max_output_tokens", f"limit of {tokens}", f"the target's lowest is {limits.min_output_tokens}")
    if max_tools is not None and len(request.tools) > max_tools and context.source != context.target:
        receipt.loss("tools", f"{len(request.tools)} tools", f"the target takes {max_tools}, and may refuse more")
    most = limits.max_stop_sequences
    if most is not None and len(request.stop) > most:
        changes["stop"] = request.stop[:most]
        receipt.loss("stop", f"{len(request.stop)} stop sequences", f"the target takes {most}; the first ones stay")
    return changes
