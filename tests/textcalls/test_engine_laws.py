"""Laws of the engine, for every format: texts made of the format's own marks, pieces of calls, and prose."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec.structs import replace

from tests.textcalls.reading import Reading, read
from toolglot.ir import ToolCall
from toolglot.textcalls import AUTO, FORMATS, find_format
from toolglot.textcalls.formats import WHOLE_ANSWER
from toolglot.textcalls.grammar import CallSyntax
from toolglot.textcalls.prompts import calls_text
from toolglot.textcalls.vocabulary import Vocabulary, vocabulary_of

TOOLS: dict[str, Any] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
    "write_file": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    "now": {"type": "object", "properties": {}},
    "anything": None,
}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_weather", {"city": "Oslo"}),
    ("get_weather", {"city": "a<b", "days": 3}),
    ("write_file", {"path": "a", "content": "x\ny </parameter>\n"}),
    ("now", {}),
    ("anything", {"query": [1, "}"], "o": {"a": {"b": "]"}}}),
    ("unknown", {"x": "1"}),
)
PROSE = (
    *("a", " ", "\n", "\r\n", "\t", "x < y", "hello world ", "é", "1", "null", "true", "None", "//", "city"),
    *("`", "```", "```json\n", "```\n", "<", ">", "</", "|>", "{", "}", "[", "]", '"', "'", ",", ":", "\\"),
    *("get_weather", "f(", "(city='x')", '{"name": "get_weather"', '"arguments": {', '{"city": "x"}'),
    *('name="get_weather">', "=get_weather>", "<city>", "</city>", "<parameter", "</parameter>"),
    *("<tool_response>", "\nObservation:", "\n  \n", '", ', "', '", '{"path": "x"}', '"days": 3'),
    *("<think>", "</think>", " to=functions.get_weather", "assistant", "commentary", "analysis"),
)
NAMES = (*FORMATS, AUTO)
KEEPS_NO_MESSAGES = tuple(name for name in NAMES if find_format(name).messages is None)
TELLS_ITS_END = tuple(
    name
    for name in FORMATS
    if all(call.body != "tagged" for call in find_format(name).calls) and find_format(name).messages is None
)
"""Where a call that is not whole can be told from one whose closing marks are missing."""


def words(name: str) -> Vocabulary:
    return vocabulary_of(find_format(name), tuple(TOOLS))


@cache
def marks(name: str) -> tuple[str, ...]:
    found = dict.fromkeys(words(name).meanings)
    for call in find_format(name).calls:
        found |= dict.fromkeys((*call.header.ends, *call.stops))
        if call.parameter is not None:
            found |= dict.fromkeys((*call.parameter.header.openers, *call.parameter.header.ends))
            found |= dict.fromkeys(closer.replace("{key}", "city") for closer in call.parameter.closers)
    return tuple(mark for mark in found if mark)


@cache
def written(name: str) -> tuple[str, ...]:
    """Calls in the format; for the reader of all formats, in each of them."""
    calls = [ToolCall(id="", name=tool, arguments=json.dumps(arguments)) for tool, arguments in CALLS]
    return tuple(calls_text(one, [call]) for one in (FORMATS if name == AUTO else (name,)) for call in calls)


@st.composite
def parts_of_calls(draw: DrawFn, name: str) -> str:
    """A call, whole, or what is left of one."""
    call = draw(st.sampled_from(written(name)))
    start, end = sorted((draw(st.integers(0, len(call))), draw(st.integers(0, len(call)))))
    return draw(
        st.sampled_from(
            (call, call, call[:end], call[start:], call[:start] + draw(st.sampled_from(PROSE)) + call[end:])
        )
    )


@cache
def texts(name: str) -> SearchStrategy[str]:
    part = st.one_of(st.sampled_from(marks(name)), parts_of_calls(name), st.sampled_from(PROSE))
    return st.lists(part, min_size=1, max_size=7).map("".join)


def cut_up(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize("name", NAMES)
@given(
    st.data(),
    st.lists(st.integers(0, 10**6), max_size=8),
    st.booleans(),
    st.booleans(),
    st.sampled_from(((), ("<tool_response>", "Observation:"))),
    st.sampled_from(((), WHOLE_ANSWER)),
)
def test_the_way_a_text_is_cut_changes_nothing(
    name: str,
    data: st.DataObject,
    cuts: list[int],
    cut: bool,
    starts_in_reasoning: bool,
    ends_at: tuple[str, ...],
    further: tuple[CallSyntax, ...],
) -> None:
    text = data.draw(texts(name))
    text_format = replace(find_format(name), calls=(*find_format(name).calls, *further))

    def reading(pieces: list[str]) -> Reading:
        return read(text_format, TOOLS, pieces, cut=cut, starts_in_reasoning=starts_in_reasoning, ends_at=ends_at)

    whole = reading([text])
    assert reading(list(text)).events == whole.events
    assert reading(cut_up(text, cuts)).events == whole.events


@pytest.mark.parametrize("name", KEEPS_NO_MESSAGES)
@given(st.data())
def test_a_text_without_calls_is_passed_on_but_for_dropped_and_thinking_marks(name: str, data: st.DataObject) -> None:
    text = data.draw(texts(name))
    reading = read(name, TOOLS, text)
    if reading.calls or reading.cut:
        return
    gone = [
        mark
        for mark, meanings in words(name).meanings.items()
        if any(meaning.kind in ("think", "unthink", "drop") for meaning in meanings)
    ]
    pattern = re.compile("|".join(re.escape(mark) for mark in sorted(gone, key=len, reverse=True)) or "(?!)")
    said = "".join(event[1] for event in reading.events if event[0] in ("text", "reasoning"))

    def without_marks(whole: str) -> str:
        # White space behind the reasoning is the mark's.
        return re.sub(r"\s+", "", pattern.sub("", whole))

    assert without_marks(said) == without_marks(text)


@pytest.mark.parametrize("name", NAMES)
@given(st.data(), st.integers(0, 10**6), st.booleans())
def test_a_text_that_a_limit_cut_has_no_call_that_the_whole_text_has_not(
    name: str, data: st.DataObject, place: int, starts_in_reasoning: bool
) -> None:
    text = data.draw(texts(name))
    whole = read(name, TOOLS, text, starts_in_reasoning=starts_in_reasoning).calls
    part = text[: place % (len(text) + 1)]
    found = read(name, TOOLS, part, cut=True, starts_in_reasoning=starts_in_reasoning).calls
    assert found == whole[: len(found)], part


@pytest.mark.parametrize("name", TELLS_ITS_END)
@given(st.data(), st.integers(0, 10**6))
def test_a_text_that_ends_early_has_no_call_that_the_whole_text_has_not(
    name: str, data: st.DataObject, place: int
) -> None:
    calls = data.draw(st.lists(st.sampled_from(written(name)), min_size=1, max_size=3))
    text = data.draw(st.sampled_from(("\n", "\n\n", "\nand\n"))).join(calls)
    whole = read(name, TOOLS, text).calls
    part = text[: place % (len(text) + 1)]
    found = read(name, TOOLS, part).calls
    assert found == whole[: len(found)], part
