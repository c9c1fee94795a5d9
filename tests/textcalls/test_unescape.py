"""What was escaped in a request is put back into its answer, and nothing else is touched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.textcalls.conversations import TOOLS
from toolglot.textcalls import FORMATS, find_format
from toolglot.textcalls.prompts.escaping import sure_marks
from toolglot.textcalls.prompts.render import PROMPTS, escape_marks, find_prompt
from toolglot.textcalls.unescape import DOT, MAX_LENGTH, MAX_MARKS, Escapes, Unescaper

MARKS = {name: sure_marks(find_prompt(name)) for name in PROMPTS}


def undone(escapes: Escapes, text: str, size: int, *, is_json: bool = False) -> str:
    undoing = Unescaper(escapes, is_json=is_json)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join([undoing.feed(piece) for piece in pieces]) + undoing.finish()


def escapes_of(format_name: str, text: str) -> tuple[Escapes, str]:
    escapes = Escapes()
    return escapes, escape_marks(format_name, text, TOOLS, escapes)


@st.composite
def texts(draw: st.DrawFn, format_name: str) -> str:
    names = [f'"{tool.name}"' for tool in TOOLS]
    pieces = st.one_of(
        st.sampled_from([*MARKS[format_name], *names, DOT, "<", "\n", "[", "get_time", " get_time\n", '"', "\\", " "]),
        st.text(max_size=4),
    )
    return "".join(draw(st.lists(pieces, max_size=12)))


@pytest.mark.parametrize("format_name", PROMPTS)
@given(data=st.data())
def test_a_copy_of_an_escaped_text_is_the_text(format_name: str, data: st.DataObject) -> None:
    text = data.draw(texts(format_name))
    escapes, safe = escapes_of(format_name, text)
    assert undone(escapes, safe, data.draw(st.integers(1, 9))) == text


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("format_name", ["hermes_json", "cline_xml", "llama3_json", "react", "minimax_m3", "gemma4"])
@given(data=st.data())
def test_a_copy_in_a_json_string_is_the_text_too(format_name: str, ascii_only: bool, data: st.DataObject) -> None:
    text = data.draw(texts(format_name).filter(lambda text: text.isprintable() or text.isascii()))
    escapes, safe = escapes_of(format_name, text)
    written = json.dumps({"a": safe, "b": [safe, 1]}, ensure_ascii=ascii_only)
    read = undone(escapes, written, data.draw(st.integers(1, 9)), is_json=True)
    assert json.loads(read) == {"a": text, "b": [text, 1]}


@given(text=st.text(alphabet=["<", DOT, "t", "o", "\\", "u", "0", "b", "7", '"'], max_size=20), size=st.integers(1, 5))
def test_what_was_not_escaped_is_left_alone(text: str, size: int) -> None:
    escapes, _ = escapes_of("hermes_json", "<tool_call>")
    assert undone(escapes, text, size) == text
    written = json.dumps(text)
    assert json.loads(undone(escapes, written, size, is_json=True)) == text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<·tool_call>", "<tool_call>"),
        ("<··tool_call>", "<·tool_call>"),
        ("<·tool_call", "<·tool_call"),
        ("<·tool_response>", "<·tool_response>"),
        ("a·b", "a·b"),
        ("x < ·tool_call>", "x < ·tool_call>"),
        ("<<·tool_call><·tool_call>", "<<tool_call><tool_call>"),
    ],
)
def test_only_the_marks_of_the_request_are_put_back(written: str, read: str) -> None:
    escapes, _ = escapes_of("hermes_json", "Write <tool_call> twice.")
    for size in (1, 2, 100):
        assert undone(escapes, written, size) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'"\u003c\u00b7tool_call\u003E"', r'"\u003ctool_call\u003E"'),
        (r'"<\u00B7tool_call>"', '"<tool_call>"'),
        (r'"<\\u00b7tool_call>"', r'"<\\u00b7tool_call>"'),
        (r'"\\<·tool_call>"', r'"\\<tool_call>"'),
        (r'"<·tool_ca\u006cl>"', r'"<tool_ca\u006cl>"'),
        (r'"<·tool_call\\"', r'"<·tool_call\\"'),
    ],
)
def test_escapes_of_json_are_read(written: str, read: str) -> None:
    escapes, _ = escapes_of("hermes_json", "<tool_call>")
    for size in (1, 2, 3, 100):
        assert undone(escapes, written, size, is_json=True) == read


def test_text_is_held_back_only_behind_a_dot_that_may_be_ours() -> None:
    escapes, _ = escapes_of("hermes_json", "<tool_call>")
    undoing = Unescaper(escapes)
    assert undoing.feed("a <") == "a <"
    assert undoing.feed("·tool") == ""
    assert undoing.feed("s>·") == "·tools>·"
    assert undoing.feed("b <·tool_call>") == "b <tool_call>"
    assert undoing.finish() == ""


def test_a_run_of_dots_without_end_is_not_held_back() -> None:
    escapes, _ = escapes_of("hermes_json", "<tool_call>")
    undoing = Unescaper(escapes)
    passed = [undoing.feed(piece) for piece in ("<", *DOT * (MAX_LENGTH + 2), "tool_call>")]
    assert passed[MAX_LENGTH] == ""
    assert passed[MAX_LENGTH + 2] == DOT
    assert "".join(passed) == f"<{DOT * (MAX_LENGTH + 2)}tool_call>"


def test_what_is_remembered_is_bounded() -> None:
    escapes = Escapes()
    assert not escapes
    escapes.add('"', " " * (MAX_LENGTH + 1))
    assert not escapes
    for number in range(MAX_MARKS * 2):
        escapes.add("<", f"{number}>")
    assert len(escapes.rests("<")) == MAX_MARKS


def test_every_format_that_can_be_written_is_tried() -> None:
    assert set(PROMPTS) <= set(FORMATS)
    assert all(find_format(name).name == name for name in PROMPTS)
