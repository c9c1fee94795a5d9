"""MCP tool definitions and results <-> the IR."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import DecodeError
from toolglot.ir import Media, Opaque, Source, Text, Tool, ToolCall, ToolResult, replace
from toolglot.receipt import Receipt
from toolglot.tools import mcp

FULL: dict[str, Any] = {
    "name": "read.file",
    "title": "Read a file",
    "description": "Reads one file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "outputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True, "title": "Read"},
    "icons": [{"src": "https://example.org/icon.png"}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"org.example/owner": "files"},
    "somethingNew": None,
}

keys = st.sampled_from(["title", "annotations", "_meta", "execution", "newer", "data", "size"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=2),
    max_leaves=4,
)
extras = st.dictionaries(keys, values, max_size=3)


MEDIA_TYPES: list[dict[str, Any]] = [{}, {"mimeType": "image/png"}, {"mimeType": "text/plain"}, {"mimeType": None}]
CONTENTS: list[dict[str, Any]] = [{"text": "hello"}, {"blob": "QUJD"}, {"text": None, "blob": "QQ=="}, {}]


def strip(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in names}


@st.composite
def tools(draw: st.DrawFn) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": draw(st.text(max_size=9)), **draw(extras)}
    if draw(st.booleans()):
        tool["description"] = draw(st.none() | st.text(max_size=9))
    if draw(st.booleans()):
        tool["inputSchema"] = draw(st.none() | st.dictionaries(st.text("abc", min_size=1), values, max_size=2))
    return tool


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, Any]:
    extra = draw(extras)
    media_type: dict[str, Any] = draw(st.sampled_from(MEDIA_TYPES))
    kind = draw(st.sampled_from(["text", "image", "audio", "resource_link", "resource", "hologram"]))
    match kind:
        case "text":
            return {"type": kind, "text": draw(st.text(max_size=9)), **extra}
        case "image" | "audio":
            return {**extra, "type": kind, "data": "QUJD", **media_type}
        case "resource_link":
            return {**extra, "type": kind, "uri": "file:///a", "name": draw(st.text(max_size=4)), **media_type}
        case "resource":
            contents: dict[str, Any] = draw(st.sampled_from(CONTENTS))
            return {**extra, "type": kind, "resource": {"uri": "file:///a", **media_type, **contents}}
        case _:
            return {**extra, "type": kind}


@st.composite
def results(draw: st.DrawFn) -> dict[str, Any]:
    result = strip(draw(extras), "data")
    if draw(st.booleans()):
        result["content"] = draw(st.lists(blocks(), max_size=3))
    if draw(st.booleans()):
        result["isError"] = draw(st.booleans())
    if draw(st.booleans()):
        result["structuredContent"] = draw(values)
    return result


@pytest.mark.parametrize(
    "document",
    [[FULL], {"tools": [FULL], "nextCursor": "x"}, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [FULL]}}],
    ids=["a list", "a result", "a JSON-RPC message"],
)
def test_the_three_forms_of_a_list_of_tools_read_the_same(document: Any) -> None:
    (tool,) = mcp.decode_tools(json.dumps(document))
    assert tool.name == "read.file"
    assert tool.description == "Reads one file."
    assert tool.parameters == FULL["inputSchema"]
    assert tool.native["mcp"]["outputSchema"] == FULL["outputSchema"]


def test_a_full_tool_comes_back_as_it_was() -> None:
    receipt = Receipt()
    assert mcp.encode_tools(mcp.decode_tools(json.dumps([FULL])), receipt) == [FULL]
    assert not receipt


@given(st.lists(tools(), max_size=3))
def test_reading_and_writing_tools_is_lossless(listed: list[dict[str, Any]]) -> None:
    receipt = Receipt()
    assert mcp.encode_tools(mcp.decode_tools(json.dumps(listed)), receipt) == listed
    assert not receipt


@pytest.mark.parametrize(
    ("annotations", "read_only", "destructive"),
    [
        (None, False, True),
        ({}, False, True),
        ({"readOnlyHint": True}, True, False),
        ({"readOnlyHint": True, "destructiveHint": True}, True, False),
        ({"readOnlyHint": False, "destructiveHint": False}, False, False),
        ({"destructiveHint": False}, False, False),
        ({"readOnlyHint": "yes", "destructiveHint": "no"}, False, True),
        ("nonsense", False, True),
    ],
)
def test_hints_count_when_they_are_plain_and_the_worst_is_assumed(
    annotations: Any, read_only: bool, destructive: bool
) -> None:
    (tool,) = mcp.read_tools([{"name": "t", "inputSchema": {}, "annotations": annotations}])
    assert (mcp.is_read_only(tool), mcp.is_destructive(tool)) == (read_only, destructive)


def test_a_tool_has_the_first_of_its_names_for_people() -> None:
    named: list[dict[str, Any]] = [
        {"name": "t", "title": "T", "annotations": {"title": "A"}},
        {"name": "t", "title": "", "annotations": {"title": "A"}},
        {"name": "t", "annotations": {"title": 3}},
    ]
    assert [mcp.title_of(tool) for tool in mcp.read_tools(named)] == ["T", "A", "t"]
    (full,) = mcp.read_tools([json.loads(json.dumps(FULL))])
    assert mcp.output_schema_of(full) == FULL["outputSchema"]


def test_a_tool_of_another_api_gets_the_schema_that_mcp_requires() -> None:
    assert mcp.encode_tools([Tool(name="now")], Receipt()) == [{"name": "now", "inputSchema": {"type": "object"}}]


def test_tools_that_mcp_cannot_express_are_told() -> None:
    receipt = Receipt()
    hosted = Opaque("openai_responses", {"type": "web_search"})
    own = Opaque("mcp", {"name": "x"})
    listed: list[Tool | Opaque] = [hosted, own, Tool(name="run", kind="custom"), Tool(name="f", namespace="ns")]
    assert [tool["name"] for tool in mcp.encode_tools(listed, receipt)] == ["x", "run", "f"]
    assert [line.where for line in receipt.losses] == ["tools[0]", "tools[2]", "tools[3].namespace"]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ('{"tools": 3}', "$.tools"),
        ('{"result": {}}', "$.result.tools"),
        ("3", "$"),
        ("[3]", "$[0]"),
        ('[{"description": "no name"}]', "$[0].name"),
        ('{"result": {"tools": [{"name": "x", "inputSchema": []}]}}', "$.result.tools[0].inputSchema"),
        ('{"tools": [', "$.tools[0]"),
    ],
)
def test_what_is_no_list_of_tools_is_refused_with_its_path(document: str, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        mcp.decode_tools(document)
    assert caught.value.where == where


def read(result: Any) -> ToolResult:
    return mcp.decode_result(json.dumps(result), "call_1", "weather")


def test_a_result_becomes_blocks_that_other_apis_have() -> None:
    result = read(
        {
            "content": [
                {"type": "text", "text": "Rain."},
                {"type": "image", "data": "QUJD", "mimeType": "image/png"},
                {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "file:///n.txt", "mimeType": "text/plain", "text": "hi"}},
                {
                    "type": "resource",
                    "resource": {"uri": "file:///d.pdf", "mimeType": "application/pdf", "blob": "QQ=="},
                },
                {"type": "resource", "resource": {"uri": "file:///i.png", "mimeType": "image/png", "blob": "QQ=="}},
            ],
            "isError": False,
        }
    )
    assert (result.call_id, result.name, result.is_error) == ("call_1", "weather", False)
    text, image, audio, note, paper, picture = result.content
    assert text == Text(text="Rain.")
    assert image == Media(kind="image", source=Source("base64", "QUJD", "image/png"))
    assert isinstance(audio, Media)
    assert audio.kind == "audio"
    assert isinstance(note, Media)
    assert (note.kind, note.source, note.name) == ("document", Source("text", "hi", "text/plain"), "file:///n.txt")
    assert isinstance(paper, Media)
    assert (paper.kind, paper.source) == ("document", Source("base64", "QQ==", "application/pdf"))
    assert isinstance(picture, Media)
    assert picture.kind == "image"


def test_a_link_is_told_to_the_model_as_text_and_written_back_as_a_link() -> None:
    link = {
        "type": "resource_link",
        "uri": "file:///a.txt",
        "name": "a.txt",
        "mimeType": "text/plain",
        "description": "Notes.",
    }
    result = read({"content": [link]})
    assert isinstance(result.content[0], Text)
    assert result.content[0].text == "[resource: a.txt, file:///a.txt (text/plain), Notes.]"
    assert mcp.encode_result(result, Receipt()) == {"content": [link]}


def test_structured_content_stands_for_missing_content() -> None:
    wire = {"content": [], "structuredContent": {"degrees": 12}}
    result = read(wire)
    assert result.content == (Text(text='{"degrees":12}'),)
    assert mcp.encode_result(result, Receipt()) == wire


def test_structured_content_beside_a_text_that_says_the_same_is_no_loss_elsewhere() -> None:
    same = read({"content": [{"type": "text", "text": '{ "degrees": 12 }'}], "structuredContent": {"degrees": 12}})
    other = read({"content": [{"type": "text", "text": "12 degrees"}], "structuredContent": {"degrees": 12}})
    assert set(same.native["mcp"]) == {"$structured"}
    assert set(other.native["mcp"]) == {"structuredContent"}


def test_structured_content_that_no_longer_stands_for_the_content_is_left_out() -> None:
    result = read({"content": [], "structuredContent": {"degrees": 12}})
    cut = replace(result, content=(Text(text="[cut]"),))
    assert mcp.encode_result(cut, Receipt()) == {"content": [{"type": "text", "text": "[cut]"}]}


def test_a_server_that_asks_for_something_has_not_answered() -> None:
    with pytest.raises(DecodeError, match=r"\$\.result\.resultType: the server asks for something first"):
        read({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "inputRequests": {}}})


def test_a_json_rpc_error_is_an_error_that_the_model_sees() -> None:
    result = read({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unknown tool: weather"}})
    assert result.is_error is True
    assert result.content == (Text(text="Unknown tool: weather"),)


def test_a_result_inside_its_json_rpc_message_is_found() -> None:
    result = read({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "x"}], "isError": True}})
    assert result.is_error is True
    assert result.content == (Text(text="x"),)


@given(results())
def test_reading_and_writing_results_is_lossless(wire: dict[str, Any]) -> None:
    receipt = Receipt()
    assert mcp.encode_result(read(wire), receipt) == wire
    assert not receipt


def test_results_of_other_apis_are_written_with_what_mcp_has() -> None:
    receipt = Receipt()
    result = ToolResult(
        call_id="c",
        content=(
            Text(text="a"),
            Media(kind="image", source=Source("base64", "QUJD", "image/png")),
            Media(kind="image", source=Source("url", "https://example.org/i.png")),
            Media(kind="document", source=Source("base64", "QQ==", "application/pdf"), name="d.pdf"),
            Media(kind="document", source=Source("text", "hi", "text/plain")),
            Media(kind="audio", source=Source("base64", "QUJD")),
            Media(kind="document", source=Source("text", "hi"), name="my notes.txt"),
            Media(kind="document", source=Source("text", "hi"), name="https://example.org/n"),
        ),
        is_error=True,
    )
    assert mcp.encode_result(result, receipt) == {
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "https://example.org/i.png", "name": "https://example.org/i.png"},
            {
                "type": "resource",
                "resource": {"uri": "attachment:///d.pdf", "mimeType": "application/pdf", "blob": "QQ=="},
            },
            {"type": "resource", "resource": {"uri": "attachment:///4", "mimeType": "text/plain", "text": "hi"}},
            {"type": "audio", "data": "QUJD", "mimeType": "application/octet-stream"},
            {"type": "resource", "resource": {"uri": "attachment:///my%20notes.txt", "text": "hi"}},
            {"type": "resource", "resource": {"uri": "https://example.org/n", "text": "hi"}},
        ],
        "isError": True,
    }
    assert not receipt


def test_what_a_result_cannot_hold_is_told_and_leaves_the_rest() -> None:
    receipt = Receipt()
    result = ToolResult(
        call_id="c",
        content=(
            Media(kind="image", source=Source("file", "file-1")),
            ToolCall(id="x", name="f"),
            Opaque("anthropic", {"type": "tool_reference"}),
        ),
    )
    written = mcp.encode_result(result, receipt)
    assert written == {"content": [{"type": "text", "text": "[image left out: it is known by a file id only]"}]}
    assert [line.where for line in receipt.losses] == ["content[0]", "content[1]", "content[2]"]
