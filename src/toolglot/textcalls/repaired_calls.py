"""Repair the calls of an envelope that is not strict JSON, as a whole or not at all."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from toolglot.textcalls.arguments import is_cut_off
from toolglot.textcalls.body import OpenedCall
from toolglot.textcalls.envelope_members import classify_keys, is_schema_key, may_wrap
from toolglot.textcalls.events import EventSink
from toolglot.textcalls.repair import RepairError, repair_document, repair_document_with_report

MAX_WRAPPERS: Final = 3


class RepairedCall(Struct, frozen=True):
    """A repaired call. If it has a `problem`, it cannot be run. `note` describes the repair."""

    name: str
    id: str
    arguments: dict[str, Any]
    problem: str = ""
    note: str = "the call was not JSON"


def emit_repaired_calls(sink: EventSink, raw: str, opened: OpenedCall, *, at_end: bool) -> bool:
    """Emit the intended calls of the text of an envelope, or of a list of them; False if there are none. `at_end`: the
    input ends here.
    """
    calls = repair_calls(raw, opened, at_end=at_end)
    for call in calls:
        index = sink.start(call.name, call.id)
        if call.problem:
            sink.cut(index, call.problem, raw)
            continue
        sink.arguments(index, json.dumps(call.arguments, ensure_ascii=False))
        sink.repaired(index, raw, call.note)
        sink.end(index)
    return bool(calls)


def repair_calls(raw: str, opened: OpenedCall, *, at_end: bool = False) -> list[RepairedCall]:
    """Return the intended calls of the text of an envelope, or of a list of them."""
    try:
        document, how = repair_document_with_report(raw.strip().removesuffix("```"), opened.sink.work)
    except RepairError:
        return []
    if at_end and is_cut_off(how):
        return []
    items = document if isinstance(document, list) else [document]
    # A call that broke off before its arguments is not a call without arguments.
    calls = [_find_call(item, opened, 0, whole_only=raw.count("{") > raw.count("}")) for item in items]
    return [call for call in calls if call is not None]


def _find_call(item: Any, opened: OpenedCall, level: int, *, whole_only: bool) -> RepairedCall | None:
    call = opened.call
    if not isinstance(item, dict) or level > MAX_WRAPPERS or any(key in item for key in call.refused_keys):
        return None
    name_key = next((key for key in call.name_keys if isinstance(item.get(key), str) and item[key].strip()), "")
    if len(item) == 1 and not name_key:
        ((name, arguments),) = item.items()
        if call.keyed or (name in opened.tools and not call.weak and level == 0):
            return _check_call(name, "", arguments, opened)
    if not name_key:
        inner = [value for key, value in item.items() if isinstance(value, dict) and may_wrap(key, call)]
        return _find_call(inner[0], opened, level + 1, whole_only=whole_only) if len(inner) == 1 else None
    if whole_only and not any(key in item for key in call.argument_keys):
        return None
    return _call_from_envelope(item, name_key, opened)


def _call_from_envelope(item: dict[str, Any], name_key: str, opened: OpenedCall) -> RepairedCall | None:
    call, name = opened.call, item[name_key].strip()
    arguments_key = next((key for key in call.argument_keys if item.get(key) is not None), "")
    id_key = next((key for key in call.id_keys if isinstance(item.get(key), str)), "")
    taken = {name_key, arguments_key, *([id_key] if arguments_key else [])}
    taken |= {key for key in call.name_keys if item.get(key) in (name, item[name_key])}
    others = [key for key, value in item.items() if key not in taken and value is not None]
    arguments = item.get(arguments_key)
    beside = classify_keys(
        others,
        opened.tools.get(name),
        call,
        given=bool(arguments_key),
        empty=arguments in ({}, "", "{}"),
    )
    call_id = "" if id_key in beside.flat else item.get(id_key, "")
    if beside.problem:
        return None if call.weak else RepairedCall(name, call_id, {}, beside.problem)
    found = _check_call(name, call_id, {key: item[key] for key in beside.flat} if beside.flat else arguments, opened)
    return replace(found, note=f"{found.note}, {beside.note}") if found and beside.note else found


def _check_call(name: str, call_id: str, arguments: Any, opened: OpenedCall) -> RepairedCall | None:
    if opened.call.weak and name not in opened.tools:
        return None
    if isinstance(arguments, str):
        try:
            arguments = repair_document(arguments, opened.sink.work)
        except RepairError:
            return None
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict):
        return None
    if opened.call.weak and any(is_schema_key(key, opened.tools.get(name)) for key in list(arguments)[:1]):
        return None
    return RepairedCall(name, call_id, arguments)
