"""Refusals of Anthropic's API, and the changed requests to send instead."""

from __future__ import annotations

from toolglot.ir import Request, replace
from toolglot.passes.blocks import has_results
from toolglot.passes.native_fields import without_native
from toolglot.passes.remedies import RefusedRequest, Remedies, forget_reasoning, remedy, remove_fields


def disable_thinking(refusal: RefusedRequest) -> Request:
    """Turn thinking off: the turn has a tool call without thinking before it, so it must end without thinking."""
    request, wanted = refusal.request, refusal.request.reasoning
    if wanted is None or wanted.mode == "off":
        return request
    refusal.context.receipt.loss(
        "reasoning", "thinking", "this turn has tool calls without it; it is off for this request"
    )
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _drop_reasoning(refusal: RefusedRequest) -> Request:
    """Drop the reasoning of the history. With a thinking budget, the current turn must not think either."""
    request = forget_reasoning(refusal)
    if request is refusal.request or not refusal.context.can.reasoning.budget or not _ends_with_results(request):
        return request
    return disable_thinking(refusal._replace(request=request))


def _ends_with_results(request: Request) -> bool:
    """Return whether the conversation ends with tool results, so that the current turn continues."""
    return bool(request.messages) and has_results(request.messages[-1])


def _without_output_config(refusal: RefusedRequest, field: str) -> Request:
    """Drop `output_config` (effort, response format, unknown members) and the settings it comes from."""
    request = remove_fields("effort", "response_format")(refusal)
    return without_native(request, refusal.dialect, field)


REMEDIES = Remedies(
    refusals=(
        remedy(r"expected `?thinking`? or `?redacted_thinking`?", disable_thinking),
        remedy(
            r"invalid `?signature`? in `?(redacted_)?thinking|thinking\.signature|bound to a different conversation"
            r"|thinking`? (or `?redacted_thinking`? )?blocks.{1,80}cannot be modified|invalid `?data`? in `?redacted",
            _drop_reasoning,
        ),
    ),
    fields={"output_config": _without_output_config},
)
