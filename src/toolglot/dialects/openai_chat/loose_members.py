"""Members of answers in another form than the API's: a number for an id, `false` or an empty list for nothing.

They are put right where an answer or a chunk cannot be read otherwise: none of them is worth the answer.
"""

from __future__ import annotations

from typing import Any

_NAMES = ("id", "model", "object", "system_fingerprint")
_HOLDERS = ("delta", "message")


def put_right(answer: Any) -> bool:
    """Put right what can be in a whole answer, or in a chunk. Returns whether anything has changed."""
    if not isinstance(answer, dict):
        return False
    numbers = [name for name in _NAMES if type(answer.get(name)) in (int, float)]
    answer |= {name: str(answer[name]) for name in numbers}
    changed = [bool(numbers), _put_number_right(answer, "created"), _drop_empty(answer, kept=("choices",))]
    choices = answer.get("choices")
    if isinstance(choices, list):
        changed += [_put_choice_right(choice) for choice in choices if isinstance(choice, dict)]
    return any(changed)


def _put_choice_right(choice: dict[str, Any]) -> bool:
    changed = [_put_number_right(choice, "index"), _drop_empty(choice, kept=_HOLDERS)]
    for name in _HOLDERS:
        if isinstance(choice.get(name), dict):
            changed += [_drop_blank_call(choice[name], choice.get("finish_reason")), _drop_empty(choice[name])]
    return any(changed)


def _put_number_right(fields: dict[str, Any], name: str) -> bool:
    """A whole number that may be written as another one, or as text; nothing where it is none."""
    if name not in fields or type(fields[name]) is int:
        return False
    value = fields.pop(name)
    try:
        if isinstance(value, str | float):
            fields[name] = int(float(value))
    except (ValueError, OverflowError):
        pass
    return True


def _drop_blank_call(message: dict[str, Any], finish: Any) -> bool:
    """Some servers have a `function_call` without a name or arguments in every answer."""
    call = message.get("function_call")
    if finish == "function_call" or not isinstance(call, dict) or any(call.values()):
        return False
    del message["function_call"]
    return True


def _drop_empty(fields: dict[str, Any], kept: tuple[str, ...] = ()) -> bool:
    empty = [name for name, value in fields.items() if name not in kept and (value is False or value in ("", [], {}))]
    for name in empty:
        del fields[name]
    return bool(empty)
