"""Every format reads its own cases, however the text is cut. The cases are data: `cases/<format>.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.textcalls.reading import read, read_every_way
from toolglot.textcalls import ALIASES, AUTO, FORMATS, find_format
from toolglot.textcalls.prompts import PROMPTS

CASES = Path(__file__).parent / "cases"
TOOLS: dict[str, Any] = json.loads((CASES / "tools.json").read_text("utf-8"))
READ_OTHERWISE_BY_AUTO = frozenset(("functionary_v32", "muse_glimmer", "olmo3", "granite_20b_fc", "react"))
"""Formats whose marks are ordinary text, or another format's, to a reader of all of them."""
SHARED_TITLES = frozenset(
    ("one call", "two calls", "a call without arguments", "text around a call", "typed values", "cut inside a value")
)


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any]


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text and what is read in it. `cut` are the names of the calls that are not whole."""

    title: str
    input: str
    calls: list[ExpectedCall]
    text: str = ""
    reasoning: str = ""
    cut: list[str] = []


@cache
def cases_of(name: str) -> list[Case]:
    path = CASES / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=list[Case]) if path.exists() else []


def every_case() -> list[Any]:
    return [pytest.param(name, case, id=f"{name}: {case.title}") for name in FORMATS for case in cases_of(name)]


@pytest.mark.parametrize(("name", "case"), every_case())
def test_a_format_reads_its_cases_however_they_are_cut(name: str, case: Case) -> None:
    reading = read_every_way(name, TOOLS, case.input)
    assert reading.calls == [(call.name, call.arguments) for call in case.calls]
    assert (reading.text, reading.reasoning, reading.cut) == (case.text, case.reasoning, case.cut)


@pytest.mark.parametrize(("name", "case"), every_case())
def test_a_call_that_a_limit_cut_is_never_one_that_the_whole_text_does_not_have(name: str, case: Case) -> None:
    wanted = [(call.name, call.arguments) for call in case.calls]
    for end in range(len(case.input)):
        found = read(name, TOOLS, case.input[:end], cut=True).calls
        assert found == wanted[: len(found)], case.input[:end]


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - READ_OTHERWISE_BY_AUTO))
def test_the_reader_of_all_formats_reads_the_calls_of_each(name: str) -> None:
    for case in cases_of(name):
        if case.calls:
            assert read(AUTO, TOOLS, case.input).calls == [(call.name, call.arguments) for call in case.calls]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_grammar_a_prompt_and_cases(name: str) -> None:
    text_format = FORMATS[name]
    assert text_format.name == name
    assert text_format.title
    assert text_format.calls
    assert name in PROMPTS
    assert {case.title for case in cases_of(name)} >= SHARED_TITLES


def test_every_table_of_cases_belongs_to_a_format() -> None:
    assert {path.stem for path in CASES.glob("*.json")} == {*FORMATS, "tools"}


def test_aliases_resolve_and_are_no_names() -> None:
    assert not ALIASES.keys() & {*FORMATS, AUTO}
    assert sum(len(text_format.aliases) for text_format in FORMATS.values()) == len(ALIASES)
    for alias, name in ALIASES.items():
        assert find_format(alias) is FORMATS[name]


def test_a_wrong_name_is_told_with_a_near_one() -> None:
    with pytest.raises(ValueError, match="there is no text format 'hermes_jso'; did you mean 'hermes_json'"):
        find_format("hermes_jso")
