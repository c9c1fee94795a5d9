"""Tool calls written as plain text: parsed from a model's answer as it streams, and repaired if they are broken.

    reader = parser("hermes_json", tools)
    for piece in pieces:
        for event in reader.feed(piece): ...
    for event in reader.finish(): ...

The formats are loaded when one of these names is first used: most exchanges need none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolglot.textcalls.engine import Engine
    from toolglot.textcalls.events import (
        ArgumentsPart,
        CallCut,
        CallEnd,
        CallStart,
        ParsedEvent,
        ReasoningTextPart,
        TextPart,
    )
    from toolglot.textcalls.formats import ALIASES, AUTO, FORMATS, find_format
    from toolglot.textcalls.grammar import Format
    from toolglot.textcalls.reader import Parser, parser, schemas_of
    from toolglot.textcalls.repair import RepairError, repair_arguments
    from toolglot.textcalls.settings import TextCalls

__all__ = [
    "ALIASES",
    "AUTO",
    "FORMATS",
    "ArgumentsPart",
    "CallCut",
    "CallEnd",
    "CallStart",
    "Engine",
    "Format",
    "ParsedEvent",
    "Parser",
    "ReasoningTextPart",
    "RepairError",
    "TextCalls",
    "TextPart",
    "find_format",
    "parser",
    "repair_arguments",
    "schemas_of",
]

_HOMES = {
    "engine": ("Engine",),
    "events": ("ArgumentsPart", "CallCut", "CallEnd", "CallStart", "ParsedEvent", "ReasoningTextPart", "TextPart"),
    "formats": ("ALIASES", "AUTO", "FORMATS", "find_format"),
    "grammar": ("Format",),
    "reader": ("Parser", "parser", "schemas_of"),
    "repair": ("RepairError", "repair_arguments"),
    "settings": ("TextCalls",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
