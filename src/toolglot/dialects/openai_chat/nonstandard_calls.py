"""Calls of imitating servers: without the object `function`, or with `parameters` instead of `arguments`.

Without this, such a call would be lost, or would run without arguments.
"""

from __future__ import annotations

from typing import Any

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
