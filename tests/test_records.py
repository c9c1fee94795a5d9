"""Records are values: nobody can change one that somebody else holds."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest
from msgspec import Struct

import toolglot.dialects
import toolglot.events
import toolglot.passes
from toolglot.dialect import Dialect

# What is filled while something is read, and what msgspec fills from a frame that lives as long as one event.
CHANGING = {
    "toolglot.passes.Context",
    "toolglot.passes.TextCallContext",
    "toolglot.passes.foreign.Reporter",
    "toolglot.passes.label.Labeller",
    "toolglot.passes.ids._PairedCall",
    "toolglot.passes.carry._LastText",
    "toolglot.dialects.anthropic.stream_decoder._Delta",
    "toolglot.dialects.anthropic.stream_decoder._Frame",
    "toolglot.dialects.gemini.stream_frames.TextCandidate",
    "toolglot.dialects.gemini.stream_frames.TextContent",
    "toolglot.dialects.gemini.stream_frames.TextFrame",
    "toolglot.dialects.gemini.stream_frames.TextFramePart",
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
