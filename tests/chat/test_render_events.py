"""What is told beside the answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.agent.server_records import ServerState, server_tools
from toolglot.chat import render_events
from toolglot.config.schema import McpServerConfig
from toolglot.ir import Media, Source, Text, ToolResult, Usage
from toolglot.receipt import Loss, Note
from toolglot.tools.served import ServedCall

CALL = ServedCall(id="c", server="notes", name="add", arguments='{"text":\n "milk"}')
EVIL = ServedCall(id="c", server="no\x1b[2Jtes", name="a\u202edd", arguments='{"x":"\x1b[31m"}')


def test_a_call_is_one_safe_line() -> None:
    assert render_events.call_line(CALL).text == '▸ notes: add {"text": "milk"}'
    assert render_events.call_line(EVIL).text == r'▸ no\u001b[2Jtes: a\u202edd {"x":"\u001b[31m"}'
    assert render_events.approval_line(EVIL).text == r'? no\u001b[2Jtes: a\u202edd {"x":"\u001b[31m"}'
    assert render_events.approval_question(EVIL).startswith(r"  Run a\u202edd? yes")


HIDING = {
    "a string of one-character controls": ("\u0090; rm\u009c", r"\u0090; rm\u009c"),
    "another": ("\u009d; rm\u009c", r"\u009d; rm\u009c"),
    "a movement": ("\u009b8m; rm", r"\u009b8m; rm"),
    "an escape sequence": ("\x1b[8m; rm\x7f", r"\u001b[8m; rm\u007f"),
    "directions": ("\u202e\u2066\u200f", r"\u202e\u2066\u200f"),
    "tags": ("\U000e0041", r"\udb40\udc41"),
    "joiners": ("a\u200d\u200cb", r"a\u200d\u200cb"),
    "selectors and fillers": ("\ufe0f\U000e0100\u3164\u2800", r"\ufe0f\udb40\udd00\u3164\u2800"),
    "private use": ("\ue000", r"\ue000"),
    "half a character": ("\ud800", r"\ud800"),
    "spaces that are none": ("a\u00a0\u2003\u2028b", r"a\u00a0\u2003\u2028b"),
    "spaces": ("rm  -r   x", "rm  -r   x"),
    "what everybody can read": ("Straße 日本 😀", "Straße 日本 😀"),
}


@pytest.mark.parametrize(("text", "shown"), HIDING.values(), ids=HIDING)
def test_nothing_of_the_arguments_hides_from_whoever_is_to_agree(text: str, shown: str) -> None:
    call = ServedCall(id="c", server="s", name="t", arguments=f'{{"cmd":"ls {text}"}}')
    assert render_events.approval_line(call).text == f'? s: t {{"cmd":"ls {shown}"}}'
    assert render_events.call_line(call).text == f'▸ s: t {{"cmd":"ls {shown}"}}'


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=10), values, max_size=3), st.sampled_from([None, 2]))
def test_what_is_asked_means_what_is_run(arguments: dict[str, object], indent: int | None) -> None:
    text = json.dumps(arguments, ensure_ascii=False, indent=indent)
    asked = render_events.approval_line(ServedCall(id="c", server="s", name="t", arguments=text)).text
    assert asked.isprintable()
    assert json.loads(asked.removeprefix("? s: t ")) == arguments


def test_of_long_arguments_the_ends_are_shown_and_the_rest_before_anybody_can_agree() -> None:
    text = "a" * 3_000 + "b" * 1_000 + "c" * 1_000
    long = ServedCall(id="c", server="s", name="t", arguments=text)
    shown = render_events.approval_line(long).text
    assert shown == f"? s: t {'a' * 3_000} [… 1000 characters that are not shown yet …] {'c' * 1_000}"
    unseen = render_events.hidden_arguments_line(long)
    assert unseen is not None
    assert unseen.text == "b" * 1_000
    assert (
        render_events.approval_question(long, unseen) == "  Run t? show (the other 1000 characters, then decide) / no: "
    )
    assert render_events.call_line(long).text.endswith("a…")
    assert (
        render_events.hidden_arguments_line(
            ServedCall(id="c", server="s", name="t", arguments=text[: render_events.MAX_APPROVAL_ARGUMENTS])
        )
        is None
    )


def test_the_first_lines_of_a_result_are_shown_and_errors_are_marked() -> None:
    text = "\n".join(f"line {number}\x1b[1A" for number in range(20))
    media = Media(kind="image", source=Source("base64", "AAAA", "image/png"))
    shown = render_events.result_line(CALL, ToolResult(call_id="c", content=(media, Text(text=text)))).text.split("\n")
    assert shown[0] == "  ✓ add: [image: image/png]"
    assert shown[1] == "    line 0"
    assert shown[-1] == "    … 14 more lines"
    failed = render_events.result_line(CALL, ToolResult(call_id="c", content=(), is_error=True))
    assert (failed.text, failed.style) == ("  ✗ add: (nothing)", ("error",))


def test_progress_is_one_safe_line() -> None:
    assert render_events.progress_line(CALL, "1/2 half\r\n\x1b[Kdone").text == "  … add: 1/2 half done"


def test_servers_are_told_with_their_tools_and_policies() -> None:
    listed = [
        {"name": "read", "description": "Reads.", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
        {"name": "write", "inputSchema": {}},
        {"name": "drop", "inputSchema": {}},
        {"name": "send\x1b[2J", "inputSchema": {}},
    ]
    states = [
        ServerState(name="notes", state="ready", tools=4, protocol="2026-07-28"),
        ServerState(name="dead", state="waiting", why="it\x1b[2J ended"),
    ]
    configs = {"notes": McpServerConfig(command="x", tools={"drop": "never"}), "dead": McpServerConfig(command="y")}
    lines = render_events.server_lines(
        states, configs, {"notes": server_tools("notes", listed), "dead": ()}, {("notes", "write")}
    )
    assert [line.text for line in lines] == [
        "notes: ready, 4 tools, MCP 2026-07-28",
        "  read   auto    Reads.",
        "  write  always",
        "  drop   never",
        "  send   ask",
        "dead: waiting: it ended, 0 tools",
    ]
    assert "No MCP server" in render_events.server_lines([], {}, {}, ())[0].text


def test_a_receipt_is_counted_and_its_losses_stand_out() -> None:
    assert render_events.receipt_lines([], 0)[0].text == "No request has been sent yet."
    assert render_events.receipt_lines([], 1)[0].text == "Nothing was lost, and nothing changed."
    lines = [Loss("messages[0]", "x", "no place"), Note("tools", "y", "renamed")]
    told = render_events.receipt_lines(lines, 2)
    assert told[0].text == "1 lost, 1 changed in form:"
    assert [line.style for line in told[1:]] == [("error",), ()]
    assert render_events.receipt_lines([Loss(f"m[{n}]", "x", "y") for n in range(150)], 1)[-1].text == "  … and 50 more"


def test_the_line_below_an_answer() -> None:
    told = render_events.end_line("demo", Usage(input_tokens=10, output_tokens=5), 2, 1, 0.25)
    assert told.text == "[demo · 10+5 tokens · 1 call · 0.2 s · 2 lost in translation: /receipt]"
    assert render_events.end_line("demo", None, 0, 0, 1).text == "[demo · 1.0 s]"
