"""Reading takes linear time and bounded memory, also where a text is made to cost much."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest

from toolglot.textcalls import AUTO, Engine, find_format

TOOLS: dict[str, Any] = {
    "write_file": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
}
SIZE: Final = 700
GROWTH: Final = 4
ALLOWED: Final = 2.5
"""Four times the text may take this many times four times the time. Quadratic time would be 4."""
FLOOR: Final = 0.005
"""Seconds below which times say nothing."""
ATTEMPTS: Final = 4
"""What else the machine does only adds to a time, so that one good measure is enough."""

CALL: Final = '<tool_call>{"name": "write_file", "arguments": {}}</tool_call>'
OPEN_STRING: Final = '<tool_call>{"name": "write_file", "arguments": {"path": "'
INVOKE: Final = '<function_calls>\n<invoke name="write_file">\n<parameter name="path">'
ATTACKS: Final[dict[str, Callable[[int], str]]] = {
    "openers": lambda n: "<tool_call>{" * n,
    "openers of objects with a key": lambda n: '<tool_call>{"a": ' * n,
    "openers of calls": lambda n: '<tool_call>{"name": "write_file", "arguments": {"path": ' * n,
    "an unclosed opener": lambda n: '<tool_call>{"name": "x", ' + "a" * 40 * n,
    "an opener of nothing": lambda n: "<tool_call>" + "a" * 40 * n,
    "sections": lambda n: "<function_calls>" * n,
    "headers without an end": lambda n: '<function_calls><invoke name="' * n,
    "angles": lambda n: "<" * 20 * n,
    "half marks": lambda n: "<tool_cal" * 2 * n,
    "backticks": lambda n: "`" * 20 * n,
    "fences": lambda n: "```\n" * 2 * n,
    "fences of JSON": lambda n: '```json\n{"name": ' * n,
    "deep nesting": lambda n: '<tool_call>{"name": "write_file", "arguments": ' + '{"a":' * 4 * n,
    "line breaks in a string": lambda n: OPEN_STRING + "\n" * 20 * n,
    "closers in a string": lambda n: OPEN_STRING + "</tool_call> \n x" * n,
    "half closers in a string": lambda n: OPEN_STRING + "</tool_cal" * 2 * n,
    "strings": lambda n: OPEN_STRING + '", "' * 5 * n,
    "keys beside the name": lambda n: '<tool_call>{"name": "write_file", ' + '"path": "x", ' * n,
    "deep lists": lambda n: "[" * 10 * n,
    "deep Python lists": lambda n: "[write_file(path=" + "[" * 10 * n,
    "bare objects": lambda n: '{"a":\n' * n,
    "calls in reasoning": lambda n: "<think>" + f"{CALL} x" * (n // 3),
    "openers in reasoning": lambda n: "<think>" + "<tool_call>{" * n,
    "calls in reasoning, each with text behind it": lambda n: "<think>" + f"{CALL} x " * (n // 3),
    "calls in reasoning within a line": lambda n: "So: <think>" + f"{CALL} x " * (n // 3),
    "braces": lambda n: "{x\n" * 4 * n,
    "space behind a key": lambda n: '<tool_call>{"name"' + " " * 20 * n,
    "space behind a colon": lambda n: '<tool_call>{"name":' + " " * 20 * n,
    "space in arguments": lambda n: '{"name": "write_file", "parameters": {' + " " * 20 * n,
    "an endless language of a code block": lambda n: "<tool_call>```" + "a" * 20 * n,
    "text behind a closer in a value": lambda n: INVOKE + "</parameter> " + "a < b " * 4 * n,
    "half parameters behind closers": lambda n: INVOKE + "</parameter> <parameter " * n,
    "angles behind a closer": lambda n: "<write_file><path>x</path> " + "<" * 10 * n,
    "messages": lambda n: "<|start|>" * 2 * n,
    "end tags": lambda n: "</s></response>" * n,
    "tildes": lambda n: "~" * 20 * n,
    "code in a line": lambda n: "```a``` ``b`` " * n,
    "thinking marks": lambda n: "<think>" * 2 * n,
    "thinking marks in turn": lambda n: "<think></think>\n" * n,
    "space behind an opener": lambda n: "<function_calls>" + " " * 40 * n + "x",
    "space behind a call": lambda n: CALL[:-12] + "\n" * 40 * n + "x",
    "closers in a value": lambda n: INVOKE + "</parameter> " * 2 * n,
    "call closers in a value": lambda n: INVOKE + "</invoke>\n" * 2 * n,
    "space behind a closer in a value": lambda n: INVOKE + "</parameter>" + " " * 40 * n,
    "parameters in a value": lambda n: INVOKE + '\n<parameter name="content">' * n,
    "stray closers": lambda n: "</tool_call>" * 2 * n,
    "stray closers behind a call": lambda n: CALL + "</tool_call>" * 2 * n,
    "broken JSON": lambda n: (
        "<tool_call>{'name': 'write_file', 'arguments': {'path': '" + "a" * 40 * n + "'}}</tool_call>"
    ),
    "broken keys": lambda n: '<tool_call>{"name": "write_file", "arguments": {' + "a: 1, " * 4 * n + "}}</tool_call>",
    "escapes": lambda n: (
        '<tool_call>{"name": "write_file", "arguments": {"path": "' + '\\"' * 10 * n + '"}}</tool_call>'
    ),
    "tags of tools": lambda n: "<write_file><path>" * n,
    "calls": lambda n: CALL * (n // 3),
    "plain text": lambda n: "All is well, and 1 < 2. " * 2 * n,
}
WHOLE = ("hermes_json", "generic_json", AUTO)
NAMES = ("hermes_json", "anthropic_xml", "cline_xml", "pythonic", "markdown_json", AUTO)


def feed_all(name: str, text: str, size: int = 7) -> None:
    engine = Engine(find_format(name), TOOLS)
    for at in range(0, len(text), size):
        engine.feed(text[at : at + size])
    engine.finish()


def seconds(name: str, text: str, size: int) -> float:
    start = time.process_time()
    feed_all(name, text, size)
    return time.process_time() - start


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attack", ATTACKS)
def test_time_grows_with_the_length_of_the_text(name: str, attack: str) -> None:
    check_growth(name, attack, 7)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("attack", ATTACKS)
def test_time_grows_with_the_length_of_a_text_that_comes_at_once(name: str, attack: str) -> None:
    check_growth(name, attack, sys.maxsize)


def check_growth(name: str, attack: str, size: int) -> None:
    make = ATTACKS[attack]
    for attempt in range(1, ATTEMPTS + 1):
        small = max(seconds(name, make(SIZE), size), FLOOR)
        large = seconds(name, make(SIZE * GROWTH), size)
        if large < small * GROWTH * ALLOWED:
            return
        assert attempt < ATTEMPTS, f"{small:.3f} s, then {large:.3f} s for {GROWTH} times the text"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attack", ["plain text", "angles", "fences", "stray closers", "calls", "half marks"])
def test_memory_does_not_grow_where_nothing_has_to_be_kept(name: str, attack: str) -> None:
    text = ATTACKS[attack](SIZE * 8)
    feed_all(name, text[:2000])
    tracemalloc.start()
    try:
        feed_all(name, text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000, f"{peak} bytes for {len(text)} characters"


@pytest.mark.parametrize(
    ("name", "opening"),
    [
        ("anthropic_xml", '<function_calls>\n<invoke name="write_file">\n<parameter name="content">'),
        ("cline_xml", "<write_file>\n<content>"),
        ("qwen3_coder", "<tool_call>\n<function=write_file>\n<parameter=content>\n"),
    ],
)
def test_a_long_string_is_passed_on_and_not_kept(name: str, opening: str) -> None:
    text = opening + "if a < b: print('hello')\n" * 20_000
    feed_all(name, text[:2000])
    tracemalloc.start()
    try:
        feed_all(name, text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000, f"{peak} bytes for {len(text)} characters"


@pytest.mark.parametrize("name", ["cline_xml", AUTO])
def test_many_tools_whose_names_are_tags_cost_no_more_than_few(name: str) -> None:
    text = "If a < b and <b>x</b>, then all is well. " * 500

    def spent(count: int) -> float:
        tools = {f"tool_{number * 7919 % 1000}": TOOLS["write_file"] for number in range(count)}
        engine = Engine(find_format(name), tools)
        start = time.process_time()
        for at in range(0, len(text), 16):
            engine.feed(text[at : at + 16])
        return time.process_time() - start

    for attempt in range(1, ATTEMPTS + 1):
        few, many = max(spent(2), FLOOR), spent(500)
        if many < few * 3:
            return
        assert attempt < ATTEMPTS, f"{few:.3f} s with 2 tools, {many:.3f} s with 500"
