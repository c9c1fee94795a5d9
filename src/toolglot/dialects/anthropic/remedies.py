"""Refusals that Anthropic's API alone has, and what is sent instead."""

from __future__ import annotations

from toolglot.ir import Request, replace
from toolglot.passes.blocks import has_results
from toolglot.passes.native_fields import without_native
from toolglot.passes.remedies import Refusal, Remedies, forget_reasoning, remedy, without


def think_no_more(refusal: Refusal) -> Request:
    """The turn went on with a call before which the model did not think: it may not think until the turn ends."""
    request, wanted = refusal.request, refusal.request.reasoning
    if wanted is None or wanted.mode == "off":
        return request
    refusal.context.receipt.loss("reasoning", "thinking", "this turn has tool calls without it; it is off this once")
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _forget_reasoning(refusal: Refusal) -> Request:
    """The history without reasoning; where thinking has a budget, the turn that goes on may not think either."""
    request = forget_reasoning(refusal)
    if request is refusal.request or not refusal.context.can.reasoning_budget or not _amid_calls(request):
        return request
    return think_no_more(refusal._replace(request=request))


def _amid_calls(request: Request) -> bool:
    """Does the conversation end with results, so that the turn in which they were asked for goes on?"""
    return bool(request.messages) and has_results(request.messages[-1])


def _without_output_config(refusal: Refusal, field: str) -> Request:
    """The object for the effort, the format of the answer and whatever comes next."""
    request = without("effort", "response_format")(refusal)
    return without_native(request, refusal.dialect, field)


REMEDIES = Remedies(
    refusals=(
        remedy(r"expected `?thinking`? or `?redacted_thinking`?", think_no_more),
        remedy(
            r"invalid `?signature`? in `?(redacted_)?thinking|thinking\.signature|bound to a different conversation"
            r"|thinking`? (or `?redacted_thinking`? )?blocks.{1,80}cannot be modified|invalid `?data`? in `?redacted",
            _forget_reasoning,
        ),
    ),
    fields={"output_config": _without_output_config},
)
