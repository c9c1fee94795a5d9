"""Calls of servers that imitate the API: without the object `function`, or with `parameters` for `arguments`.

Read without these members, a call would be lost, or be one that is to run without arguments.
"""

from __future__ import annotations

from typing import Any

_ARGUMENTS = "arguments"


def nest_function(call: dict[str, Any]) -> bool:
    """Move name and arguments that stand in the call itself into its `function`. Returns whether there are any."""
    if any(call.get(member) is not None for member in ("function", "custom")) or not _is_flat(call):
        return False
    call["function"] = {name: call.pop(name) for name in ("name", _ARGUMENTS, "parameters") if name in call}
    return True


def _is_flat(call: dict[str, Any]) -> bool:
    named = isinstance(call.get("name"), str)
    return call.get("type") in (None, "", "function") and (named or isinstance(call.get(_ARGUMENTS), str | dict))


def rename_parameters(function: Any) -> bool:
    """Call `parameters` what they are. Returns whether there are any."""
    if not isinstance(function, dict) or function.get(_ARGUMENTS) is not None:
        return False
    if not isinstance(function.get("parameters"), str | dict):
        return False
    function[_ARGUMENTS] = function.pop("parameters")
    return True
