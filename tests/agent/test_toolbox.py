"""The tools that a model is given, and their names."""

from __future__ import annotations

from toolglot.agent.server_records import ServerTool
from toolglot.agent.toolbox import AttachedServer, make_toolbox
from toolglot.config.schema import McpServerConfig, Policy
from toolglot.ir import Tool
from toolglot.receipt import Receipt
from toolglot.tools.served import AskedServer, ToolSelection


def attached(label: str, *names: str, policy: Policy = "auto", asked: AskedServer | None = None) -> AttachedServer:
    tools = tuple(
        ServerTool(server=label, name=name, tool=Tool(name=name, native={"mcp": {"annotations": {}}})) for name in names
    )
    return AttachedServer(
        label=label, server=label, config=McpServerConfig(command="x", policy=policy), tools=tools, asked=asked
    )


def names(*each: AttachedServer, taken: tuple[str, ...] = (), can_ask: bool = False) -> list[str]:
    return [tool.name for tool in make_toolbox(each, taken, Receipt(), can_ask=lambda _: can_ask).tools]


def test_tools_of_two_servers_cannot_stand_in_for_each_other() -> None:
    assert names(attached("a", "read"), attached("b", "read")) == ["a__read", "b__read"]
    assert len(set(names(attached("a", "b__c"), attached("a__b", "c")))) == 2


def test_the_clients_own_tools_keep_their_names() -> None:
    (offered,) = names(attached("a", "read"), taken=("a__read",))
    assert offered != "a__read"
    assert offered.startswith("a__read_")
    # However many names the client has taken, one is found, and no two tools get the same.
    taken = tuple(f"a__read{'_' * number}" for number in range(60))
    found = names(attached("a", "read", "read_"), taken=taken)
    assert len({*found, *taken}) == 62
    long = "x" * 80
    (offered,) = names(attached("a", long))
    (other,) = names(attached("a", long), taken=(offered,))
    assert other != offered
    assert len(other) <= 64


def test_a_client_that_names_a_server_gets_the_tools_it_wants() -> None:
    wishes = AskedServer(
        label="a", where="tools[0]", allowed=ToolSelection(names=("read", "write")), refused=("write",)
    )
    assert names(attached("a", "read", "write", "delete", asked=wishes)) == ["a__read"]


def test_what_is_never_run_is_not_offered_and_what_needs_a_yes_only_where_somebody_can_give_it() -> None:
    assert names(attached("a", "read", policy="never")) == []
    assert names(attached("a", "read", policy="ask")) == []
    assert names(attached("a", "read", policy="ask"), can_ask=True) == ["a__read"]


def test_the_name_of_a_tool_that_is_gone_is_still_known() -> None:
    toolbox = make_toolbox([attached("a", "read")], ("a__read",), Receipt(), can_ask=lambda _: False)
    assert toolbox.offered_name("a", "read") == toolbox.tools[0].name != "a__read"
    assert toolbox.offered_name("a", "gone") == "a__gone"
    gone = toolbox.find("a__gone")
    assert gone is not None
    assert gone.policy == "missing"  # the model is told so, and no client is asked to run it


def test_what_a_server_says_to_hosts_is_not_told_to_models() -> None:
    (tool,) = make_toolbox([attached("a", "read")], (), Receipt(), can_ask=lambda _: False).tools
    assert tool.native == {}
