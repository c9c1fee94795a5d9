"""The differences between two requests in different dialects, and how the page shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.recordings.frame_cells import Cell, document_cell
from toolglot.recordings.timeline import Timeline, TimelineRequest, TimelineRow
from toolglot.recordings.timeline_html import (
    MIN_FOLDED_LINES,
    MIN_FOLDED_ROWS,
    mark_lines,
    read_json_lines,
    render_html,
)


def marks(one: Any, other: Any) -> list[str]:
    lines, others = (read_json_lines(json.dumps(value, indent=2)) for value in (one, other))
    return [f"{mark} {line.text.strip().rstrip(',')}" for line, mark in mark_lines(lines, others) if mark]


@pytest.mark.parametrize(
    ("one", "other", "marked"),
    [
        ({"a": 5}, {"a": 5}, ['same "a": 5']),
        ({"a": 5}, {"b": 5}, ['only "a": 5']),
        ({"system": "Be brief."}, {"content": ["Be brief."]}, ['moved "system": "Be brief."']),
        ({"a": "ok"}, {"b": "ok"}, ['only "a": "ok"']),
        ({"a": "x", "b": {"a": "x"}}, {"a": "x"}, ['same "a": "x"', 'only "a": "x"']),
        ({"a": {}, "b": [], "c": None}, {}, ['only "c": null']),
        ({"a:b": 'say "x": y,'}, {"a:b": 'say "x": y,'}, ['same "a:b": "say \\"x\\": y,"']),
    ],
)
def test_values_are_found_wherever_they_are(one: Any, other: Any, marked: list[str]) -> None:
    assert marks(one, other) == marked


def test_the_same_text_may_be_escaped_in_two_ways() -> None:
    lines = read_json_lines('{\n  "a": "caf\\u00e9"\n}')
    assert [mark for _, mark in mark_lines(lines, read_json_lines('{\n  "a": "café"\n}'))] == ["", "same", ""]


def test_a_body_that_is_not_json_has_no_marks() -> None:
    lines = read_json_lines("hello: 5\nworld")
    assert [mark for _, mark in mark_lines(lines, lines)] == ["", ""]


def page(one: Any, other: Any) -> str:
    requests = [
        TimelineRequest(title=title, about="", body=document_cell(json.dumps(value).encode(), ""))
        for title, value in (("client request", one), ("upstream request", other))
    ]
    return "".join(render_html(Timeline(title="t", client="a", upstream="b", requests=requests)))


def test_a_page_marks_what_is_in_one_request_alone() -> None:
    shown = page({"top_k": 5, "system": "Be brief.", "n": 1}, {"n": 1, "content": "Be brief.", "stream": True})
    assert '<pre class="only"><i>-</i>  &quot;top_k&quot;: 5,</pre>' in shown
    assert '<pre class="moved"><i>~</i>  &quot;system&quot;: &quot;Be brief.&quot;,</pre>' in shown
    assert '<pre class="only"><i>+</i>  &quot;stream&quot;: true</pre>' in shown
    assert "<pre><i></i>  &quot;n&quot;: 1" in shown


def test_long_runs_without_a_difference_and_long_values_are_folded() -> None:
    same = {"a": [{"b": number} for number in range(100)]}
    assert page({**same, "x": 1}, same).count(" lines without a difference</summary>") == 2
    assert "without a difference" not in page({"a": list(range(MIN_FOLDED_LINES - 1))}, {})
    assert "… (5,000,009 characters)</summary>" in page({"a": "y" * 5_000_000}, {})


@pytest.mark.parametrize(("count", "is_folded"), [(MIN_FOLDED_ROWS - 1, False), (MIN_FOLDED_ROWS, True), (500, True)])
def test_rows_that_only_add_content_are_folded(count: int, is_folded: bool) -> None:
    def row(number: int, kind: str) -> TimelineRow:
        text = f"w{number} " if kind else ""
        return TimelineRow(at=number / 10, number=number, events=[Cell("0 + …", "0 + …", kind, text=text)])

    rows = [row(1, ""), *(row(2 + number, "delta") for number in range(count)), row(count + 2, "")]
    shown = "".join(render_html(Timeline(title="t", client="a", upstream="b", entries=[*rows])))
    assert ('<details class="fold">' in shown) is is_folded
    assert (f"<b>{count} frames that add content</b> <br>w2 w3 w4" in shown) is is_folded
    assert shown.count('<div class="row">') == count + 2
