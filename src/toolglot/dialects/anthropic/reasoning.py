"""`thinking` and `output_config` <-> `Reasoning` and `ResponseFormat`.

Since 4.6, Claude thinks adaptively, guided by an effort. Older models think within a token budget. An effort alone does
not make Claude think, so another API's reasoning setting becomes both `thinking` and an effort.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from toolglot.dialects.anthropic.models import (
    DEFAULT_MAX_TOKENS,
    is_adaptive,
    reasons_by_budget,
    shows_thinking,
    takes_effort,
)
from toolglot.dialects.anthropic.native import NAME, keep, read_note, restore_members
from toolglot.dialects.anthropic.schema import reduce_schema
from toolglot.dialects.anthropic.wire import OutputFormat, ThinkingConfig
from toolglot.ir import Reasoning, Request, ResponseFormat, native_of
from toolglot.receipt import Receipt
from toolglot.wire.efforts import BUDGETS, SMALLEST_BUDGET, effort_to_budget

_MODES: dict[str, Literal["on", "off", "auto"]] = {"enabled": "on", "adaptive": "auto", "disabled": "off"}
_TYPES = {mode: name for name, mode in _MODES.items()}
_SHOWN = {"summarized": True, "omitted": False}
_DISPLAYS = {shown: name for name, shown in _SHOWN.items()}


def decode_reasoning(thinking: ThinkingConfig | UnsetType, effort: str | None, model: str) -> Reasoning | None:
    if thinking is UNSET:  # a mode that only this dialect has is kept with the native members
        return Reasoning(effort=effort, native={NAME: {"$thinking": "absent"}}) if effort is not None else None
    kind, rest = thinking.type, {} if thinking.rest is UNSET else dict(thinking.rest)
    # A client that sets no `display` expects the model's default, which shows thinking on these models.
    is_default = thinking.display is UNSET and rest.get("display") is None
    implied = is_default and (kind == "enabled" or (kind == "adaptive" and shows_thinking(model)))
    return Reasoning(
        mode=_MODES[kind],
        effort=effort,
        budget_tokens=None if thinking.budget_tokens is UNSET else thinking.budget_tokens,
        show=True if implied else None if thinking.display is UNSET else _SHOWN[thinking.display],
        native=keep(rest, thinking=kind, shown="implied" if implied else None),
    )


OLD_FORMAT = "output_format"
"""The request member for the format before `output_config` existed (beta of November 2025)."""


def decode_format(wanted: OutputFormat | UnsetType, old: OutputFormat | UnsetType) -> ResponseFormat | None:
    """Decode the response format from either of its members. If both are set, `output_config` takes precedence."""
    chosen = old if wanted is UNSET else wanted
    if chosen is UNSET:
        return None
    native = keep({} if chosen.rest is UNSET else dict(chosen.rest), own=True, old=True if wanted is UNSET else None)
    return ResponseFormat(kind="json_schema", schema=chosen.schema, native=native)


def encode_thinking(request: Request, receipt: Receipt) -> dict[str, Any] | None:
    reasoning = request.reasoning
    if reasoning is None:
        return None
    came_as = read_note(native_of(reasoning, NAME), "$thinking", str)
    if came_as is not None and _MODES.get(came_as) == reasoning.mode and _original_fits(came_as, reasoning):
        return _encode_original(reasoning)
    if reasoning.mode == "off" or (reasoning.mode is None and reasoning.effort == "none"):
        return {"type": "disabled"}
    if reasoning.mode is None and reasoning.effort is None and reasoning.budget_tokens is None:
        return _encode_visibility(request, reasoning, receipt)
    if reasoning.budget_tokens is not None or reasons_by_budget(request.model):
        return _encode_budget(request, reasoning, receipt)
    wire: dict[str, Any] = {"type": "adaptive"}
    if reasoning.show is not None:
        wire["display"] = _DISPLAYS[reasoning.show]
    return wire


def _encode_visibility(request: Request, reasoning: Reasoning, receipt: Receipt) -> dict[str, Any] | None:
    """Encode a request that only sets whether reasoning is shown: the client's own model always reasons."""
    if not reasoning.show:
        return None
    forced = request.tool_choice is not None and request.tool_choice.mode == "required"
    if is_adaptive(request.model) and not forced:
        return {"type": "adaptive", "display": _DISPLAYS[True]}
    why = "it cannot while a tool call is forced" if forced else "it thinks only with a budget"
    receipt.note("reasoning.show", "visible reasoning", f"the model does not think here: {why}")
    return None


