"""Calls written as Python."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.textcalls.bodies import MakeBody, json_values, read, read_alike, sizes, words
from toolglot.textcalls.body import OpenedCall
from toolglot.textcalls.events import EventSink
from toolglot.textcalls.grammar import CallSyntax, Header
from toolglot.textcalls.python_body import PythonBody

CALL = CallSyntax(header=Header(openers=("<|tool_call_start|>",)), body="python")
WEAK = CallSyntax(header=Header(openers=("[",)), body="python", weak=True)
TOOLS: Mapping[str, Any] = {
    "search": {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}},
    "now": None,
}


def python(call: CallSyntax = CALL, call_id: str = "") -> MakeBody:
    return lambda sink: PythonBody(OpenedCall(call=call, sink=sink, tools=TOOLS, id=call_id))


VALUES: list[tuple[str, Any]] = [
    ("'x'", "x"),
    ('"x"', "x"),
    ("''", ""),
    ('""', ""),
    ("'''a'b''c'''", "a'b''c"),
    ('"""line\n"quoted" ""two"""', 'line\n"quoted" ""two'),
    ("''''a'''", "'a"),
    ("r'a\\n\\'b'", "a\\n\\'b"),
    ('R"""\\d"""', "\\d"),
    ("u'é'", "é"),
    ("'a' 'b'\n\"c\"", "abc"),
    ("'a' r'\\b'", "a\\b"),
    ("('one '\n 'two')", "one two"),
    ("'' ''", ""),
    (r"'\n\t\r\b\f\a\v\\\'\"'", "\n\t\r\b\f\a\v\\'\""),
    (r"'\x41\u00e9\U0001F600\101\0'", "Aé😀A\0"),
    (r"'\1'", "\1"),
    (r"'\N{SNOWMAN}'", "☃"),
    (r"'\ud83d\ude00'", "😀"),
    (r"'C:\dir\_'", "C:\\dir\\_"),
    ("'a\\\nb\\\r\nc'", "abc"),
    ("'raw\nline\tbreak'", "raw\nline\tbreak"),
    ("'] ) } , <|tool_call_end|> [x](y) # no'", "] ) } , <|tool_call_end|> [x](y) # no"),
    ("0", 0),
    ("-7", -7),
    ("+7", 7),
    ("1_000", 1000),
    ("0x1F", 31),
    ("-0b101", -5),
    ("0o17", 15),
    ("00", 0),
    ("1.5", 1.5),
    (".5", 0.5),
    ("-5.", -5.0),
    ("1e5", 1e5),
    ("1_0.5E-1_0", 10.5e-10),
    ("01.5", 1.5),
    ("1" * 400, int("1" * 400)),
    ("True", True),
    ("False", False),
    ("None", None),
    ("true", True),
    ("false", False),
    ("null", None),
    ("[]", []),
    ("[1, 'a', [2],]", [1, "a", [2]]),
    ("()", []),
    ("(1,)", [1]),
    ("(1, 2)", [1, 2]),
    ("(1)", 1),
    ("((1), (2, (3)))", [1, [2, 3]]),
    ("(('a'))", "a"),
    ("([1, (2,)],)", [[1, [2]]]),
    ("{}", {}),
    ("{'a': 1, \"b\": {'c': (1, 2)},}", {"a": 1, "b": {"c": [1, 2]}}),
    ("{'a' 'b': 1, r'\\n': 2}", {"ab": 1, "\\n": 2}),
    ("{1: 'a', -2: 'b'}", {"1": "a", "-2": "b"}),
    ("[1, # one\n 2]", [1, 2]),
    ("1 # the end", 1),
]


@pytest.mark.parametrize(("written", "meant"), VALUES)
def test_a_literal_is_read_as_python_reads_it(written: str, meant: Any) -> None:
    reading = read_alike(python(), f"[f(a={written}\n)]rest")
    assert (reading.state, reading.rest) == ("done", "rest")
    assert reading.calls == [("f", {"a": meant})]


BROKEN = [
    "x",
    "f'x'",
    "b'x'",
    "rb'x'",
    "g()",
    "'a' + 'b'",
    "'a' f'b'",
    "1 + 2",
    "1j",
    "0123",
    "1__0",
    "1e999",
    "nan",
    "--1",
    ".",
    "{1, 2}",
    "{a: 1}",
    "{'a'}",
    "{'a': 1, 'a': 2}",
    "{True: 1}",
    "{**x}",
    "[*x]",
    "[1 2]",
    "[,]",
    "[1)",
    "(1]",
    "'it's fine'",
    r"'\x4'",
    r"'\u12'",
    r"'\U00110000'",
    r"'\ud83d'",
    r"'\ud83d\u0041'",
    r"'\ude00'",
    r"'\N{NO SUCH NAME}'",
    r"'\N'",
    "lambda: 1",
    "x for x in y",
    "1 if x else 2",
    "not True",
    "",
    "=1",
    "9" * 1001,
    "[" * 201 + "]" * 201,
    "(" * 201 + ")" * 201,
]


@pytest.mark.parametrize("written", BROKEN)
def test_what_is_no_literal_cuts_the_call(written: str) -> None:
    reading = read_alike(python(), f"[f(ok=1, a={written}), g()]")
    assert reading.state == "done"
    [(name, why)] = reading.calls
    assert name == "f"
    assert isinstance(why, str)
    assert why.startswith("f: ")


LISTS: list[tuple[str, list[tuple[str, Any]], str]] = [
    ("[f()]", [("f", {})], ""),
    ("[ f ( ) ]", [("f", {})], ""),
    ("[f(a=1), g(b=2)] tail", [("f", {"a": 1}), ("g", {"b": 2})], " tail"),
    ("[f(),]", [("f", {})], ""),
    ("[f()\n g()]", [("f", {}), ("g", {})], ""),
    ("f(a=1)\ng(b=2)\n</function_calls>", [("f", {"a": 1}), ("g", {"b": 2})], "</function_calls>"),
    ("f(), g()", [("f", {}), ("g", {})], ""),
    ("f(a=1)\nand then some", [("f", {"a": 1})], "and then some"),
    ("f(), so", [("f", {})], ", so"),
    ("[f(a=1)", [("f", {"a": 1})], ""),
    ("[f(a=1),", [("f", {"a": 1})], ","),
    ("[f(a=1)<|tool_call_end|>", [("f", {"a": 1})], "<|tool_call_end|>"),
    ("[f(a=1), 3]", [("f", {"a": 1})], ", 3]"),
    (
        "[Calendar.create_event(x=1), get-weather.v2()]",
        [("Calendar.create_event", {"x": 1}), ("get-weather.v2", {})],
        "",
    ),
    ("[f(a = 1 ,b= 2,)]", [("f", {"a": 1, "b": 2})], ""),
    ("[f(user-id=1, $top=2)]", [("f", {"user-id": 1, "$top": 2})], ""),
    ("[f(a=1, **{'b c': 2, '': [3]}, d=4)]", [("f", {"a": 1, "b c": 2, "": [3], "d": 4})], ""),
    ("[f(**{})]", [("f", {})], ""),
    ("[search('x', 3)]", [("search", {"query": "x", "limit": 3})], ""),
    ("[search('x', limit=3)]", [("search", {"query": "x", "limit": 3})], ""),
    ("[search(None)]", [("search", {"query": None})], ""),
    ("[f(class=1, None=2)]", [("f", {"class": 1, "None": 2})], ""),
    ("[दिखाओ(की=1)]", [("दिखाओ", {"की": 1})], ""),
    ("[f(# nothing\n)]", [("f", {})], ""),
]


@pytest.mark.parametrize(("text", "calls", "rest"), LISTS)
def test_calls_are_read_from_a_list_or_from_lines(text: str, calls: list[tuple[str, Any]], rest: str) -> None:
    reading = read_alike(python(), text)
    assert (reading.state, reading.calls, reading.rest) == ("done", calls, rest)


CUT = {
    "[f(": "ends",
    "[f(a": "ends",
    "[f(a=": "ends",
    "[f(a=1": "ends",
    "[f(a='x": "ends",
    "[f(a='x'": "ends",
    "[f(a='x\\": "ends",
    "[f(a=1,": "ends",
    "[f(a=('x'": "ends",
    "[f(*": "ends",
    "[f(*a)]": "not a literal",
    "[f(**a)]": "not a literal",
    "[f(1)]": "positional argument 1",
    "[search('x', 1, 2)]": "positional argument 3",
    "[search(limit=1, 'x')]": "positional argument follows",
    "[search('x', query='y')]": "twice",
    "[f(a=1, a=2)]": "twice",
    "[f(a=1, **{'a': 2})]": "twice",
    "[f(a=1 b=2)]": "comma",
    "[f(a==1)]": "not a literal",
    "[f(a: 1)]": "positional",
}


@pytest.mark.parametrize("text", CUT)
def test_a_broken_call_is_cut_and_says_why(text: str) -> None:
    reading = read_alike(python(), text)
    assert reading.state == "done"
    assert CUT[text] in reading.calls[-1][1]


@pytest.mark.parametrize(
    ("closers", "followers", "weak", "rest"),
    [
        (("<end>", "<stop>"), ("<begin>",), False, "<stop>, g()]<end>"),
        ((), ("<begin>",), False, "<begin>[g()])<stop>, g()]<end>"),
        ((), ("<begin>",), True, "s <begin>[g()])<stop>, g()]<end>"),
        ((), (), False, "s <begin>[g()])<stop>, g()]<end>"),
        (("<never>",), (), False, ""),
    ],
)
def test_what_is_left_of_a_broken_call_is_passed_over(
    closers: tuple[str, ...], followers: tuple[str, ...], weak: bool, rest: str
) -> None:
    call = CallSyntax(header=Header(openers=("<begin>",)), body="python", closers=closers, weak=weak)

    def make(sink: EventSink) -> PythonBody:
        return PythonBody(OpenedCall(call=call, sink=sink, tools=TOOLS, followers=followers))

    reading = read_alike(make, "[now(a='it's <begin>[g()])<stop>, g()]<end>")
    assert (len(reading.calls), reading.state, reading.rest) == (1, "done", rest)


REFUSED = [
    "[text](url)",
    "[1, 2]",
    "[]",
    "[",
    "",
    "x",
    "[x",
    '[{"name": "f"}]',
    '["f"]',
    "{}",
    "[f x()]",
    "f" * 400 + "()",
]
PROSE = ["[f(a=1)]", "[search]", "[search the web](url)", "[search(the web)]", "search (see below)", "[now", "now("]


@pytest.mark.parametrize(
    ("text", "call"), [(text, CALL) for text in REFUSED] + [(text, WEAK) for text in REFUSED + PROSE]
)
def test_what_is_no_call_is_refused(text: str, call: CallSyntax) -> None:
    reading = read_alike(python(call), text)
    assert (reading.state, reading.events) == ("refused", ())


@pytest.mark.parametrize(
    ("text", "calls", "rest"),
    [
        ("[search(query='x')]", [("search", {"query": "x"})], ""),
        ("[now()]", [("now", {})], ""),
        ("[search(r'x', -1), other()]", [("search", {"query": "x", "limit": -1}), ("other", {})], ""),
        ("now()\nother()", [("now", {})], "other()"),
        ("now()\nsearch(for it)", [("now", {})], "search(for it)"),
    ],
)
def test_a_weak_opener_counts_with_a_declared_tool(text: str, calls: list[tuple[str, Any]], rest: str) -> None:
    reading = read_alike(python(WEAK), text)
    assert (reading.state, reading.calls, reading.rest) == ("done", calls, rest)


def test_arguments_go_out_while_they_are_written() -> None:
    sink = EventSink()
    body = PythonBody(OpenedCall(call=CALL, sink=sink, tools=TOOLS, id="c1"))
    for chunk in ("[f(", "a='long ", 'and "longer"', "', b=[1, ", "2]", ", c=('p' 'q'), d=", "3)", "]"):
        assert body.read(chunk, 0) == len(chunk) or chunk == "3)"
    assert sink.events == [
        ("id", 0, "c1"),
        ("start", 0, "f"),
        ("args", 0, "{"),
        ("args", 0, '"a": "long '),
        ("args", 0, 'and \\"longer\\"'),
        ("args", 0, '", "b": [1'),
        ("args", 0, ", 2]"),
        ("args", 0, ', "c": "pq", "d": '),
        ("args", 0, "3}"),
        ("end", 0),
    ]
    assert body.state == "done"


def test_the_separators_are_those_of_json() -> None:
    reading = read(python(), "[f(a='x', b=[1, 2], c={'k': True})]")
    assert reading.events[1] == ("args", 0, '{"a": "x", "b": [1, 2], "c": {"k": true}}')


def test_depth_is_limited_without_recursion() -> None:
    deep = "[" * 200 + "]" * 200
    assert read(python(), f"[f(a={deep})]").calls == [("f", {"a": json.loads(deep)})]
    assert "200" in read(python(), f"[f(a={'{1:' * 100_000})]").calls[0][1]


@given(st.dictionaries(words, json_values, max_size=4), sizes)
def test_arguments_rendered_by_repr_come_back(arguments: dict[str, Any], lengths: list[int]) -> None:
    names = {key for key in arguments if key.isidentifier()}
    plain = [f"{key}={arguments[key]!r}" for key in names]
    text = ", ".join([*plain, f"**{ ({key: value for key, value in arguments.items() if key not in names})!r}"])
    reading = read_alike(python(), f"[f({text})]rest", lengths)
    assert (reading.calls, reading.rest) == ([("f", arguments)], "rest")


@given(json_values, sizes)
def test_arguments_rendered_as_json_come_back(value: Any, lengths: list[int]) -> None:
    reading = read_alike(python(), f"[f(a={json.dumps(value, ensure_ascii=False)})]", lengths)
    # Python knows no \/ and JSON no other escape that means something else there.
    assert reading.calls == [("f", {"a": value})]


PIECES = [
    *"ab'\"\\[](){},:#.-+ 01e_ruf",
    *("'''", '"""', "\\n", "\\x41", "'a'", "'a':", '"b"', "True", "None", "1, ", "# x\n"),
]


