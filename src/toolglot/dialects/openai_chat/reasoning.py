"""Reasoning settings of a Chat request: `reasoning_effort`, and the members that other servers have introduced.

`reasoning` is OpenRouter's. `thinking` belongs to DeepSeek, Z.ai and servers in front of Claude. `chat_template_kwargs`
belongs to vLLM and SGLang. They are written back as received while the settings are unchanged. Their unknown members
stay with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from toolglot.dialects.openai_chat.blocks import take_member
from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Json, Reasoning, native_of
from toolglot.receipt import UNREAD, Loss, Receipt, ReceiptLine, describe_setting
from toolglot.wire.efforts import has_no_amount

EXTENSIONS = "$extensions"
"""The note that holds the settings in the members of other servers."""

Mode: TypeAlias = Literal["on", "off", "auto"]

_THINKING_MODES: dict[Json, Mode] = {"enabled": "on", "disabled": "off", "auto": "auto", "adaptive": "auto"}
_SWITCH_MODES: dict[bool, Mode] = {True: "on", False: "off"}
_MEMBERS: dict[str, dict[str, type]] = {
    "reasoning": {"effort": str, "max_tokens": int, "enabled": bool, "exclude": bool},
    "thinking": {"type": str, "budget_tokens": int},
    "chat_template_kwargs": {"enable_thinking": bool, "thinking": bool},
}
"""The understood members of each object, and their required types."""
_FLAT: dict[str, type] = {"enable_thinking": bool, "thinking_budget": int}
"""Top-level members of Alibaba's servers, and of others with Qwen."""


REASONING_MEMBERS = frozenset(_MEMBERS)
"""Objects with reasoning settings that may also have other members."""
REASONING_SETTINGS = frozenset({"reasoning_effort", *_MEMBERS, *_FLAT})


def take_reasoning_settings(members: dict[str, Any]) -> Reasoning | None:
    """Take the reasoning settings out of a request's members."""
    effort, found = take_member(members, "reasoning_effort"), _take_extensions(members)
    if effort is None and not found:
        return None
    if effort is not None:
        found["reasoning_effort"] = effort
    notes: dict[str, Any] = {EXTENSIONS: found} if found.keys() != {"reasoning_effort"} else {}
    if lines := tuple(_overridden_settings(found)):
        notes[UNREAD] = lines
    return _read_settings(found, notes)


_SPELLINGS = (
    ("reasoning_effort", "reasoning.effort"),
    ("reasoning.max_tokens", "thinking.budget_tokens", "thinking_budget"),
)
"""Members with the same meaning; the first one takes precedence."""


def _overridden_settings(found: dict[str, Any]) -> Iterator[ReceiptLine]:
    """Yield a loss for each member that contradicts the effective one."""
    for paths in _SPELLINGS:
        said = [(path, value) for path in paths if (value := _value_at(found, path)) is not None]
        for path, value in said[1:]:
            if value != said[0][1]:
                why = f"{describe_setting(*said[0])} is also set, and wins"
                yield Loss(path.removeprefix("reasoning."), describe_setting(path, value), why)


def _value_at(found: dict[str, Any], path: str) -> Any:
    first, _, second = path.partition(".")
    return found.get(first, {}).get(second) if second else found.get(first)


def _take_extensions(members: dict[str, Any]) -> dict[str, Any]:
    """Take the understood settings out of their members. A member with nothing left is removed."""
    found: dict[str, Any] = {}
    for name, kinds in _MEMBERS.items():
        member = members.get(name)
        if not isinstance(member, dict):
            continue
        known = {key: value for key, value in member.items() if key in kinds and type(value) is kinds[key]}
        if known.get("type", "enabled") not in _THINKING_MODES:
            known = {}
        if known:
            found[name] = known
            rest = {key: value for key, value in member.items() if key not in known}
            del members[name]
            if rest:
                members[name] = rest
    for name, kind in _FLAT.items():
        if type(members.get(name)) is kind:
            found[name] = members.pop(name)
    return found


def _read_settings(found: dict[str, Any], notes: dict[str, Any]) -> Reasoning:
    wish, thinking = found.get("reasoning", {}), found.get("thinking", {})
    template = found.get("chat_template_kwargs", {})
    effort = found.get("reasoning_effort", wish.get("effort"))
    budget = wish.get("max_tokens", thinking.get("budget_tokens", found.get("thinking_budget")))
    mode: Mode | None = "off" if effort == "none" else None
    if mode is None and "enabled" in wish:
        mode = _SWITCH_MODES[wish["enabled"]]
    if mode is None and "type" in thinking:
        mode = _THINKING_MODES[thinking["type"]]
    for key in ("enable_thinking", "thinking"):
        if mode is None and key in template:
            mode = _SWITCH_MODES[template[key]]
    if mode is None and "enable_thinking" in found:
        mode = _SWITCH_MODES[found["enable_thinking"]]
    if mode is None and budget is not None:
        mode = "on"
    show = not wish["exclude"] if "exclude" in wish else None
    native = {NAME: notes} if notes else {}
    return Reasoning(mode=mode, effort=effort, budget_tokens=budget, show=show, native=native)


def encode_reasoning(reasoning: Reasoning | None, rest: Mapping[str, Json], receipt: Receipt) -> dict[str, Any]:
    """Encode the settings, in their original members if these still mean the same. `rest` has the unknown members of
    the request, including those in the same objects."""
    if reasoning is None:
        return {}
    found = native_of(reasoning, NAME).get(EXTENSIONS)
    if isinstance(found, dict) and _means_same(found, reasoning):
        return {name: _merge_member(rest.get(name), member) for name, member in found.items()}
    if has_no_amount(reasoning):
        receipt.note("reasoning", "reasoning", "Chat Completions has no switch for it: the model decides how much")
    effort = "none" if reasoning.effort is None and reasoning.mode == "off" else reasoning.effort
    return {} if effort is None else {"reasoning_effort": effort}


def _merge_member(rest: Json, member: Json) -> Json:
    return {**rest, **member} if isinstance(rest, dict) and isinstance(member, dict) else member


def _means_same(found: dict[str, Any], reasoning: Reasoning) -> bool:
    said = _read_settings(found, {})
    return all(getattr(said, name) == getattr(reasoning, name) for name in ("mode", "effort", "budget_tokens", "show"))
