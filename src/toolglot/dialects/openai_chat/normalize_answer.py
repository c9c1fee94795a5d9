"""Normalize members of answers in a nonstandard form: a number for an id, `false` or an empty list for nothing.

This runs only if an answer or a chunk cannot be read otherwise, so that such a member does not lose the answer.
"""

from __future__ import annotations

from typing import Any

from toolglot.receipt import Note, ReceiptLine

_NAMES = ("id", "model", "object", "system_fingerprint")
_HOLDERS = ("delta", "message")
_WHY = "its form differs from the API's; its likely meaning is used"


def normalize_answer(answer: Any) -> tuple[ReceiptLine, ...]:
    """Normalize a whole answer or a chunk in place. Returns a note for each changed member."""
    if not isinstance(answer, dict):
        return ()
    changed = [name for name in _NAMES if type(answer.get(name)) in (int, float)]
    answer |= {name: str(answer[name]) for name in changed}
    changed += [*_normalize_number(answer, "created"), *_drop_empty(answer, kept=("choices",))]
    choices = answer.get("choices")
    for number, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, dict):
            changed += [f"choices[{number}].{name}" for name in _normalize_choice(choice)]
    return tuple(Note(where, where, _WHY) for where in changed)


def _normalize_choice(choice: dict[str, Any]) -> list[str]:
    changed = [*_normalize_number(choice, "index"), *_drop_empty(choice, kept=_HOLDERS)]
    for holder in _HOLDERS:
        if isinstance(message := choice.get(holder), dict):
            names = [*_drop_blank_call(message, choice.get("finish_reason")), *_drop_empty(message)]
            changed += [f"{holder}.{name}" for name in names]
    return changed


def _normalize_number(fields: dict[str, Any], name: str) -> list[str]:
    """Convert a number in the form of a float or a text to an integer. A value that is not a number is removed."""
    if name not in fields or type(fields[name]) is int:
        return []
    value = fields.pop(name)
    try:
        if isinstance(value, (str, float)):
            fields[name] = int(float(value))
    except (ValueError, OverflowError):
        pass
    return [name]


def _drop_blank_call(message: dict[str, Any], finish: Any) -> list[str]:
    """Remove a `function_call` without name and arguments, which some servers put into every answer."""
    call = message.get("function_call")
    if finish == "function_call" or not isinstance(call, dict) or any(call.values()):
        return []
    del message["function_call"]
    return ["function_call"]


def _drop_empty(fields: dict[str, Any], kept: tuple[str, ...] = ()) -> list[str]:
    empty = [name for name, value in fields.items() if name not in kept and (value is False or value in ("", [], {}))]
    for name in empty:
        del fields[name]
    return empty


_ARGUMENTS = "arguments"


def nest_function(call: dict[str, Any]) -> bool:
    """Move a name and arguments at the top level of the call into `function`. Returns whether there were any."""
    if any(call.get(member) is not None for member in ("function", "custom")) or not _is_flat(call):
        return False
    call["function"] = {name: call.pop(name) for name in ("name", _ARGUMENTS, "parameters") if name in call}
    return True


def _is_flat(call: dict[str, Any]) -> bool:
    named = isinstance(call.get("name"), str)
    return call.get("type") in (None, "", "function") and (named or isinstance(call.get(_ARGUMENTS), str | dict))


def rename_parameters(function: Any) -> bool:
    """Rename `parameters` to `arguments`. Returns whether there were any."""
    if not isinstance(function, dict) or function.get(_ARGUMENTS) is not None:
        return False
    if not isinstance(function.get("parameters"), str | dict):
        return False
    function[_ARGUMENTS] = function.pop("parameters")
    return True