def _original_fits(came_as: str, reasoning: Reasoning) -> bool:
    """Return whether the original type still fits. Only `enabled` has a budget, and passes may swap a budget and an
    effort."""
    return (came_as == "enabled") == (reasoning.budget_tokens is not None)


def _encode_original(reasoning: Reasoning) -> dict[str, Any] | None:
    if reasoning.mode is None:
        return None
    wire: dict[str, Any] = {"type": _TYPES[reasoning.mode]}
    if reasoning.budget_tokens is not None:
        wire["budget_tokens"] = reasoning.budget_tokens
    if reasoning.show is not None and not (reasoning.show and "$shown" in native_of(reasoning, NAME)):
        wire["display"] = _DISPLAYS[reasoning.show]
    return restore_members(wire, reasoning)


def _encode_budget(request: Request, reasoning: Reasoning, receipt: Receipt) -> dict[str, Any] | None:
    """Encode thinking within a budget, which must be at least 1024 tokens and less than `max_tokens`."""
    limit = request.max_output_tokens if request.max_output_tokens is not None else DEFAULT_MAX_TOKENS
    wish = reasoning.budget_tokens
    if wish is None:
        wish = effort_to_budget(reasoning.effort if reasoning.effort in BUDGETS else "medium", limit)
    budget = min(max(wish, SMALLEST_BUDGET), limit - 1)
    if budget < SMALLEST_BUDGET:
        receipt.loss("reasoning", "reasoning", f"an output limit of {limit} leaves no room for thinking")
        return None
    if budget != wish:
        receipt.note("reasoning.budget_tokens", f"a budget of {wish} tokens", f"the nearest allowed budget is {budget}")
    if reasoning.show is False:
        receipt.note("reasoning.show", "hidden reasoning", "models that think within a budget show it")
    return {"type": "enabled", "budget_tokens": budget}


def encode_output_config(request: Request, receipt: Receipt) -> dict[str, Any]:
    """Encode `output_config` (effort, response format, kept members) and `output_format`."""
    config: dict[str, Any] = {}
    members: dict[str, Any] = {}
    reasoning, wanted = request.reasoning, request.response_format
    if reasoning is not None and reasoning.effort is not None:
        if NAME in reasoning.native or (takes_effort(request.model) and reasoning.effort != "none"):
            config["effort"] = reasoning.effort
        elif reasoning.effort != "none":
            receipt.note("reasoning.effort", reasoning.effort, "this model thinks within a budget instead")
    if wanted is not None and wanted.kind == "json_schema" and wanted.schema is not None:
        schema = wanted.schema
        if "$own" not in native_of(wanted, NAME):
            schema = reduce_schema(schema, "response_format.schema", receipt)
        place, key = (members, OLD_FORMAT) if "$old" in native_of(wanted, NAME) else (config, "format")
        place[key] = restore_members({"type": "json_schema", "schema": schema}, wanted)
        for name in ("name", "description", "strict"):
            if getattr(wanted, name) is not None:
                receipt.note(f"response_format.{name}", name, "Messages has only the schema")
    elif wanted is not None and wanted.kind != "text":
        receipt.loss("response_format", "JSON without a schema", "Messages has JSON output with a schema only")
    rest = read_note(native_of(request, NAME), "output_config", dict)
    if rest:
        config |= {key: value for key, value in rest.items() if key not in config}
    return {**({"output_config": config} if config else {}), **members}
