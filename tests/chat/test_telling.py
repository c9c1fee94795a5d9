"""What is told beside the answers."""

from __future__ import annotations

from toolglot.agent.tools import ServerState, server_tools
from toolglot.chat import telling
from toolglot.config.schema import McpServerConfig
from toolglot.ir import Media, Source, Text, ToolResult, Usage
from toolglot.receipt import Loss
from toolglot.tools.served import ServedCall

CALL = ServedCall(id="c", server="notes", name="add", arguments='{"text":\n "milk"}')
EVIL = ServedCall(id="c", server="no\x1b[2Jtes", name="a\u202edd", arguments='{"x":"\x1b[31m"}')


def test_a_call_is_one_safe_line() -> None:
    assert telling.called(CALL).text == '▸ notes: add {"text": "milk"}'
    assert telling.called(EVIL).text == '▸ notes: add {"x":""}'


def test_whoever_is_to_agree_sees_all_arguments_or_how_many_are_not_shown() -> None:
    long = ServedCall(id="c", server="s", name="t", arguments="x" * 5_000)
    assert "x" * telling.WHOLE in telling.wanted(long).text
    assert telling.wanted(long).text.endswith("… and 1000 more characters")
    assert telling.called(long).text.endswith("…")


def test_the_first_lines_of_a_result_are_shown_and_errors_are_marked() -> None:
    text = "\n".join(f"line {number}\x1b[1A" for number in range(20))
    media = Media(kind="image", source=Source("base64", "AAAA", "image/png"))
    shown = telling.returned(CALL, ToolResult(call_id="c", content=(media, Text(text=text)))).text.split("\n")
    assert shown[0] == "  ✓ add: [image: image/png]"
    assert shown[1] == "    line 0"
    assert shown[-1] == "    … 14 more lines"
    failed = telling.returned(CALL, ToolResult(call_id="c", content=(), is_error=True))
    assert (failed.text, failed.style) == ("  ✗ add: (nothing)", ("error",))


def test_progress_is_one_safe_line() -> None:
    assert telling.progressed(CALL, "1/2 half\r\n\x1b[Kdone").text == "  … add: 1/2 half done"


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
    lines = telling.servers(states, configs, {"notes": server_tools("notes", listed), "dead": ()}, {("notes", "write")})
    assert [line.text for line in lines] == [
        "notes: ready, 4 tools, MCP 2026-07-28",
        "  read   auto    Reads.",
        "  write  always",
        "  drop   never",
        "  send   ask",
        "dead: waiting: it ended, 0 tools",
    ]
    assert "No MCP server" in telling.servers([], {}, {}, ())[0].text


def test_a_receipt_is_counted_and_its_losses_stand_out() -> None:
    assert telling.receipt([], 0)[0].text == "Nothing has been asked yet."
    assert telling.receipt([], 1)[0].text == "Nothing was lost, and nothing changed."
    lines = [Loss("messages[0]", "x", "no place"), Loss("tools", "y", "renamed", "note")]
    told = telling.receipt(lines, 2)
    assert told[0].text == "1 lost, 1 changed in form:"
    assert [line.style for line in told[1:]] == [("error",), ()]
    assert telling.receipt([Loss(f"m[{n}]", "x", "y") for n in range(150)], 1)[-1].text == "  … and 50 more"


def test_the_line_below_an_answer() -> None:
    told = telling.ended("demo", Usage(input_tokens=10, output_tokens=5), 2, 1, 0.25)
    assert told.text == "[demo · 10+5 tokens · 1 call · 0.2 s · 2 lost in translation: /receipt]"
    assert telling.ended("demo", None, 0, 0, 1).text == "[demo · 1.0 s]"
