"""Normalize the spelling of members that are carried and have no types.

`normalize` writes every name of a `ProtoMemberNames` table in camelCase, at the levels that the table describes. Keys
inside schemas, arguments, tool responses, labels and unknown members stay unchanged.
"""

from __future__ import annotations

import re
from typing import Any

from toolglot.errors import DecodeError


class ProtoMemberNames:
    """Member names of one message: names of two words, which have two spellings, and names whose values have
    `ProtoMemberNames` themselves. Other members of the message are left unchanged."""

    __slots__ = ("members", "spelling")

    def __init__(self, names: str = "", /, **nested: ProtoMemberNames) -> None:
        self.members: dict[str, ProtoMemberNames | None] = {**dict.fromkeys(names.split()), **nested}
        self.spelling = {snake_case(name): name for name in self.members if snake_case(name) != name}


def snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def normalize(value: Any, names: ProtoMemberNames, where: str = "$") -> Any:
    """Return the same JSON with every name of the table in camelCase, also inside lists.

    Raises:
        DecodeError: a member is present in both spellings, or begins with `$`, unlike any member of this API; or a list
        is directly inside a list, which this API does not allow.
    """
    return value if _is_normal(value, names) else _normalize(value, names, where)


def _is_normal(value: Any, names: ProtoMemberNames) -> bool:
    """Return whether every name is already in camelCase and the value is valid. True for nearly all clients."""
    spelling, members = names.spelling, names.members
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


def _normalize(value: Any, names: ProtoMemberNames, where: str) -> Any:
    if type(value) is list:
        for index, item in enumerate(value):
            if type(item) is list:
                raise DecodeError(f"{where}[{index}]", "expected an object, got an array")
        return [_normalize(item, names, f"{where}[{index}]") for index, item in enumerate(value)]
    if type(value) is not dict:
        return value
    spelling, members = names.spelling, names.members
    result: dict[str, Any] = {}
    fields: dict[str, Any] = value
    for key, item in fields.items():
        name = spelling.get(key, key)
        if name in result:
            raise DecodeError(f"{where}.{name}", "this member is present in both spellings")
        if name.startswith("$"):
            raise DecodeError(f"{where}.{name}", "the API has no such member")
        nested = members.get(name)
        result[name] = item if nested is None else _normalize(item, nested, f"{where}.{name}")
    return result


USAGE = ProtoMemberNames(
    "promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount toolUsePromptTokenCount "
    "totalTokenCount promptTokensDetails cacheTokensDetails candidatesTokensDetails toolUsePromptTokensDetails "
    "trafficType serviceTier"
)

THINKING = ProtoMemberNames("includeThoughts thinkingBudget thinkingLevel")
