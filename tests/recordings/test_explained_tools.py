"""Calls and results of tools in a recorded exchange, as `explain` shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.export.test_html import EXPLAINED, Page
from tests.recordings.made import as_recording, exchange
from toolglot.columns import width_of
from toolglot.recordings.frame_cells import Cell, frame_cell
from toolglot.recordings.timeline import Timeline, make_timeline
from toolglot.recordings.timeline_html import render_html
from toolglot.recordings.timeline_text import TextStyle, fit_cell, render_lines
from toolglot.translate import ExchangeCore

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def shown(timeline: Timeline, width: int, full: bool = False) -> list[str]:
    return list(render_lines(timeline, TextStyle(width=width, full=full)))


def chunk(delta: dict[str, Any], **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    document = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(document).encode()


def called(name: str = "get_weather") -> list[bytes]:
    def call(**function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": function}]}

    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Let me look."}),
        chunk(call(name=name, arguments="")),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Paris"}'}}]}),
        chunk({}, finish_reason="tool_calls"),
        b"data: [DONE]\n\n",
    ]


def asking(name: str = "get_weather", results: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    uses = [{"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": {"city": "Oslo"}} for n in (1, 2, 3)]
    given = results or [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Cloudy, 12 degrees. " * 400},
        {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": "no such city\nTraceback"},
        {
            "type": "tool_result",
            "tool_use_id": "toolu_3",
            "content": [
                {"type": "text", "text": "a map"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            ],
        },
    ]
    earlier = {"type": "tool_use", "id": "toolu_0", "name": "old_tool", "input": {}}
    answered = {"type": "tool_result", "tool_use_id": "toolu_0", "content": "of an earlier turn"}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Umbrella?"},
        {"role": "assistant", "content": [earlier]},
        {"role": "user", "content": [answered]},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": [*given, {"type": "text", "text": "Go on."}]},
    ]
    return {"model": "m", "max_tokens": 9, "stream": True, "messages": messages}


def explained(client: str = "anthropic", **fields: Any) -> Timeline:
    """An exchange in which results are told, and another call comes of them."""
    body: dict[str, Any] | bytes = asking(**fields)
    if client != "anthropic":
        body = ExchangeCore("anthropic", client).request(json.dumps(body).encode(), model="m", stream=True)
    return make_timeline(as_recording(exchange(client, "openai_chat", body, called(fields.get("name", "get_weather")))))


def test_the_results_in_a_request_are_told() -> None:
    lines = shown(explained(), 100)
    assert any(line.startswith('  result of get_weather: 8000 characters, "Cloudy, 12 degrees. Cl') for line in lines)
    assert r'  error of get_weather: "no such city\nTraceback"' in lines
    assert '  result of get_weather: "a map", image (image/png, 70 bytes)' in lines
    assert "  1 result of earlier turns" in lines
    assert not any("of an earlier turn" in line and line.startswith("  result") for line in lines)


@pytest.mark.parametrize("client", ["openai_chat", "openai_responses", "gemini"])
def test_they_are_told_whatever_the_client_speaks(client: str) -> None:
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"Number {n}"} for n in (1, 2, 3)]
    lines = shown(explained(client, results=results), 100)
    assert [line for line in lines if line.startswith("  result of")] == [
        f'  result of get_weather: "Number {n}"' for n in (1, 2, 3)
    ]


def test_many_results_are_counted() -> None:
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{n % 3 + 1}", "content": f"No. {n}"} for n in range(90)]
    lines = shown(explained(results=results), 100)
    assert sum(line.startswith("  result of get_weather") for line in lines) == 20
    assert "  … and 70 more results" in lines


@pytest.mark.parametrize("width", [80, 100, 120])
def test_what_a_frame_says_is_seen_at_any_width(width: int) -> None:
    lines = shown(explained(), width)
    table = [line.split(" │ ") for line in lines if " │ " in line]
    assert max(map(width_of, lines)) <= width
    client = "\n".join(columns[-1] for columns in table)
    upstream = "\n".join(columns[0] for columns in table)
    assert '"Let me' in client
    assert "tool_use" in client
    assert "city" in client
    assert "get_w" in upstream
    assert "city" in upstream


@pytest.mark.parametrize(
    ("cell", "width", "expected"),
    [
        (Cell('content_block_delta[0] "Hi"', label="content_block_delta[0]"), 40, 'content_block_delta[0] "Hi"'),
        (Cell('content_block_delta[0] "Hi"', label="content_block_delta[0]"), 22, '…delta[0] "Hi"'),
        (Cell('content_block_delta[0] "Hi there"', label="content_block_delta[0]"), 16, '…delta[0] "Hi t…'),
        (Cell('function_call_arguments.delta[1] "{"', label="function_call_arguments.delta[1]"), 22, '…delta[1] "{"'),
        (Cell('ping "a long thing"', label="ping"), 8, 'ping "a…'),
        (Cell("no label at all"), 8, "no labe…"),
    ],
)
def test_a_long_label_gives_way_to_what_is_said(cell: Cell, width: int, expected: str) -> None:
    assert fit_cell(cell, width) == expected


def test_the_label_is_what_a_frame_begins_with() -> None:
    cell = frame_cell(b'data: {"type":"content_block_delta","index":0,"delta":{"text":"a"}}\n\n', "anthropic")
    assert cell.short.startswith(cell.label)
    assert cell.label == "content_block_delta[0]"


def test_the_title_is_told_whole() -> None:
    lines = shown(explained(), 40)
    assert not any("…" in line for line in lines[:2])
    assert "2026-01-02T03:04:05Z" in " ".join(lines[:3])


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'x" onload="alert(1)', "&lt;b&gt;", "\u202egnp\x1b[2J"])
def test_names_of_tools_and_results_cannot_act_on_a_page_or_a_terminal(name: str) -> None:
    results = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": name, "is_error": True}]
    timeline = explained(name=name, results=results)
    page = Page()
    page.feed("".join(render_html(timeline)))
    assert {tag for tag, _ in page.tags} <= EXPLAINED
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    for full in (False, True):
        assert all(line.isprintable() for line in shown(timeline, 100, full))
