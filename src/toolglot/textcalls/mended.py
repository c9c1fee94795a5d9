"""Calls out of an envelope that is no strict JSON: repaired as a whole, or none."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from toolglot.textcalls.body import Opened
from toolglot.textcalls.repair import RepairError, repair_document

MAX_WRAPPERS: Final = 3


class Mended(Struct, frozen=True):
    name: str
    id: str
    arguments: dict[str, Any]


def mended_calls(raw: str, opened: Opened) -> list[Mended]:
    """The calls that the text of an envelope, or of a list of them, was meant to hold."""
    try:
        document = repair_document(raw.strip().removesuffix("```"))
    except RepairError:
        return []
    items = document if isinstance(document, list) else [document]
    # A call that broke off before its arguments is none without arguments.
    calls = [_call_of(item, opened, 0, whole_only=raw.count("{") > raw.count("}")) for item in items]
    return [call for call in calls if call is not None]


def _call_of(item: Any, opened: Opened, level: int, *, whole_only: bool) -> Mended | None:
    call = opened.call
    if not isinstance(item, dict) or level > MAX_WRAPPERS or any(key in item for key in call.refused_keys):
        return None
    if call.keyed and len(item) == 1:
        ((name, arguments),) = item.items()
        return _checked(name, "", arguments, opened)
    name = next((item[key] for key in call.name_keys if isinstance(item.get(key), str) and item[key]), "")
    if not name:
        inner = [value for value in item.values() if isinstance(value, dict)]
        return _call_of(inner[0], opened, level + 1, whole_only=whole_only) if len(inner) == 1 else None
    if whole_only and not any(key in item for key in call.argument_keys):
        return None
    call_id = next((item[key] for key in call.id_keys if isinstance(item.get(key), str)), "")
    return _checked(name, call_id, next((item[key] for key in call.argument_keys if key in item), {}), opened)


def _checked(name: str, call_id: str, arguments: Any, opened: Opened) -> Mended | None:
    if opened.call.weak and name not in opened.tools:
        return None
    if isinstance(arguments, str):
        try:
            arguments = repair_document(arguments)
        except RepairError:
            return None
    arguments = {} if arguments is None else arguments
    return Mended(name, call_id, arguments) if isinstance(arguments, dict) else None
