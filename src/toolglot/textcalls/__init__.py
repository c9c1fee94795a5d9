"""Tool calls written as plain text: read out of a model's answer as it comes, repaired where they are broken.

reader = parser("hermes_json", tools)
for piece in pieces:
    for event in reader.feed(piece): ...
for event in reader.finish(): ...
"""

from __future__ import annotations

from toolglot.textcalls.engine import Engine
from toolglot.textcalls.formats import ALIASES, AUTO, FORMATS, find_format
from toolglot.textcalls.grammar import Format
from toolglot.textcalls.reader import Parser, parser, schemas_of
from toolglot.textcalls.repair import RepairError, repair_arguments

__all__ = [
    "ALIASES",
    "AUTO",
    "FORMATS",
    "Engine",
    "Format",
    "Parser",
    "RepairError",
    "find_format",
    "parser",
    "repair_arguments",
    "schemas_of",
]
