"""Each capability taken away or given, one at a time, and what the passes then make of the same requests.

`written/capabilities.json` holds, for every capability, the requests that come out differently than without the change:
the fields that differ, and the lines of the receipt. `python -m tests.passes.test_every_capability` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolglot.capabilities import PLACES, Capabilities, change_capabilities, read_capability
from toolglot.passes import Context
from toolglot.passes.pipeline import prepare
from toolglot.receipt import Receipt

from .targets import CHAT
from .test_prepared import CASES

WRITTEN = Path(__file__).parent / "written" / "capabilities.json"

BASE = change_capabilities(CHAT, prefill=False, citations=True, max_temperature=2.0)
CHANGES: dict[str, Any] = {
    "fields": frozenset(),
    "fields_without_reasoning": frozenset({"top_k"}),
    "reasons_by_default": False,
    "name_pattern": r"[a-z]+",
    "name_start": r"[b-z]",
    "name_length": 10,
    "id_pattern": r"[a-z0-9]+",
    "id_length": 5,
    "id_form": "f.{name}:{number}",
    "id_state_mark": "_",
    "ids_required": False,
    "tool_choices": frozenset({"auto"}),
    "allowed_modes": frozenset(),
    "custom_tools": False,
    "namespaces": True,
    "strict_tools": False,
    "strict_all_required": False,
    "deferred_tools": True,
    "schema": "object",
    "parameters_optional": True,
    "max_tools": 2,
    "arguments": "object",
    "incomplete_calls": True,
    "system": "leading",
    "developer_role": False,
    "roles_alternate": True,
    "calls_in_one_message": False,
    "results_role": "user",
    "starts_with_user": True,
    "needs_message": True,
    "prefill": True,
    "empty_text": False,
    "media_in_user": frozenset(),
    "media_in_result": frozenset({"image"}),
    "media_in_assistant": frozenset({"image"}),
    "source_kinds": frozenset({"url"}),
    "image_types": frozenset({"image/webp"}),
    "document_types": frozenset({"text/*"}),
    "url_schemes": frozenset({"gs"}),
    "file_store": "openai",
    "array_items": True,
    "property_pattern": r"[a-z]{1,2}",
    "media_context": True,
    "media_sources": {"image": frozenset({"text"})},
    "result_errors": True,
    "citations": False,
    "thinking": "none",
    "refusals": False,
    "cache_lifetimes": (),
    "cache_breakpoints": 1,
    "cache_on_parts_only": False,
    "cache_by_control": True,
    "efforts": ("low", "high"),
    "reasoning_off": False,
    "reasoning_shown": False,
    "reasoning_budget": True,
    "reasons_by_budget": True,
    "min_budget": 1024,
    "max_budget": 1500,
    "reasoning_with_tools": False,
    "forced_choice_with_reasoning": False,
    "response_formats": frozenset({"text"}),
    "format_with_tools": False,
    "max_stop_sequences": 1,
    "max_temperature": 0.25,
    "min_output_tokens": 16,
    "default_output_tokens": 8192,
    "refuses": frozenset(
        {"assistant_documents", "user_citations", "temperature_with_top_p", "blank_stop", "spaces_at_the_end"}
    ),
}
TOGETHER: dict[str, dict[str, Any]] = {
    "system after the user": {"system": "after_user"},
    "budgets alone": {"efforts": (), "reasoning_budget": True},
    "budgets alone, at most": {
        "efforts": (),
        "reasoning_budget": True,
        "max_budget": 1500,
        "default_output_tokens": 3000,
    },
    "budgets alone, without room": {
        "efforts": (),
        "reasoning_budget": True,
        "min_budget": 1024,
        "default_output_tokens": 1024,
    },
    "no efforts": {"efforts": ()},
    "always reasons": {"efforts": ("none", "low"), "reasoning_off": False},
    "one turn each": {"roles_alternate": True, "results_role": "user", "empty_text": False, "system": "leading"},
    "a forced choice is refused": {"tool_choices": frozenset({"auto", "none", "allowed"})},
    "a window that requests set": {"context_window": 32768, "window_member": ("options", "num_ctx")},
    "named alone": {"tool_choices": frozenset({"auto", "required", "named"}), "allowed_modes": frozenset()},
}
VARIANTS = {**{name: {name: value} for name, value in CHANGES.items()}, **TOGETHER}
SKIPPED = (
    "answer_paths",
    "answer_tiers",
    "broken_calls",
    "cache_by_marks",
    "cache_minimum",
    "cache_settings",
    "assumed",
    "containers",
    "context_window",
    "cosmetic",
    "further_answers",
    "id_numbered_parts",
    "informational",
    "malformed_call_stop",
    "noted",
    "reasoning_members",
    "request_paths",
    "rough_stops",
    "stop_details",
    "window_member",
)
"""What only says how things are told, what is about answers, and what only acts together. Those of prompt caches:
`tests/caches`."""


def outcomes(can: Capabilities) -> dict[str, tuple[dict[str, Any], list[str]]]:
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, request in CASES.items():
        context = Context(source="elsewhere", target="target", can=can, receipt=Receipt())
        plain = json.loads(msgspec.json.encode(prepare(request, context)))
        found[name] = plain, [f"{line.severity} {line.where}" for line in context.receipt]
    return found


def differences(variant: str, base: dict[str, tuple[dict[str, Any], list[str]]]) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name, (request, lines) in outcomes(change_capabilities(BASE, **VARIANTS[variant])).items():
        before, told = base[name]
        fields = {key: shown(before[key], value) for key, value in request.items() if value != before[key]}
        if fields or lines != told:
            changed[name] = [fields, lines]
    return changed


def shown(before: Any, after: Any) -> Any:
    """What is new; of lists that are as long as before, and of objects, only the members that differ."""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return {f"[{index}]": shown(old, new) for index, (old, new) in pairs if old != new}
    if isinstance(before, dict) and isinstance(after, dict) and before.get("type") == after.get("type"):
        return {key: shown(before.get(key), value) for key, value in after.items() if value != before.get(key)}
    return without_defaults(after)


def without_defaults(value: Any) -> Any:
    """Nothing that says nothing: it would fill the page."""
    if isinstance(value, list):
        return [without_defaults(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: without_defaults(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item not in (None, {}, [], False) and item is not True}


@pytest.fixture(scope="module")
def base() -> dict[str, tuple[dict[str, Any], list[str]]]:
    return outcomes(BASE)


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(WRITTEN.read_text())
    return known


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_a_capability_changes_is_what_is_written_down(variant: str, base: Any, written: Any) -> None:
    assert json.loads(json.dumps(differences(variant, base))) == written[variant]


def test_every_capability_is_changed_here() -> None:
    assert set(CHANGES) == set(PLACES) - set(SKIPPED)
    assert not [name for name, value in CHANGES.items() if read_capability(BASE, name) == value]


if __name__ == "__main__":
    plainly = outcomes(BASE)
    entries = []
    for each in VARIANTS:
        rows = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in differences(each, plainly).items()]
        entries.append(f"  {json.dumps(each)}: {{\n" + ",\n".join(rows) + "\n  }")
    WRITTEN.write_text("{\n" + ",\n".join(entries) + "\n}\n")