def as_python(text: str) -> Any:
    """The arguments of the one call in a list as Python reads them; None if they are no literals or no JSON."""
    try:
        tree = ast.parse(text, mode="eval").body
        if not isinstance(tree, ast.List) or len(tree.elts) != 1 or not isinstance(tree.elts[0], ast.Call):
            return None
        pairs = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in tree.elts[0].keywords}
        return None if tree.elts[0].args else json.loads(json.dumps(pairs, allow_nan=False))
    except (SyntaxError, ValueError, TypeError, MemoryError):
        return None


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), sizes)
def test_what_is_whole_here_is_whole_and_equal_in_python(value: str, lengths: list[int]) -> None:
    text = f"[f(a={value}\n)]"
    reading = read_alike(python(), text, lengths)
    arguments = reading.calls[0][1]
    if isinstance(arguments, dict) and len(reading.calls) == 1 and not reading.rest:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of escapes that stand for themselves
            meant = as_python(text)
        assert arguments == meant or (meant is None and "\n" in value)  # a line break may stand in any string


@pytest.mark.parametrize(
    ("quote", "unit"), [("'", "plain text, "), ("'", "\\n\\'\\\\"), ('"""', "plain text, "), ('"""', "(', \"[]\\n")]
)
def test_a_long_string_takes_linear_time(quote: str, unit: str) -> None:
    body = unit * (1_000_000 // len(unit))
    started = process_time()
    read(python(), f"[f(a={quote}{body}{quote})]", (20,))
    assert process_time() - started < 5  # a second on an idle machine; a quadratic reader takes minutes


def test_many_small_values_take_linear_time() -> None:
    text = f"[f(a=[{', '.join(['(1)', chr(39) * 2, '{1: 2}'] * 10_000)}])]"
    started = process_time()
    read(python(), text)
    read(python(), text, (20,))
    assert process_time() - started < 10
