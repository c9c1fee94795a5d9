"""Convert the amount of thinking to the target's settings: efforts, a token budget, or neither."""

from __future__ import annotations

from functools import lru_cache

from toolglot import features
from toolglot.ir import Reasoning, Request, native_of, replace
from toolglot.passes import Context
from toolglot.plan import runs_on
from toolglot.wire.efforts import BUDGETS, SCALE, budget_to_effort, effort_to_budget

ROOM_FOR_ANSWER = 4096


@runs_on(
    lambda context: features.REASONING if context.can.reasoning.with_tools else features.REASONING | features.TOOLS
)
def fit(request: Request, context: Context) -> Request:
    wanted = request.reasoning
    own = context.source == context.target and not context.aliased
    if not context.can.reasoning.with_tools and request.tools and not own:
        return _without_reasoning(request, context)
    if wanted is None or (own and "$extensions" in native_of(wanted, context.target)):
        return request  # nothing is asked, or in words that only its own server knows
    if "reasoning" not in context.can.parameters.fields:
        report = context.receipt.note if wanted.mode == "off" else context.receipt.loss
        report("reasoning", _describe(wanted), "the target has no such parameter")
        return replace(request, reasoning=None)
    if wanted.show is not None and not context.can.reasoning.can_hide:
        what = "visible reasoning" if wanted.show else "hidden reasoning"
        context.receipt.note("reasoning.show", what, "the target decides whether it shows any")
        wanted = replace(wanted, show=None)
    if own:  # a client of the target's own dialect knows what the model it names accepts
        return request if wanted == request.reasoning else replace(request, reasoning=wanted)
    off = wanted.mode == "off" or wanted.effort == "none"
    fitted: Reasoning | None
    if off:
        fitted = _turn_off(wanted, context)
    elif _has_no_room(wanted, request, context):
        fitted = _without_room(wanted, request, context)
    else:
        fitted = _turn_on(wanted, request, context)
    return request if fitted == request.reasoning else replace(request, reasoning=fitted)


def _without_reasoning(request: Request, context: Context) -> Request:
    """Turn reasoning off explicitly, because the target refuses function tools otherwise."""
    wanted = request.reasoning
    if wanted is not None and wanted.mode == "off" and wanted.effort in (None, "none"):
        return request
    report = context.receipt.note if wanted is None else context.receipt.loss
    report("reasoning", "reasoning", "this model takes function tools here only without reasoning")
    return replace(request, reasoning=Reasoning(mode="off", effort="none"))


def _describe(wanted: Reasoning) -> str:
    said = (wanted.mode, wanted.effort, wanted.budget_tokens)
    return "reasoning " + " ".join(str(part) for part in said if part is not None)


def _turn_off(wanted: Reasoning, context: Context) -> Reasoning:
    can = context.can.reasoning
    if can.can_disable:
        effort = wanted.effort if wanted.effort in can.efforts else None
        if effort is None and wanted.effort not in (None, "none"):
            context.receipt.note("reasoning.effort", f"effort {wanted.effort}", "it does not reason and has no efforts")
        budget = wanted.budget_tokens if can.budget else None
        return replace(wanted, mode="off", effort=effort, budget_tokens=budget)
    least = next((effort for effort in can.efforts if effort != "none"), None)
    context.receipt.loss("reasoning", "no reasoning", f"the model always reasons; its effort is {least or 'its own'}")
    return replace(wanted, mode=None, effort=least, budget_tokens=None)


def _has_no_room(wanted: Reasoning, request: Request, context: Context) -> bool:
    """Return whether the output limit is too small for the smallest budget of a model that needs one."""
    can, limit = context.can.reasoning, request.max_output_tokens
    if can.min_budget is None or limit is None or limit > can.min_budget or not can.budget:
        return False
    if context.source == context.target:
        return False
    if wanted.budget_tokens is not None:
        return True
    return (wanted.mode is not None or wanted.effort is not None) and (can.needs_budget or not can.efforts)


def _without_room(wanted: Reasoning, request: Request, context: Context) -> Reasoning | None:
    """Turn reasoning off. An effort stays if it also affects other behavior."""
    why = f"an output limit of {request.max_output_tokens} leaves no room for thinking"
    context.receipt.loss("reasoning", "reasoning", why)
    if wanted.effort is None or wanted.effort not in context.can.reasoning.efforts:
        return None
    return Reasoning(mode="off", effort=wanted.effort)


def _turn_on(wanted: Reasoning, request: Request, context: Context) -> Reasoning:
    can, receipt = context.can.reasoning, context.receipt
    if wanted.effort is not None and wanted.effort not in can.efforts:
        wanted = _other_effort(wanted, wanted.effort, request, context)
    if wanted.budget_tokens is not None and not can.budget:
        effort = wanted.effort or nearest(budget_to_effort(wanted.budget_tokens), can.efforts)
        receipt.loss(
            "reasoning.budget_tokens",
            f"a budget of {wanted.budget_tokens} tokens",
            f"the target takes no budget; its effort is {effort or 'its own'}",
        )
        wanted = replace(wanted, budget_tokens=None, effort=effort)
    return _limit_budget(wanted, context)


def _limit_budget(wanted: Reasoning, context: Context) -> Reasoning:
    budget, most = wanted.budget_tokens, context.can.reasoning.max_budget
    if budget is None or most is None or budget <= most or context.source == context.target:
        return wanted
    context.receipt.loss("reasoning.budget_tokens", f"a budget of {budget} tokens", f"the target's highest is {most}")
    return replace(wanted, budget_tokens=most)


def _other_effort(wanted: Reasoning, effort: str, request: Request, context: Context) -> Reasoning:
    can, receipt = context.can.reasoning, context.receipt
    if effort not in SCALE:
        if context.source == context.target:  # merely new
            return wanted
        receipt.loss("reasoning.effort", f"effort {effort}", "the target does not know it")
        return replace(wanted, effort=None)
    if can.efforts:
        other = nearest(effort, can.efforts)
        receipt.loss("reasoning.effort", f"effort {effort}", f"the target's nearest is {other}")
        return replace(wanted, effort=other)
    if can.budget:
        budget = wanted.budget_tokens or _budget(effort, request.max_output_tokens, context)
        receipt.note("reasoning.effort", f"effort {effort}", f"the target requires a budget: {budget} tokens")
        return replace(wanted, mode=wanted.mode or "on", effort=None, budget_tokens=budget)
    receipt.loss("reasoning.effort", f"effort {effort}", "the target has no efforts")
    return replace(wanted, effort=None)


@lru_cache(maxsize=64)
def nearest(effort: str, efforts: tuple[str, ...]) -> str | None:
    """Return the nearest of these efforts, the lower one of two; never `none`, which turns reasoning off."""
    known = [other for other in efforts if other in SCALE and other != "none"]
    place = SCALE.index(effort)
    return min(known, key=lambda other: abs(SCALE.index(other) - place), default=None)


def _budget(effort: str, limit: int | None, context: Context) -> int:
    """Return the tokens for an effort within the target's limits. If the client set no limit, the answer gets enough of
    the default limit.
    """
    most = context.can.reasoning.max_budget or BUDGETS[effort]
    if limit is None:
        return min(BUDGETS[effort], most)
    kept = min(limit // 2, ROOM_FOR_ANSWER) if context.limit_is_ours else None
    return min(effort_to_budget(effort, limit, kept), most)
