"""Arguments between braces, as Gemma writes them."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.textcalls.bodies import MakeBody, json_values, read, read_alike, sizes, words
from toolglot.textcalls.body import OpenedCall
from toolglot.textcalls.braces_body import BracesBody
from toolglot.textcalls.events import EventSink
from toolglot.textcalls.grammar import CallSyntax, Header

MARK = '<|"|>'
CALL = CallSyntax(header=Header(openers=("<|tool_call>call:",)), body="braces", quotes=(MARK,))
ESCAPE = CallSyntax(header=Header(openers=("<start_function_call>call:",)), body="braces", quotes=("<escape>",))
WEAK = CallSyntax(header=Header(openers=("call:",)), body="braces", quotes=(MARK,), weak=True)
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"lang": {"type": "string"}}},
        "limit": {"type": "integer"},
    },
}


def braces(call: CallSyntax = CALL, name: str = "f") -> MakeBody:
    return lambda sink: BracesBody(OpenedCall(call=call, sink=sink, tools={"f": SCHEMA, "g": None}, name=name, id="c1"))


WHOLE: list[tuple[str, Any]] = [
    ("{}", {}),
    ("{ }", {}),
    ('{city:<|"|>San Francisco<|"|>}', {"city": "San Francisco"}),
    ('{city:<|"|><|"|>}', {"city": ""}),
    ('{a:<|"|>{x}, [y]: "z" <|tool_call> <|"<|"|>}', {"a": '{x}, [y]: "z" <|tool_call> <|"'}),
    ('{a:<|"|>C:\\new "q"\n\t<|"|>}', {"a": 'C:\\new "q"\n\t'}),
    ("{n:3,m:-7,x:1.5e10,y:3.14}", {"n": 3, "m": -7, "x": 1.5e10, "y": 3.14}),
    ("{a:true,b:false,c:null}", {"a": True, "b": False, "c": None}),
    ("{a:True,b:False,c:None}", {"a": True, "b": False, "c": None}),
    ('{todos:[<|"|>a<|"|>,<|"|>b<|"|>],e:[]}', {"todos": ["a", "b"], "e": []}),
    ('{config:{theme:<|"|>dark<|"|>,count:3,in:{}}}', {"config": {"theme": "dark", "count": 3, "in": {}}}),
    ("{ a : 1 ,\n b : [ 1 , 2 ] , }", {"a": 1, "b": [1, 2]}),
    ('{"a":"x\\n\\u00e9\\ud83d\\ude00\\/\\"","b c":1}', {"a": 'x\né😀/"', "b c": 1}),
    ('{<|"|>a:b<|"|>:1}', {"a:b": 1}),
    ("{user-id:1,$top:2,a b:3}", {"user-id": 1, "$top": 2, "a b": 3}),
    ("{city:Paris}", {"city": "Paris"}),
    ("{city:New York ,limit:3}", {"city": "New York", "limit": 3}),
    ("{note:null}", {"note": None}),
    ("{note:at 12:30}", {"note": "at 12:30"}),
    ("{tags:[a,b]}", {"tags": ["a", "b"]}),
    ("{where:{lang:de}}", {"where": {"lang": "de"}}),
    ("{limit:" + "1" * 400 + "}", {"limit": int("1" * 400)}),
]


@pytest.mark.parametrize(("text", "arguments"), WHOLE)
def test_arguments_are_read_up_to_the_last_brace(text: str, arguments: dict[str, Any]) -> None:
    reading = read_alike(braces(), text + "<tool_call|>")
    assert (reading.state, reading.calls, reading.rest) == ("done", [("f", arguments)], "<tool_call|>")


def test_other_marks_are_read_too() -> None:
    reading = read_alike(braces(ESCAPE), '{city:<escape>a <esc <|"|> b<escape>}<end_function_call>')
    assert (reading.calls, reading.rest) == ([("f", {"city": 'a <esc <|"|> b'})], "<end_function_call>")


CUT = {
    "{": "ends",
    "{city": "ends",
    "{city:": "ends",
    '{city:<|"|>Par': "ends",
    '{city:<|"|>Paris<|"|': "ends",
    '{city:<|"|>Paris<|"|>': "ends",
    "{limit:3": "ends",
    "{limit:3,": "ends",
    "{city:Paris<tool_call|>": "ends",
    "{city:Paris<tool_call|> and {x}": "not a value",
    "{city:{a}}": "key",
    "{limit:three}": "not a value",
    "{other:word}": "not a value",
    "{limit:}": "not a value",
    "{limit:01}": "not a value",
    "{limit:1e999}": "not a value",
    "{limit:NaN}": "not a value",
    "{city:'Paris'}": "not a value",
    "{city:San Francisco, CA}": "key",
    "{limit:1,limit:2}": "twice",
    '{limit:1,<|"|>limit<|"|>:2}': "twice",
    "{:1}": "key",
    "{,}": "key",
    '{a:<|"|>x<|"|> y}': "comma",
    '{a:<|"|>x<|"|>]': "comma",
    '{"a" 1}': "colon",
    '{"a":"\\x"}': "escape",
    '{"a":"\\ud83d"}': "not a character",
    "{a:" + "1" * 1001 + "}": "1000",
    "{" + "a" * 1001 + ":1}": "1000",
    "{a:" + "[" * 201 + "]" * 201 + "}": "200",
}


@pytest.mark.parametrize("text", CUT)
def test_broken_arguments_cut_the_call_and_say_why(text: str) -> None:
    reading = read_alike(braces(), text)
    assert reading.state == "done"
    [(name, why)] = reading.calls
    assert name == "f"
    assert CUT[text] in why


def test_what_is_left_of_a_broken_call_is_passed_over() -> None:
    call = CallSyntax(header=Header(openers=("call:",)), body="braces", quotes=(MARK,), closers=("<tool_call|>",))
    reading = read_alike(braces(call), "{limit:three<|tool_call>call:f{}<tool_call|> text")
    assert (len(reading.calls), reading.state, reading.rest) == (1, "done", "<tool_call|> text")


@pytest.mark.parametrize(
    ("call", "name", "text"),
    [(CALL, "f", "x"), (CALL, "f", "[1]"), (CALL, "f", ""), (CALL, "f", " "), (CALL, "", "{}"), (WEAK, "h", "{}")],
)
def test_what_is_no_call_is_refused(call: CallSyntax, name: str, text: str) -> None:
    reading = read_alike(braces(call, name), text)
    assert (reading.state, reading.events) == ("refused", ())


def test_a_weak_opener_counts_with_a_declared_tool() -> None:
    assert read_alike(braces(WEAK, "g"), "{a:1}").calls == [("g", {"a": 1})]


def test_a_strong_opener_counts_with_any_tool() -> None:
    assert read_alike(braces(CALL, "h"), "{a:1}").calls == [("h", {"a": 1})]


def test_arguments_go_out_while_they_are_written() -> None:
    sink = EventSink()
    body = braces()(sink)
    unread = ""
    for chunk in ("{a:", '<|"|>long ', 'and "longer" <', '|"|>,n:', "3", ",", "b:[tr", "ue]}"):
        unread += chunk
        unread = unread[body.read(unread, 0) :]
    assert sink.events == [
        ("id", 0, "c1"),
        ("start", 0, "f"),
        ("args", 0, '{"a": '),
        ("args", 0, '"long '),
        ("args", 0, 'and \\"longer\\" '),
        ("args", 0, '", "n": '),
        ("args", 0, "3"),
        ("args", 0, ', "b": ['),
        ("args", 0, "true]}"),
        ("end", 0),
    ]
    assert (body.state, unread) == ("done", "")


def test_depth_is_limited_without_recursion() -> None:
    deep = "[" * 199 + "]" * 199
    assert read(braces(), f"{{a:{deep}}}").calls == [("f", {"a": json.loads(deep)})]
    assert "200" in read(braces(), "{a:" * 100_000).calls[0][1]


def rendered(value: Any) -> str:
    """A value as Gemma writes it; a string that holds the mark itself can only be written as JSON."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False) if MARK in value + MARK[:-1] else f"{MARK}{value}{MARK}"
        case dict():
            return "{" + ",".join(f"{rendered_key(key)}:{rendered(entry)}" for key, entry in value.items()) + "}"
        case list():
            return "[" + ",".join(map(rendered, value)) + "]"
        case _:
            return json.dumps(value)


def rendered_key(key: str) -> str:
    return key if key.isidentifier() else rendered(key)


@given(st.dictionaries(words, json_values, max_size=4), sizes)
def test_rendered_arguments_come_back(arguments: dict[str, Any], lengths: list[int]) -> None:
    reading = read_alike(braces(), rendered(arguments) + "rest", lengths)
    assert (reading.calls, reading.rest) == ([("f", arguments)], "rest")


@given(st.text('ab"\\<|>[]{},:. \n01eE-', max_size=40), sizes)
def test_any_text_is_read_alike(text: str, lengths: list[int]) -> None:
    reading = read_alike(braces(), "{city:" + text, lengths)
    assert all(isinstance(arguments, dict | str) for _, arguments in reading.calls)


@pytest.mark.parametrize("unit", ["plain text, ", '<|<|"|', '"\\n'])
def test_a_long_string_takes_linear_time(unit: str) -> None:
    body = unit * (1_000_000 // len(unit))
    started = process_time()
    read(braces(), f'{{a:<|"|>{body}<|"|>}}', (20,))
    assert process_time() - started < 5  # a second on an idle machine; a quadratic reader takes minutes
