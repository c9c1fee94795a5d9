from __future__ import annotations

from typing import Any

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.dialects import DIALECTS
from toolglot.events import Close, Event, Finish
from toolglot.ir import (
    Citation,
    Message,
    Opaque,
    Reasoning,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from toolglot.passes import foreign
from toolglot.passes.foreign import Reporter
from toolglot.receipt import Receipt

from .targets import ANTHROPIC, CHAT, answered, asked, lines, result, to, tool, user


def own_keys(**facts: Any) -> Capabilities:
    """A source of which nothing else is known."""
    return change_capabilities(Capabilities(), **facts)


def test_every_field_that_stays_behind_is_told_with_its_path() -> None:
    own = {"openai_chat": {"logit_bias": {"1": 2}, "empty": [], "$shape": "x", "store": True, "gone": None}}
    request = Request(
        model="m",
        native=own,
        reasoning=Reasoning(native={"openai_chat": {"pro": 1}}),
        tools=(tool(native={"openai_chat": {"async": True}}),),
        messages=(
            Message(
                role="user",
                content=(Text(text="x", citations=(Citation(native={"openai_chat": {"index": 1}}),)),),
                native={"openai_chat": {"name": "Bob"}},
            ),
            answered(result("a", native={"openai_chat": {"odd": 1}})),
        ),
    )
    context = to(ANTHROPIC, source="openai_chat", source_can=own_keys(cosmetic={"store": "a reason"}))
    assert foreign.report(request, context) is request
    assert lines(context) == [
        "loss logit_bias",
        "loss reasoning.pro",
        "loss tools[0].async",
        "loss messages[0].name",
        "loss messages[0].content[0].citations[0].index",
        "loss messages[1].content[0].odd",
    ]


def test_the_targets_own_fields_and_reasoning_state_are_not_told_here() -> None:
    call = ToolCall(id="c", name="look", native={"gemini": {"thoughtSignature": "x"}, "anthropic": {"caller": 1}})
    thought = Thinking(text="Hm", native={"gemini": {"thought": True}})
    context = to(ANTHROPIC, source="gemini", source_can=DIALECTS["gemini"].can)
    foreign.report(asked(user(), Message(role="assistant", content=(thought, call))), context)
    assert not context.receipt


def test_a_choice_of_its_own_dialect_is_told_elsewhere() -> None:
    context = to(ANTHROPIC, source="openai_chat")
    choice = ToolChoice(mode="opaque", native={"openai_chat": {"choice": {"type": "mcp"}}})
    foreign.report(asked(user(), tool_choice=choice), context)
    assert not context.receipt


def test_opaque_blocks_and_tools_of_another_dialect_go_and_name_their_type() -> None:
    context = to(CHAT, source="anthropic")
    search = Opaque("anthropic", {"type": "web_search_20250305", "name": "web_search"})
    block = Opaque("anthropic", {"type": "server_tool_use"})
    inner = Opaque("anthropic", {"type": "search_result"})
    mine = Opaque("openai_chat", {"type": "new"})
    request = asked(
        Message(role="assistant", content=(block, mine, Text(text="x"))),
        answered(result("a"), ToolResult(call_id="b", content=(inner,))),
        tools=(search, mine),
    )
    removed = foreign.remove(request, context)
    assert removed.tools == (mine,)
    assert removed.messages[0].content == (mine, Text(text="x"))
    assert removed.messages[1].content[1] == result("b", "")
    assert [line.what for line in context.receipt] == ["server_tool_use", "search_result", "web_search_20250305"]


def test_an_item_that_was_read_into_fields_is_no_loss() -> None:
    item = Message(role="developer", content=(Opaque("openai_responses", {"type": "additional_tools", "tools": []}),))
    context = to(CHAT, source="openai_responses", source_can=own_keys(cosmetic={"additional_tools": "a reason"}))
    assert foreign.remove(asked(item, user()), context).messages[0].content == ()
    assert lines(context) == ["note messages[0].content[0]"]


def test_containers_in_containers_without_end_are_no_harm() -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(5_000):
        deep = {"choice": deep}
    ((path, key),) = foreign.find_lost_fields(deep, own_keys(containers=frozenset({"choice"})).receipt)
    assert (len(path), key) == (5_000 * len("choice.") + 1, "x")


def reported(client: str, upstream: str, *events: Event) -> list[str]:
    receipt = Receipt()
    reporter = Reporter(DIALECTS[client], DIALECTS[upstream], receipt)
    for event in events:
        assert list(reporter.feed(event)) == [event]
    return [f"{line.severity} {line.where}" for line in receipt]


def test_fields_of_citations_are_told_on_the_way_back() -> None:
    cited = Close(index=0, citations=(Citation(url="https://x.test", native={"anthropic": {"encrypted_index": "x"}}),))
    assert reported("openai_chat", "anthropic", cited) == ["loss content[0].citations[0].encrypted_index"]
    assert reported("anthropic", "anthropic", cited) == []


def test_what_usage_says_besides_counts_is_told() -> None:
    native = {
        "anthropic": {"geo": "us", "server_tool_use": {"web_search_requests": 0}, "cache_tokens": 5, "none": None}
    }
    finish = Finish(stop=Stop("end"), usage=Usage(native=native))
    assert reported("openai_chat", "anthropic", finish) == ["note usage.geo", "note usage.cache_tokens"]


def test_a_reason_to_stop_that_the_client_has_no_word_for_is_told() -> None:
    finish = Finish(stop=Stop("other", "LANGUAGE"))
    assert reported("anthropic", "gemini", finish) == ["loss stop"]
    assert reported("gemini", "gemini", finish) == []


def test_a_stop_sequence_that_the_client_cannot_be_told_is_noted() -> None:
    finish = Finish(stop=Stop("stop_sequence", "stop_sequence", sequence="END"))
    assert reported("openai_chat", "anthropic", finish) == ["note stop.sequence"]
    assert reported("anthropic", "openai_chat", finish) == []
