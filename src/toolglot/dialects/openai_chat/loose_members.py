"""Members of answers in another form than the API's: a number for an id, `false` or an empty list for nothing.

They are put right where an answer or a chunk cannot be read otherwise: none of them is worth the answer.
"""

from __future__ import annotations

from typing import Any

from toolglot.receipt import Loss

_NAMES = ("id", "model", "object", "system_fingerprint")
_HOLDERS = ("delta", "message")
_WHY = "it came in another form than the API's: what it can mean is read"


def put_right(answer: Any) -> tuple[Loss, ...]:
    """Put right what can be in a whole answer, or in a chunk. Returns a note for each member that has changed."""
    if not isinstance(answer, dict):
        return ()
    changed = [name for name in _NAMES if type(answer.get(name)) in (int, float)]
    answer |= {name: str(answer[name]) for name in changed}
    changed += [*_put_number_right(answer, "created"), *_drop_empty(answer, kept=("choices",))]
    choices = answer.get("choices")
    for number, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, dict):
            changed += [f"choices[{number}].{name}" for name in _put_choice_right(choice)]
    return tuple(Loss(where, where, _WHY, "note") for where in changed)


def _put_choice_right(choice: dict[str, Any]) -> list[str]:
    changed = [*_put_number_right(choice, "index"), *_drop_empty(choice, kept=_HOLDERS)]
    for holder in _HOLDERS:
        if isinstance(message := choice.get(holder), dict):
            names = [*_drop_blank_call(message, choice.get("finish_reason")), *_drop_empty(message)]
            changed += [f"{holder}.{name}" for name in names]
    return changed


def _put_number_right(fields: dict[str, Any], name: str) -> list[str]:
    """A whole number that may be written as another one, or as text; nothing where it is none."""
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
    """Some servers have a `function_call` without a name or arguments in every answer."""
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
