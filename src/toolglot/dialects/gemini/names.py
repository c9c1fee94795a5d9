"""One spelling for the names of members that are carried and have no types.

`normalize` writes every name that a `Shape` knows in camelCase. It follows the shape and goes nowhere else, so keys
inside schemas, arguments, tool responses, labels and anything unknown stay untouched.
"""

from __future__ import annotations

import re
from typing import Any

from toolglot.errors import DecodeError


class Shape:
    """The members of one message that need care: names of two words, which have two spellings, and names whose values
    have a shape. Whatever else a message has is left alone."""

    __slots__ = ("members", "spelling")

    def __init__(self, names: str = "", /, **nested: Shape) -> None:
        self.members: dict[str, Shape | None] = {**dict.fromkeys(names.split()), **nested}
        self.spelling = {snake_case(name): name for name in self.members if snake_case(name) != name}


def snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def normalize(value: Any, shape: Shape, where: str = "$") -> Any:
    """The same JSON with every name that `shape` knows in camelCase; lists are followed into their items.

    Raises:
        DecodeError: a member stands there in both spellings, or begins with `$`, which no member of this API does;
            or a list stands directly in a list, which no member of this API holds.
    """
    return value if _is_normal(value, shape) else _normalized(value, shape, where)


def _is_normal(value: Any, shape: Shape) -> bool:
    """Is nothing to be written in another way, and nothing wrong? So it is with nearly all clients."""
    spelling, members = shape.spelling, shape.members
    is_list = type(value) is list
    for message in value if is_list else (value,):
        if type(message) is not dict:
            if is_list and type(message) is list:
                return False
            continue
        for key, item in message.items():
            if key in spelling or key.startswith("$"):
                return False
            nested = members.get(key)
            if nested is not None and type(item) in _NESTED and not _is_normal(item, nested):
                return False
    return True


_NESTED = (dict, list)


def _normalized(value: Any, shape: Shape, where: str) -> Any:
    if type(value) is list:
        for index, item in enumerate(value):
            if type(item) is list:
                raise DecodeError(f"{where}[{index}]", "expected an object, got an array")
        return [_normalized(item, shape, f"{where}[{index}]") for index, item in enumerate(value)]
    if type(value) is not dict:
        return value
    spelling, members = shape.spelling, shape.members
    result: dict[str, Any] = {}
    fields: dict[str, Any] = value
    for key, item in fields.items():
        name = spelling.get(key, key)
        if name in result:
            raise DecodeError(f"{where}.{name}", "this member stands there in both spellings")
        if name.startswith("$"):
            raise DecodeError(f"{where}.{name}", "the API has no such member")
        nested = members.get(name)
        result[name] = item if nested is None else _normalized(item, nested, f"{where}.{name}")
    return result


USAGE = Shape(
    "promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount toolUsePromptTokenCount "
    "totalTokenCount promptTokensDetails cacheTokensDetails candidatesTokensDetails toolUsePromptTokensDetails "
    "trafficType serviceTier"
)

THINKING = Shape("includeThoughts thinkingBudget thinkingLevel")
