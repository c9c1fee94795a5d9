"""Tools that servers offer: each tool goes back to its server, and a call names it."""

from __future__ import annotations

from tests.dialects.warp.conversations import TWO_CALLS, WARP, encode_request
from tests.dialects.warp.raw import every, texts
from tests.warp_server import frames
from tests.warp_server.messages import encode
from toolglot.ir import Response, Tool, ToolCall, replace, with_native
from toolglot.receipt import Receipt

SERVERS = [
    {"name": "files", "id": "s-1", "tools": [{"name": "read", "input_schema": {"type": "object"}}]},
    {"name": "web", "id": "s-2", "tools": [{"name": "get"}, {"name": "put"}], "resources": [{"uri": "u"}]},
]
ASKED = encode(
    "Request",
    {"input": {"user_inputs": {"inputs": [{"user_query": {"query": "hi"}}]}}, "mcp_context": {"servers": SERVERS}},
)


def test_tools_of_servers_are_tools_and_go_back_to_their_servers() -> None:
    request = WARP.decode_request(ASKED)
    assert [tool.name for tool in request.tools if isinstance(tool, Tool)] == ["read", "get", "put"]
    again = encode_request(request)
    assert [texts(server, 4, 1) for server in every(again, 6, 3)] == [["read"], ["get", "put"]]
    assert every(again, 6, 2) == []
    assert texts(again, 6, 3, 5) == ["s-1", "s-2"]
    fewer = encode_request(replace(request, tools=request.tools[1:]))
    assert [texts(server, 4, 1) for server in every(fewer, 6, 3)] == [[], ["get", "put"]]


def test_a_call_for_a_client_of_warps_names_the_server_of_its_tool() -> None:
    answer = Response(id="r", content=(ToolCall(id="c", name="put", arguments="{}"),))
    stream = WARP.encode_response(answer, WARP.decode_request(ASKED), Receipt())
    calls = [call for event in frames.payloads(stream) for call in texts(event, 2, 1, 3, 2, 4, 12, 3)]
    assert calls == ["s-2"]


def test_all_tools_can_be_offered_by_one_server() -> None:
    request = with_native(TWO_CALLS, "warp", tool_server={"name": "client", "id": "s-9"})
    data = encode_request(request)
    assert every(data, 6, 2) == []
    assert texts(data, 6, 3, 1) == ["client"]
    assert texts(data, 6, 3, 4, 1) == ["get_weather"]
    assert texts(data, 1, 1, 5, 4, 12, 3) == ["s-9", "s-9"]
