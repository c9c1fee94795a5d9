"""The script that an agent's model follows: read two files with two tools at once, then say what stood in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.scripted import Call, Schema, Script, Seen, Turn

COMMANDS = ("command", "cmd")
"""The ways in which shell tools name their main argument."""
PATHS = ("file_path", "path")
FILLINGS = {"string": "-", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}


def reader(work: Path, shown: str, read: str) -> Script:
    """Show one file of the folder with the shell and read the other with the tool for that, if there is one."""

    def script(seen: Seen) -> Turn:
        if seen.wanted:  # Gemini CLI has its model judge the task before it takes a turn
            return Turn(json.dumps(_filled(seen.wanted)))
        if seen.results:
            return Turn("The tools said: " + " | ".join(result.strip() for result in seen.results))
        shell = _tool(seen, COMMANDS, "")
        if shell is None:
            return Turn("Fine.")  # a title, a summary, a probe: agents ask for more than their user does
        reading = _tool(seen, PATHS, "read")
        second = _call(seen, "call_2", *reading, str(work / read)) if reading else _show(seen, "call_2", shell, read)
        return Turn("I look at both.", (_show(seen, "call_1", shell, shown), second))

    return script


def _tool(seen: Seen, arguments: tuple[str, ...], word: str) -> tuple[str, str] | None:
    """The name of the first tool that has one of these arguments and the word in its name, and which argument."""
    for name, schema in seen.tools.items():
        for argument in arguments:
            if argument in schema.get("properties", {}) and word in name.lower():
                return name, argument
    return None


def _show(seen: Seen, id: str, shell: tuple[str, str], file: str) -> Call:  # noqa: A002 (the field's name)
    name, argument = shell
    as_list = seen.tools[name]["properties"][argument].get("type") == "array"
    return _call(seen, id, name, argument, ["cat", file] if as_list else f"cat {file}")


def _call(seen: Seen, id: str, name: str, argument: str, value: Any) -> Call:  # noqa: A002 (the field's name)
    """A call with this argument, and something for whatever else the schema requires."""
    return Call(id, name, {**_filled(seen.tools[name]), argument: value})


def _filled(schema: Schema) -> dict[str, Any]:
    """Something for whatever an object's schema requires. Google's schemas may have their types in capitals."""
    properties = schema.get("properties", {})
    return {name: FILLINGS[properties[name]["type"].lower()] for name in schema.get("required", ())}
