"""The script that an agent's model follows: read two files with two tools at once, then say what stood in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.scripted import Script, Seen
from tests.e2e.wires import CUSTOM, Call, Schema, Turn

FILLINGS = {"string": "-", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}


@dataclass(frozen=True)
class Kind:
    """A kind of tool: a word in its name, its main argument, and that argument's value for a file in a folder."""

    word: str
    argument: str
    value: Callable[[Path, str], str]


# From the likeliest down. The last is Codex's: a program that calls other tools.
SHELLS = (
    Kind("", "command", lambda work, file: f"cat {file}"),
    Kind("", "cmd", lambda work, file: f"cat {file}"),
    Kind("exec", "input", lambda work, file: f'text(await tools.exec_command({{cmd: "cat {file}"}}))'),
)
READERS = (Kind("read", "file_path", lambda work, file: str(work / file)),)
VIEWERS = (
    Kind("view_image", "path", lambda work, file: str(work / file)),
    Kind("exec", "input", lambda work, file: f'image(await tools.view_image({{path: "{work / file}"}}))'),
    *READERS,
)


def reader(
    work: Path, shown: str, read: str, viewed: str, ids: tuple[str, str, str] = ("call_1", "call_2", "call_3")
) -> Script:
    """Show one file of the folder with the shell and read another with the tool for that, if there is one; then look
    at a picture."""

    def script(seen: Seen) -> Turn:
        if seen.wanted:  # Gemini CLI has its model judge the task before it takes a turn
            return Turn(json.dumps(_filled(seen.wanted)))
        if len(seen.results) > 2:
            told = " | ".join(result.strip() for result in seen.results)
            return Turn(f"The tools said: {told} | and showed {seen.pictures} picture.")
        if seen.results:
            look = _call(seen, VIEWERS, ids[2], work, viewed)
            assert look is not None
            return Turn("Now the picture.", (look,))
        shell = _call(seen, SHELLS, ids[0], work, shown)
        second = _call(seen, READERS + SHELLS, ids[1], work, read)
        if shell is None or second is None:
            return Turn("Fine.")  # a title, a summary, a probe: agents ask for more than their user does
        return Turn("I look at both.", (shell, second))

    return script


def _call(seen: Seen, kinds: tuple[Kind, ...], call_id: str, work: Path, file: str) -> Call | None:
    """A call of the first tool that is of one of these kinds."""
    for kind in kinds:
        for name, schema in seen.tools.items():
            if kind.word in name.lower() and kind.argument in schema.get("properties", {}):
                arguments = {**_filled(schema), kind.argument: kind.value(work, file)}
                return Call(call_id, name, arguments, custom=schema is CUSTOM)
    return None


def _filled(schema: Schema) -> dict[str, Any]:
    """Something for whatever an object's schema requires. Google's schemas may have their types in capitals."""
    properties = schema.get("properties", {})
    return {name: FILLINGS[properties[name]["type"].lower()] for name in schema.get("required", ())}
