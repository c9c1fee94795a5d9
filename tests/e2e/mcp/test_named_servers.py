"""Clients that name an MCP server in their own API's words, over upstreams that know nothing of it: `mcp` tools of the
Responses API, with its questions for a yes, and `mcp_servers` of the Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.agent.hosting import everyday_over_http
from tests.e2e.answers import Call as Called
from tests.e2e.loopback import Loopback
from tests.e2e.scripted import Seen
from tests.e2e.wires import Call, Turn

from .conversations import OWN, BetaMessages, Responses, ResponsesFromPrevious, ResponsesInConversation, Served
from .gateways import Running, gateway
from .upstreams import Upstream, scripted

SUM, CITY, WEATHER = {"a": 2, "b": 3}, {"city": "Zürich"}, "17 °C, rain ☂"
ADD, ECHO = "sums__add", "sums__echo"
NOWHERE = "https://mcp.example.com/mcp"
OVER = pytest.mark.parametrize("upstream", ["openai_chat", "gemini"])
CLIENTS = pytest.mark.parametrize("client", [Responses, ResponsesFromPrevious, ResponsesInConversation])
STREAMS = pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])


@pytest.fixture(scope="module")
def named(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    folder = tmp_path_factory.mktemp("named")
    with scripted(loopback, "replay") as upstreams, everyday_over_http() as url:
        servers = {"everyday": {"url": url, "policy": "auto", "tools": {"whoami": "never"}}}
        with gateway(folder, upstreams, servers) as running:
            yield running, url


def script(seen: Seen) -> Turn:
    """Adds up, then greets and asks for the weather at once."""
    if not seen.results:
        return Turn("First the sum.", (Call("call_1", ADD, SUM),))
    if len(seen.results) == 1 and OWN in seen.tools:
        return Turn("Now both.", (Call("call_2", OWN, CITY), Call("call_3", ECHO, {"text": "Grüezi"})))
    return Turn("All: " + " | ".join(seen.results))


def tool(url: str, approval: Any = "never", **more: Any) -> Any:
    return {"type": "mcp", "server_label": "sums", "server_url": url, "require_approval": approval, **more}


def total(text: str | None) -> int:
    return int(json.loads(text or "")["total"])


def whole(behind: Upstream, calls: list[str]) -> list[str]:
    """The texts of the results that the model was told last, after these calls."""
    assert behind.refused == []
    told = behind.received[-1]
    assert [call.name for call in told.calls] == calls
    assert [result.call_id for result in told.results] == [call.id for call in told.calls]
    return [result.text for result in told.results]


# ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────────


@STREAMS
@OVER
@CLIENTS
def test_a_tool_of_the_type_mcp_is_run(
    named: tuple[Running, str], client: type[Responses], upstream: str, streams: bool
) -> None:
    running, url = named
    behind = running.upstreams[upstream]
    behind.play(script)
    talk = client(running.base_url, f"plain-{upstream}", streams, tools=[tool(url)])
    first = talk.say("Add, greet, look.")
    assert sorted(first.kinds) == ["function_call", "mcp_call", "mcp_call", "mcp_list_tools", "message", "message"]
    assert first.kinds[0] == "mcp_list_tools"
    listed = first.raw.output[0]
    assert listed.server_label == "sums"
    assert {each.name for each in listed.tools} >= {"add", "echo", "fail"}
    assert "whoami" not in {each.name for each in listed.tools}
    assert [each.annotations for each in listed.tools if each.name == "add"] == [
        {"readOnlyHint": True, "title": "Adds"}
    ]
    added, echoed = first.served
    assert (added.server, added.name, added.arguments, total(added.output)) == ("sums", "add", SUM, 5)
    assert echoed == Served("sums", "echo", {"text": "Grüezi"}, "Grüezi")
    assert [Called(None, call.name, call.arguments) for call in first.calls] == [Called(None, OWN, CITY)]
    second = talk.give({first.calls[0].id: WEATHER})
    results = whole(behind, [ADD, OWN, ECHO])
    assert (total(results[0]), results[1:]) == (5, [WEATHER, "Grüezi"])
    assert second.kinds == ["message"]  # the tools were listed before


@STREAMS
@OVER
@CLIENTS
def test_a_call_is_run_once_the_client_has_said_yes(
    named: tuple[Running, str], client: type[Responses], upstream: str, streams: bool
) -> None:
    running, url = named
    behind = running.upstreams[upstream]
    behind.play(script)
    talk = client(running.base_url, f"plain-{upstream}", streams, own=False, tools=[tool(url, "always")])
    asked = talk.say("Add.")
    assert asked.kinds == ["mcp_list_tools", "message", "mcp_approval_request"]
    question = asked.raw.output[-1]
    assert (question.server_label, question.name, json.loads(question.arguments)) == ("sums", "add", SUM)
    assert len(behind.received) == 1
    answered = talk.approve(asked, True)
    assert answered.kinds == ["mcp_call", "message"]
    assert answered.raw.output[0].approval_request_id == question.id
    assert total(answered.served[0].output) == 5
    assert [total(text) for text in whole(behind, [ADD])] == [5]
    assert len(behind.received) == 2
    talk.say("And once more.")
    assert [total(text) for text in whole(behind, [ADD])] == [5]


@STREAMS
@OVER
@CLIENTS
def test_a_call_is_not_run_where_the_client_has_said_no(
    named: tuple[Running, str], client: type[Responses], upstream: str, streams: bool
) -> None:
    running, url = named
    behind = running.upstreams[upstream]
    behind.play(script)
    talk = client(running.base_url, f"plain-{upstream}", streams, own=False, tools=[tool(url, "always")])
    asked = talk.say("Add.")
    answered = talk.approve(asked, False, reason="I can do that myself")
    assert answered.kinds == ["message"]
    (told,) = whole(behind, [ADD])
    assert "did not allow" in told
    assert "I can do that myself" in told
    talk.say("And once more.")
    assert whole(behind, [ADD]) == [told]


@OVER
def test_some_tools_ask_and_others_do_not_in_one_turn_with_the_clients_own(
    named: tuple[Running, str], upstream: str
) -> None:
    running, url = named
    behind = running.upstreams[upstream]
    behind.play(script)
    approval = {"never": {"tool_names": ["add"]}, "always": {"tool_names": ["echo"]}}
    talk = Responses(running.base_url, f"plain-{upstream}", True, tools=[tool(url, approval)])
    first = talk.say("Add, greet, look.")
    assert sorted(first.kinds) == sorted(
        [*["message"] * 2, "function_call", "mcp_approval_request", "mcp_call", "mcp_list_tools"]
    )
    (question,) = [item for item in first.raw.output if item.type == "mcp_approval_request"]
    second = talk.send(
        [
            {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True},
            {"type": "function_call_output", "call_id": first.calls[0].id, "output": WEATHER},
        ]
    )
    assert [(each.name, each.output) for each in second.served] == [("echo", "Grüezi")]
    results = whole(behind, [ADD, OWN, ECHO])
    assert (total(results[0]), results[1:]) == (5, [WEATHER, "Grüezi"])


@OVER
@CLIENTS
def test_a_served_call_one_that_asks_and_the_clients_own_in_one_breath(
    named: tuple[Running, str], client: type[Responses], upstream: str
) -> None:
    running, url = named
    behind = running.upstreams[upstream]

    def at_once(seen: Seen) -> Turn:
        """All at once; then one more that asks nobody."""
        if not seen.results:
            calls = Call("call_1", ECHO, {"text": "Grüezi"}), Call("call_2", OWN, CITY), Call("call_3", ADD, SUM)
            return Turn("All at once.", calls)
        if len(seen.results) == 3:
            return Turn("Once more.", (Call("call_4", ADD, {"a": 4, "b": 4}),))
        return Turn("Done.")

    behind.play(at_once)
    approval = {"never": {"tool_names": ["add"]}, "always": {"tool_names": ["echo"]}}
    talk = client(running.base_url, f"plain-{upstream}", True, tools=[tool(url, approval)])
    first = talk.say("Add, greet, look at once.")
    (question,) = [item for item in first.raw.output if item.type == "mcp_approval_request"]
    second = talk.send(
        [
            {"type": "function_call_output", "call_id": first.calls[0].id, "output": WEATHER},
            {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True},
        ]
    )
    assert [(each.name, each.failed) for each in second.served] == [("echo", False), ("add", False)]
    third = talk.say("Thank you.")
    assert third.text == "Done."
    assert behind.refused == []
    told = behind.received[-1]
    assert sorted(call.name for call in told.calls[:3]) == sorted([ECHO, OWN, ADD])
    assert [(call.name, call.arguments) for call in told.calls[3:]] == [(ADD, {"a": 4, "b": 4})]
    results = {result.call_id: result.text for result in told.results}
    assert (results["call_1"], results["call_2"]) == ("Grüezi", WEATHER)
    assert (total(results["call_3"]), total(results["call_4"])) == (5, 8)
    assert told.order.strip(".").replace(".", "") == "cccrrrcr"


def test_allowed_tools_and_a_forced_choice(named: tuple[Running, str]) -> None:
    running, url = named
    behind = running.upstreams["openai_chat"]
    behind.play(script)
    choice = {"type": "mcp", "server_label": "sums", "name": "add"}
    tools = [tool(url, allowed_tools=["add"])]
    talk = Responses(running.base_url, "plain-openai_chat", False, own=False, tools=tools, tool_choice=choice)
    assert talk.say("Add.").served[0].name == "add"
    assert [received.tools for received in behind.received] == [[ADD], [ADD]]
    first, second = (json.loads(body).get("tool_choice") for body in behind.bodies)
    assert first == {"type": "function", "function": {"name": ADD}}
    assert second in (None, "auto")


UNKNOWN = {
    "an address that is not configured": {"server_url": NOWHERE},
    "a connector of OpenAI's": {"connector_id": "connector_gmail"},
    "a file": {"server_url": "file:///bin/sh"},
}


@OVER
@pytest.mark.parametrize("where", UNKNOWN.values(), ids=UNKNOWN)
def test_a_server_that_is_not_configured_is_refused(
    named: tuple[Running, str], where: dict[str, str], upstream: str
) -> None:
    running, _ = named
    asked: Any = [{"type": "mcp", "server_label": "mine", "require_approval": "never", **where}]
    for streams in (True, False):
        with pytest.raises(openai.BadRequestError) as refused:
            Responses(running.base_url, f"plain-{upstream}", streams, tools=asked).say("Hello")
        assert "tools[1] names the MCP server 'mine'" in str(refused.value)
        assert "this gateway's configuration has none at that address" in str(refused.value)
        assert refused.value.param == "tools[1]"


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

BETA: dict[str, Any] = {"betas": ["mcp-client-2025-11-20"]}


def messages_server(url: str, **more: Any) -> Any:
    return [{"type": "url", "name": "sums", "url": url, **more}]


@STREAMS
@OVER
def test_servers_of_a_message_are_served(named: tuple[Running, str], upstream: str, streams: bool) -> None:
    running, url = named
    behind = running.upstreams[upstream]
    behind.play(script)
    toolset = {"type": "mcp_toolset", "mcp_server_name": "sums", "configs": {"fail": {"enabled": False}}}
    talk = BetaMessages(
        running.base_url, f"plain-{upstream}", streams, tools=[toolset], mcp_servers=messages_server(url), **BETA
    )
    first = talk.say("Add, greet, look.")
    uses = ["mcp_tool_use", "mcp_tool_result"]
    assert sorted(first.kinds) == sorted(["text", *uses, "text", *uses, "tool_use"])
    added, echoed = first.served
    assert (added.server, added.name, added.arguments, total(added.output)) == ("sums", "add", SUM, 5)
    assert echoed == Served("sums", "echo", {"text": "Grüezi"}, "Grüezi")
    assert all(block.id.startswith("mcptoolu_") for block in first.raw.content if block.type == "mcp_tool_use")
    assert first.stop == "tool_use"
    assert {ADD, ECHO} <= set(behind.received[0].tools)
    assert "sums__fail" not in behind.received[0].tools
    second = talk.give({first.calls[0].id: WEATHER})
    results = whole(behind, [ADD, OWN, ECHO])
    assert (total(results[0]), results[1:]) == (5, [WEATHER, "Grüezi"])
    assert (second.kinds, second.stop) == (["text"], "end_turn")


@OVER
def test_servers_as_the_older_beta_had_them(named: tuple[Running, str], upstream: str) -> None:
    running, url = named
    behind = running.upstreams[upstream]
    behind.play(script)
    servers = messages_server(url, tool_configuration={"enabled": True, "allowed_tools": ["add"]})
    talk = BetaMessages(
        running.base_url, f"plain-{upstream}", True, own=False, mcp_servers=servers, betas=["mcp-client-2025-04-04"]
    )
    assert [each.name for each in talk.say("Add.").served] == ["add"]
    assert behind.received[0].tools == [ADD]
    assert [total(text) for text in whole(behind, [ADD])] == [5]


@OVER
def test_a_server_of_a_message_that_is_not_configured_is_refused(named: tuple[Running, str], upstream: str) -> None:
    running, _ = named
    for streams in (True, False):
        with pytest.raises(anthropic.BadRequestError) as refused:
            BetaMessages(
                running.base_url, f"plain-{upstream}", streams, mcp_servers=messages_server(NOWHERE), **BETA
            ).say("Hello")
        assert "mcp_servers[0] names the MCP server 'sums'" in str(refused.value)
        assert "this gateway's configuration has none at that address" in str(refused.value)
