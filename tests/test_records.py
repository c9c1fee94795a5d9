"""Records are values: nobody can change one that somebody else holds."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec import Struct

import toolglot.dialects
import toolglot.events
import toolglot.passes
from toolglot.capabilities import PLACES, RECORDS, Capabilities, change_capabilities, read_capability
from toolglot.dialect import Dialect

# What is filled while something is read, and what msgspec fills from a frame that lives as long as one event.
CHANGING = {
    "toolglot.passes.Context",
    "toolglot.passes.TextCallContext",
    "toolglot.passes.foreign.Reporter",
    "toolglot.passes.label.Labeller",
    "toolglot.passes.ids._PairedCall",
    "toolglot.passes.carry._LastBlock",
    "toolglot.dialects.anthropic.stream_decoder._FrameDelta",
    "toolglot.dialects.anthropic.stream_decoder._Frame",
    "toolglot.dialects.gemini.stream_frames.TextCandidate",
    "toolglot.dialects.gemini.stream_frames.TextContent",
    "toolglot.dialects.gemini.stream_frames.TextFrame",
    "toolglot.dialects.gemini.stream_frames.TextFramePart",
    "toolglot.dialects.openai_chat.stream_decoder._OtherChoice",
    "toolglot.dialects.openai_responses.stream_state.ResponsesFrame",
    "toolglot.lint.report.LintFrame",
}


# What decoders read and write lives as long as one request, and nobody else ever holds it.
SHORT_LIVED = re.compile(r"toolglot\.wire\.structs|.*\.wire|.*\.anthropic\.stream_frames")


def records() -> list[type[Struct]]:
    packages = [toolglot.dialects, toolglot.passes]
    names = [
        found.name for package in packages for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ]
    modules = [toolglot.events, *packages, *map(importlib.import_module, names)]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    structs = (value for value in found if issubclass(value, Struct) and value is not Struct)
    return sorted((value for value in structs if not SHORT_LIVED.fullmatch(value.__module__)), key=named)


def named(record: type[Struct]) -> str:
    return f"{record.__module__}.{record.__qualname__}"


@pytest.mark.parametrize("record", records(), ids=named)
def test_a_record_is_frozen_unless_it_says_why_not(record: type[Struct]) -> None:
    assert record.__struct_config__.frozen is (named(record) not in CHANGING)


def test_the_list_of_changing_records_names_records() -> None:
    assert set(map(named, records())) >= CHANGING


def test_the_record_of_a_dialect_groups_its_facts() -> None:
    assert len(Dialect.__struct_fields__) <= 25


def test_the_records_of_capabilities_are_small_and_their_public_names_are_unique() -> None:
    sizes = {concept: len(record.__struct_fields__) for concept, record in RECORDS.items()}
    assert max(*sizes.values(), len(RECORDS)) <= 15
    assert sum(sizes.values()) == len(PLACES)


def test_capabilities_are_changed_by_their_public_names() -> None:
    can = change_capabilities(Capabilities(), max_tools=3, cache_breakpoints=4, custom_tools=True)
    assert (can.tools.max_count, can.cache.breakpoints, can.tools.custom) == (3, 4, True)
    assert read_capability(can, "max_tools") == 3
    with pytest.raises(TypeError, match="unknown capability `max_count`"):
        change_capabilities(can, max_count=3)


def test_a_class_name_is_used_once_in_the_project() -> None:
    sources = Path(toolglot.dialects.__file__).parents[1].rglob("*.py")
    nodes = (node for path in sources for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = Counter(node.name.lstrip("_") for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []
