"""Describes why the arguments of a tool call are not a JSON object, for receipts and for readers of a text."""

from __future__ import annotations

import json as stdlib_json
from typing import Literal, TypeAlias

from toolglot.receipt import Receipt
from toolglot.wire import json

Problem: TypeAlias = Literal["cut", "not_an_object", "not_finite", "not_json", "only_text", "too_deep"]

_REASONS: dict[Problem, str] = {
    "cut": "its arguments are cut off",
    "not_an_object": "its arguments are JSON, but not an object",
    "not_finite": "its arguments hold NaN or Infinity, which JSON does not have",
    "not_json": "its arguments are not valid JSON",
    "only_text": "its arguments hold half a character or a number that is out of range",
    "too_deep": "its arguments are nested too deeply",
}
_PREDICATES: dict[Problem, str] = {
    "cut": "was cut off",
    "not_an_object": "has arguments that are not an object",
    "not_finite": "has NaN or Infinity in its arguments",
    "not_json": "was not valid JSON",
    "only_text": "has half a character or a number out of range in its arguments",
    "too_deep": "has arguments that are nested too deeply",
}
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_LONGEST_ESCAPE = len("\\u0000")


def describe_bad_arguments(arguments: str) -> str:
    """Explain why these arguments cannot be sent as an object, as a clause of a receipt."""
    return _REASONS[_problem_of(arguments)]


def show_bad_call(name: str, arguments: str) -> str:
    """Return the text that replaces a call if a wire format cannot carry it."""
    return f"[tool call {name} {_PREDICATES[_problem_of(arguments)]}: {arguments}]"


def _problem_of(arguments: str) -> Problem:
    if json.object_of(arguments) is not None:
        # An object is valid so far, but the end is missing, or no value can hold it.
        return "only_text" if json.object_value(arguments) is None else "cut"
    constants: list[str] = []
    try:
        value = stdlib_json.loads(arguments, parse_constant=constants.append)
    except stdlib_json.JSONDecodeError as error:
        return "cut" if _ends_early(error) else "not_json"
    except RecursionError:
        return "too_deep"
    except ValueError:  # a number with too many digits
        return "only_text"
    if not isinstance(value, dict):
        return "not_an_object"
    return "not_finite" if constants else "too_deep"  # this parser reads a little deeper than `object_of`


def _ends_early(error: stdlib_json.JSONDecodeError) -> bool:
    """Return whether the text would be JSON if more of it had arrived."""
    rest = error.doc[error.pos :].strip()
    if not rest or error.msg.startswith("Unterminated string"):
        return bool(error.doc.strip())
    if "escape" in error.msg:
        return len(rest) < _LONGEST_ESCAPE
    return error.msg == "Expecting value" and (rest == "-" or any(each.startswith(rest) for each in _LITERALS))


def note_repeated_keys(arguments: str, where: str, receipt: Receipt) -> None:
    """Note a repeated key in arguments that become an object: most readers keep the last value."""
    if json.has_repeated_key(arguments):
        receipt.note(where, "a repeated key of the arguments", "readers of an object mostly keep its last value")
