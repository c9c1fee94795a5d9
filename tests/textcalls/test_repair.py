"""Broken JSON is repaired exactly, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.textcalls.repair import RepairError, repair_arguments, repair_document, repair_with_report

REPAIRED: dict[str, tuple[str, Any]] = {
    "single quotes": ("{'town': 'Bern', 'days': 3}", {"town": "Bern", "days": 3}),
    "an apostrophe inside single quotes": ("{'note': 'the dog's bowl', 'n': 1}", {"note": "the dog's bowl", "n": 1}),
    "a Python repr": ("{'a': \"it's\", 'b': [True], 'c': 'x\\xa0y'}", {"a": "it's", "b": [True], "c": "x\xa0y"}),
    "a Python repr with escaped quotes": (r"""{'q': 'name = \'Jo "X"\''}""", {"q": "name = 'Jo \"X\"'"}),
    "Python's literals": ('{"on": True, "off": False, "none": None}', {"on": True, "off": False, "none": None}),
    "a trailing comma": ('{"town": "Bern", "tags": ["a", "b",],}', {"town": "Bern", "tags": ["a", "b"]}),
    "a doubled comma": ('{"town": "Bern",, "days": 3}', {"town": "Bern", "days": 3}),
    "a doubled comma in an array": ('{"tags": ["a",, "b"]}', {"tags": ["a", "b"]}),
    "a missing comma": ('{"town": "Bern" "days": 3 "on": true}', {"town": "Bern", "days": 3, "on": True}),
    "a missing comma between lines": ('{"a": [1]\n "b": {}\n "c": 2}', {"a": [1], "b": {}, "c": 2}),
    "a missing comma in an array": ('{"t": ["a" "b"], "o": [{"x": 1} [2]]}', {"t": ["a", "b"], "o": [{"x": 1}, [2]]}),
    "a line comment": ('{"town": "Bern", // where\n "days": 3} ', {"town": "Bern", "days": 3}),
    "a block comment": ('{/* first */ "town": /* in */ "Bern" /* end */}', {"town": "Bern"}),
    "a hash comment": ('{"town": "Bern", # where\n "days": 3}', {"town": "Bern", "days": 3}),
    "comment marks in strings": ('{"url": "https://x.y/z", "c": "/* # */",}', {"url": "https://x.y/z", "c": "/* # */"}),
    "unquoted keys": ('{town: "B", $n: 3, "x-y": 1, a_b: {c: []}}', {"town": "B", "$n": 3, "x-y": 1, "a_b": {"c": []}}),
    "a raw line break": ('{"text": "one\ntwo\n", "n": 1}', {"text": "one\ntwo\n", "n": 1}),
    "a raw tab and a raw carriage return": ('{"text": "one\ttwo\r\n"}', {"text": "one\ttwo\r\n"}),
    "inner quotes": ('{"text": "she said "go" and went", "n": 1}', {"text": 'she said "go" and went', "n": 1}),
    "inner quotes at both ends": ('{"text": ""go"", "n": 1}', {"text": '"go"', "n": 1}),
    "inner quotes of an attribute": ('{"html": "<a href="x" id="y">t</a>"}', {"html": '<a href="x" id="y">t</a>'}),
    "inner quotes with commas": ('{"sql": "SELECT "a", "b" FROM t"}', {"sql": 'SELECT "a", "b" FROM t'}),
    "JSON inside a string": ('{"body": "{"k": "v", "l": [1]}", "n": 1}', {"body": '{"k": "v", "l": [1]}', "n": 1}),
    "an array inside a string": ('{"body": "["a", "b"]"}', {"body": '["a", "b"]'}),
    "an inch": ('{"size": "a 5" pipe"}', {"size": 'a 5" pipe'}),
    "an escaped underscore": (r'{"path": "my\_file\_name"}', {"path": "my_file_name"}),
    "an escaped apostrophe": (r'{"text": "it\'s"}', {"text": "it's"}),
    "a regular expression": (r'{"re": "^\d+\.\w*\b$"}', {"re": "^\\d+\\.\\w*\\b$"}),
    "a Windows path": (r'{"path": "D:\Users\new\file.txt"}', {"path": "D:\\Users\\new\\file.txt"}),
    "a Windows path in a sentence": (r'{"run": "dir D:\Users\new now\nthen"}', {"run": "dir D:\\Users\\new now\nthen"}),
    "a backslash among escapes": (r'{"cmd": "f(\"a\")\n\$x \\ y"}', {"cmd": 'f("a")\n\\$x \\ y'}),
    "an unfinished \\u": (r'{"path": "x\users"}', {"path": "x\\users"}),
    "curly quotes": ("{\u201ctown\u201d: \u201cBern's\u201d, \u201cn\u201d: 1}", {"town": "Bern's", "n": 1}),
    "curly quotes with straight ones inside": ("{\u201ctext\u201d: \u201ca \"b\" c\u201d}", {"text": 'a "b" c'}),
    "a missing bracket": ('{"town": "Bern", "n": 3', {"town": "Bern", "n": 3}),
    "two missing brackets": ('{"a": {"b": [1, 2]', {"a": {"b": [1, 2]}}),
    "two missing brackets of an empty object": ('{"a": {', {"a": {}}),
    "a missing bracket inside": ('{"a": {"b": [1, 2}, "c": 3}', {"a": {"b": [1, 2]}, "c": 3}),
    "a bracket too many": ('{"a": {"b": 1}}}', {"a": {"b": 1}}),
    "a missing end quote": ('{"town": "Bern}', {"town": "Bern"}),
    "a missing end quote after brackets": ('{"code": "f() { return 1; }}', {"code": "f() { return 1; }"}),
    "a missing end quote after quotes": (r'{"n": [1], "text": "say \"go\"}', {"n": [1], "text": 'say "go"'}),
    "a missing end quote in depth": ('{"a": {"b": "c }}', {"a": {"b": "c "}}),
    "a missing end quote of an indented object": ('{\n  "a": "b\n}', {"a": "b"}),
    "a fence": ('```json\n{"town": "Bern"}\n```', {"town": "Bern"}),
    "a fence without a language": ('```\n{"town": "Bern",}\n```', {"town": "Bern"}),
    "a fence around a missing bracket": ('```json\n{"town": "Bern"\n```', {"town": "Bern"}),
    "prose and a trailing comma behind brackets": ('I use {"tags": ["a"],}\nOkay?', {"tags": ["a"]}),
    "prose": ('I call it with {"town": "Bern"}\nOkay?', {"town": "Bern"}),
    "prose with a placeholder": ('For {town} I use: {"town": "Bern"}', {"town": "Bern"}),
    "a call around": ('look_up({"town": "Bern"})', {"town": "Bern"}),
    "JSON in a string": (r'"{\"town\": \"Bern\\n\"}"', {"town": "Bern\n"}),
    "JSON in a string in a string": (json.dumps(json.dumps('{"town": "Bern"}')), {"town": "Bern"}),
    "escapes without the outer quotes": (r'{\"town\": \"say \\\"hi\\\"\"}', {"town": 'say "hi"'}),
    "outer quotes without the escapes": ('"{"town": "Bern"}"', {"town": "Bern"}),
    "a stray end tag": ('{"town": "Bern"}</tool_call>', {"town": "Bern"}),
    "a stray end token": ('{"town": "Bern"} <|tool_call_end|>', {"town": "Bern"}),
    "a bracket too many and an end tag": ('{"town": "Bern"}}\n</tool_call>', {"town": "Bern"}),
    "a missing bracket and an end tag": ('{"town": "Bern"</tool_call>', {"town": "Bern"}),
    "an end tag in the last string": ('{"tag": "</tool_call>"', {"tag": "</tool_call>"}),
    "a number with a plus": ('{"n": +5}', {"n": 5}),
    "triple quotes": ('{"code": """a = "b"\nc""", "n": 1}', {"code": 'a = "b"\nc', "n": 1}),
    "a byte order mark": ('\ufeff{"town": "Bern"}', {"town": "Bern"}),
    "surrogate pairs": (r"{'face': '\ud83d\ude00'}", {"face": "😀"}),
    "a large integer": ('{"n": 123456789012345678901234567890,}', {"n": 123456789012345678901234567890}),
}  # fmt: skip

REFUSED: dict[str, str] = {
    "nothing": "",
    "white space": " \n",
    "a word": "hello",
    "null": "null",
    "a number": "42",
    "an array": '[{"town": "Bern"}]',
    "a string": '"town"',
    "an opening bracket alone": "{",
    "a cut string": '{"text": "and then we',
    "a cut key": '{"text": "a", "oth',
    "a cut member": '{"text": "a", "other"',
    "a bracket too many behind a missing quote": '{"text": "a}}',
    "a color without quotes": '{"color": #fff}',
    "a cut literal": '{"on": tru',
    "a missing value": '{"on": ',
    "a comma at the end of the text": '{"on": true,',
    "too many missing brackets": '{"a": {"b": {"c": {"d": 1',
    "NaN": '{"n": NaN}',
    "infinity in a Python repr": "{'n': inf}",
    "a number beyond floats": '{"n": 1e999}',
    "a number without its digits": '{"n": 5.}',
    "zeros in front": '{"n": 007}',
    "a bare word": '{"town": Bern}',
    "a missing quote in the middle": '{"town": "Bern, "days": "3"}',
    "a missing quote of a key": '{"town": "Bern", "day: "3"}',
    "a missing colon": '{"town": "Bern", "day" "3"}',
    "a missing opening bracket": '"town": {"name": "Bern"}}',
    "two objects": '{"town": "Bern"} {"town": "Basel"}',
    "a bracket too many inside": '{"a": {"b": 1}}, "c": 2}',
    "an array that nobody opened": '{"tags": "a", "b"]}',
    "an element that is missing": '{"n": [1, , 3]}',
    "a comma in front": '{"a": {, "b": 1}',
    "a comment that hides a member": '{"a": 1, // note "b": 2}',
    "an end quote that may be escaped": r'{"dir": "D:\Users\"}',
    "an odd quote in an array": '{"tags": ["a "b", "c"]}',
    "quotes that are escaped in part": r'{\"town\": "Bern"}',
    "a repeated key behind a missing bracket": '{"a": {"b": 1, "c": 2, "b": 3}',
    "a hexadecimal escape that JSON has not": r'{"text": "\x41"}',
    "a path that may hold line breaks": r'{"re": "\d", "text": "see D:\new\table there"}',
}  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), REPAIRED.values(), ids=REPAIRED)
def test_what_has_one_meaning_is_repaired(text: str, meant: Any) -> None:
    value, how = repair_with_report(text)
    assert value == meant
    assert json.dumps(value) == json.dumps(meant)
    try:
        strict = json.loads(text) == meant
    except ValueError:
        strict = False
    assert bool(how) != strict


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_may_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(RepairError):
        repair_arguments(text)


def test_whole_json_is_returned_without_a_word() -> None:
    assert repair_with_report('{"a": [1, 2.5, null], "b": "x\\ny "}') == ({"a": [1, 2.5, None], "b": "x\ny "}, "")


def test_what_was_repaired_is_named() -> None:
    _, how = repair_with_report("{'a': True,}")
    assert how == "single quotes, Python's literals, extra commas"


def test_documents_may_be_arrays() -> None:
    assert repair_document("[{'name': 'f', 'arguments': {}},]") == [{"name": "f", "arguments": {}}]
    assert repair_document('{"name": "f"') == {"name": "f"}
    with pytest.raises(RepairError):
        repair_document("just text")


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}, "opts": {"$ref": "#/$defs/o"}},
    "required": ["text"],
    "$defs": {"o": {"type": "object", "properties": {"deep": {"type": "boolean"}}}},
}


def test_known_keys_tell_where_a_string_ends() -> None:
    text = '{"text": "say "name": and "kind": too", "count": 1}'
    assert repair_arguments(text, SCHEMA) == {"text": 'say "name": and "kind": too', "count": 1}
    with pytest.raises(RepairError):
        repair_arguments(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"count": 1',
        '{"text": "a", "count": "1"',
        '{"text": "a", "opts": {"deep": true, "count": 1}',
        '{"text": "a "b" c", "other": 1}',
    ],
)
def test_a_doubtful_repair_has_to_fit_the_schema(text: str) -> None:
    with pytest.raises(RepairError):
        repair_arguments(text, SCHEMA)


def test_a_plain_repair_leaves_it_to_others_to_judge_the_value() -> None:
    assert repair_arguments("{'count': '1'}", SCHEMA) == {"count": "1"}


HARD: dict[str, str] = {
    "nested objects": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "nested arrays, cut": '{"a":' + "[" * 10_000,
    "quotes": '{"a": "' + '"' * 100_000,
    "closed quotes": '{"a": "' + '"' * 100_000 + '"}',
    "backslashes": '{"a": "' + "\\" * 100_001 + '"}',
    "letters escaped": '{"a": "' + "\\d" * 50_000 + '"}',
    "comments": '{"a": "' + 'x"/*' * 25_000 + '"}',
    "keys": '{"a": "b "c' + '", "k' * 20_000 + '"}',
    "brackets behind quotes": '{"a": "b "c' + '"}' * 50_000,
    "brackets that do not fit": '{"a": ["x"' + ", }" * 30_000,
    "brackets and commas": '{"a": ' + "[" * 400 + '"x"' + "], " * 400 + "}",
    "backticks": "```\n" + "`" * 100_000 + "x",
    "opening brackets": "x " + "{" * 100_000,
    "end tags": '{"a": 1}' + "</x>" * 25_000,
    "commas": '{"a": 1' + "," * 100_000 + "}",
    "digits": '{"a": ' + "1" * 100_000 + ",}",
    "a megabyte": '{"a": "' + "line of text\n" * 80_000 + '",}',
}  # fmt: skip


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_hard_input_neither_recurses_nor_takes_long(text: str) -> None:
    try:
        repair_arguments(text)
    except RepairError as problem:
        assert len(str(problem)) < 200


# Laws: any object, damaged in a mechanical way, is repaired to itself (or refused, where that is allowed).

texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.text(
    "\"'\\{}[],:/*# \nnabu\u201c\u201d<>_-1", max_size=14
)
scalars = texts | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
keys = st.text("abcdefgh_", min_size=1, max_size=6) | texts.filter(str.isprintable)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(keys, values, min_size=1, max_size=4)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[a-z]+|.', re.DOTALL)


def _tokens(value: Any) -> list[str]:
    return _TOKENS.findall(_json(value))


def _python_literals(value: Any) -> str:
    names = {"true": "True", "false": "False", "null": "None"}
    return "".join(names.get(token, token) for token in _tokens(value))


def _every_comma(value: Any, comma: str) -> str:
    return "".join(comma if token == "," else token for token in _tokens(value))


_RAW = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}


def _raw_controls(value: Any) -> str:
    return re.sub(r"\\.", lambda match: _RAW.get(match.group(), match.group()), _json(value))


EXACT: dict[str, Callable[[Any], str]] = {
    "with Python's literals": _python_literals,
    "with a trailing comma": lambda value: _json(value)[:-1] + ",}",
    "with doubled commas": lambda value: _every_comma(value, ",,"),
    "with line comments": lambda value: _every_comma(value, ", // a note\n"),
    "with block comments": lambda value: "{ /* a note */" + _every_comma(value, " /* x */,")[1:],
    "with raw control characters": _raw_controls,
    "in a fence": lambda value: f"```json\n{json.dumps(value, indent=2)}\n```",
    "in prose": lambda value: f"Here it is: {_json(value)}\nDone.",
    "in a string": lambda value: _json(_json(value)),
    "escaped": lambda value: _json(_json(value))[1:-1],
    "with a bracket too many": lambda value: _json(value) + "}",
    "without its last bracket": lambda value: _json(value)[:-1],
    "before an end tag": lambda value: _json(value) + "</tool_call>",
}


@pytest.mark.parametrize("damage", EXACT.values(), ids=EXACT)
@given(value=objects)
def test_an_object_is_repaired_to_itself(damage: Callable[[Any], str], value: Any) -> None:
    assert json.dumps(repair_arguments(damage(value))) == json.dumps(value)


def _without_a_comma(value: Any) -> str:
    tokens = _tokens(value)
    if "," in tokens:
        tokens[tokens.index(",")] = ""
    return "".join(tokens)


EXACT_OR_REFUSED: dict[str, Callable[[Any], str]] = {
    "as a Python repr": repr,
    "without its first comma": _without_a_comma,
    "without the last quote": lambda value: re.sub(r'"\}$', "}", _json(value)),
    "without two brackets": lambda value: re.sub(r"[}\]]\}$", "", _json(value)),
}


@pytest.mark.parametrize("damage", EXACT_OR_REFUSED.values(), ids=EXACT_OR_REFUSED)
@given(value=objects)
def test_an_object_is_repaired_to_itself_or_refused(damage: Callable[[Any], str], value: Any) -> None:
    try:
        found = repair_arguments(damage(value))
    except RepairError:
        return
    assert json.dumps(found) == json.dumps(value)


words = st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=4).map(" ".join)
plain = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True), words | st.integers() | st.lists(words), min_size=1
)


@given(plain)
def test_plain_words_survive_other_quotes_and_bare_keys(value: Any) -> None:
    text = _json(value)
    assert repair_arguments(text.replace('"', "'")) == value
    assert repair_arguments(re.sub(r'"([^"]*)"', "\u201c\\1\u201d", text)) == value
    assert repair_arguments(re.sub(r'"(\w+)":', "\\1:", text)) == value


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=3))
def test_quoted_words_inside_strings_survive_unescaped(parts: list[tuple[str, str, str]]) -> None:
    value = {f"key{index}": f'{first} "{second}" {third}' for index, (first, second, third) in enumerate(parts)}
    assert repair_arguments(_json(value).replace('\\"', '"')) == value


@given(st.text(max_size=60) | st.text("{}[]\"',:\\ \nab1\u201c\u201d/*#<>", max_size=60))
def test_any_text_gives_an_object_or_an_error(text: str) -> None:
    try:
        value = repair_arguments(text)
    except RepairError:
        return
    assert isinstance(value, dict)
    assert json.loads(json.dumps(value, allow_nan=False)) == value
