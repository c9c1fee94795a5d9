from __future__ import annotations

from typing import Literal

import pytest

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.ir import Message, Reasoning, Request, Text, Thinking, ToolCall, replace
from toolglot.passes import reasoning
from toolglot.passes.reasoning import UNSIGNED

from .targets import ANTHROPIC, CHAT, GEMINI, RESPONSES, answered, asked, calls, lines, result, said, to, user

SIGNED = Thinking(text="Hm", native={"anthropic": {"signature": "c2ln"}})
REDACTED = Thinking(native={"anthropic": {"data": "AAAA"}})


def thought(*blocks: Thinking | ToolCall | Text) -> Message:
    return Message(role="assistant", content=blocks)


def signatures(request: Request) -> list[str | None]:
    return [
        block.native.get("gemini", {}).get("thoughtSignature")
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolCall)
    ]


def test_reasoning_goes_back_to_its_owner_untouched() -> None:
    request = asked(user(), thought(SIGNED, REDACTED, Text(text="So")))
    context = to(ANTHROPIC, source="openai_chat")
    assert reasoning.settle(request, context) is request
    assert not context.receipt


def test_reasoning_without_state_stays_in_its_own_dialect() -> None:
    request = asked(user(), thought(Thinking(text="unsigned"), Text(text="So")))
    assert reasoning.settle(request, to(ANTHROPIC, source="anthropic")) is request


@pytest.mark.parametrize("aliased", [True, False])
@pytest.mark.parametrize("takes", ["owned", "text", "none"])
def test_an_imitator_that_takes_no_reasoning_is_not_given_its_own(
    aliased: bool, takes: Literal["owned", "text", "none"]
) -> None:
    request = asked(user(), thought(SIGNED, Text(text="So")))
    context = to(
        change_capabilities(ANTHROPIC, thinking=takes), source="anthropic", target="anthropic", aliased=aliased
    )
    settled = reasoning.settle(request, context)
    if aliased and takes == "none":
        assert settled.messages[1].content == (Text(text="So"),)
        assert lines(context) == ["loss messages[1]"]
    else:
        assert settled is request
        assert lines(context) == []


@pytest.mark.parametrize(
    ("fields", "aliased", "stays"),
    [
        ({"$field": "reasoning", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, True, True),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "x"}]}, True, True),
        ({"$part": True}, True, True),
        ({"$field": "reasoning_content"}, True, False),
        ({"$field": "reasoning_content", "$twice": True}, True, False),
        ({"$field": "reasoning_content"}, False, True),
    ],
)
def test_state_in_the_clients_own_field_goes_back_and_mere_words_do_not_under_an_alias(
    fields: dict[str, object], aliased: bool, stays: bool
) -> None:
    """OpenRouter and LiteLLM serve models of OpenAI under these names, and want their state back."""
    request = asked(user(), thought(Thinking(text="hm", native={"openai_chat": fields}), Text(text="So")))
    can = change_capabilities(CHAT, thinking="owned")
    context = to(can, source="openai_chat", target="openai_chat", aliased=aliased)
    settled = reasoning.settle(request, context)
    assert (settled is request) == stays
    assert lines(context) == ([] if stays else ["loss messages[1]"])


@pytest.mark.parametrize("can", [RESPONSES, GEMINI])
def test_reasoning_of_another_model_is_left_out_with_one_line_per_message(can: Capabilities) -> None:
    context = to(can, source="anthropic")
    request = reasoning.settle(asked(user(), thought(SIGNED, REDACTED, Text(text="So"))), context)
    assert request.messages[1].content == (Text(text="So"),)
    assert lines(context) == ["loss messages[1]"]


def test_reasoning_text_is_welcome_where_the_target_takes_any() -> None:
    context = to(CHAT, source="anthropic")
    request = reasoning.settle(asked(user(), thought(SIGNED, Text(text="So"))), context)
    assert request.messages[1].content[0] == SIGNED
    assert lines(context) == ["note messages[1]"]


def test_reasoning_that_is_only_opaque_state_is_a_loss_elsewhere() -> None:
    context = to(CHAT, source="anthropic")
    request = reasoning.settle(asked(user(), thought(REDACTED, Text(text="So"))), context)
    assert request.messages[1].content == (Text(text="So"),)
    assert lines(context) == ["loss messages[1]"]


def test_gemini_gets_a_mark_on_the_first_call_of_each_unsigned_step_alone() -> None:
    own = ToolCall(id="c", name="look", native={"gemini": {"thoughtSignature": "cmVhbA=="}})
    request = asked(
        user(),
        calls("a", "b"),
        answered(result("a"), result("b")),
        thought(own),
        answered(result("c")),
        calls("d"),
        calls("e"),
        model="gemini-3-pro",
    )
    settled = reasoning.settle(request, to(GEMINI, source="openai_chat"))
    assert signatures(settled) == [UNSIGNED, None, "cmVhbA==", UNSIGNED, None]


@pytest.mark.parametrize(
    ("model", "marked"),
    [
        ("gemini-2.5-pro", False),
        ("models/gemini-1.5-flash", False),
        ("gemma-3-27b", False),
        ("gemini-3.1-flash", True),
        ("gemini-12", True),
        ("mine", True),
    ],
)
def test_only_models_since_gemini_3_ask_for_signatures(model: str, marked: bool) -> None:
    settled = reasoning.settle(asked(user(), calls("a"), model=model), to(GEMINI))
    assert signatures(settled) == [UNSIGNED if marked else None]


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "mine"])
def test_a_gemini_client_speaks_for_itself(model: str) -> None:
    request = asked(user(), calls("a"), model=model)
    assert reasoning.settle(request, to(GEMINI, source="gemini")) is request


def test_a_gemini_client_may_have_had_an_answer_of_another_model() -> None:
    own = ToolCall(id="b", name="look", native={"gemini": {"thoughtSignature": "cmVhbA=="}})
    request = asked(user(), calls("a"), answered(result("a")), thought(own), model="gemini-3-pro")
    assert signatures(reasoning.settle(request, to(GEMINI, source="gemini"))) == [UNSIGNED, "cmVhbA=="]


def test_a_claude_client_may_have_had_an_answer_of_another_model() -> None:
    """Its own turns begin with reasoning and may go on without."""
    own = (user(), thought(SIGNED, ToolCall(id="a", name="look")), answered(result("a")), calls("b"))
    for history, mode in ((own, "on"), ((user(), calls("a")), "off"), ((*own, user("more"), calls("c")), "off")):
        request = asked(*history, reasoning=Reasoning(mode="on", budget_tokens=2000))
        settled = reasoning.settle(request, to(ANTHROPIC, source="anthropic"))
        assert settled.reasoning is not None
        assert settled.reasoning.mode == mode


def item(message: Message, item_id: str) -> Message:
    native = {"openai_responses": {"id": item_id, "status": "completed"}}
    content = tuple(replace(block, native=native) for block in message.content if isinstance(block, ToolCall))
    return replace(message, content=content) if content else replace(message, native=native)


def item_ids(request: Request) -> list[str | None]:
    nodes = [node for message in request.messages for node in (message, *message.content)]
    found = [node.native["openai_responses"].get("id") for node in nodes if "openai_responses" in node.native]
    return [each for each in found if each is not None]


OWN_REASONING = thought(Thinking(native={"openai_responses": {"encrypted_content": "x"}}))


def test_responses_gets_no_ids_of_items_that_it_has_not_made() -> None:
    history = (user(), OWN_REASONING, item(said("So"), "msg_r1_0"), item(calls("a"), "fc_r1_1"), answered(result("a")))
    more = (OWN_REASONING, item(said("Now"), "msg_0a1b"), item(calls("b"), "fc_2c3d"))
    context = to(RESPONSES, source="openai_responses")
    settled = reasoning.settle(asked(*history, *more), context)
    assert item_ids(settled) == ["msg_0a1b", "fc_2c3d"]
    assert lines(context) == ["note messages[2]", "note messages[3]"]
    assert reasoning.settle(settled, to(RESPONSES, source="openai_responses")) is settled


def test_an_item_keeps_the_id_that_its_maker_has_given_it_behind_its_own_reasoning() -> None:
    """Whatever the id looks like: servers that imitate the API number their items, too."""
    made = {"openai_responses": {"id": "rs_r1_0", "encrypted_content": "x"}}
    history = (user(), thought(Thinking(native=made)), item(said("So"), "msg_r1_1"), item(calls("a"), "fc_r1_2"))
    others = (answered(result("a")), item(said("Now"), "msg_r2_0"), user(), item(said("Yes"), "msg_r3_0"))
    context = to(RESPONSES, source="openai_responses")
    settled = reasoning.settle(asked(*history, *others), context)
    assert item_ids(settled) == ["rs_r1_0", "msg_r1_1", "fc_r1_2"]
    assert lines(context) == ["note messages[5]", "note messages[7]"]


def test_an_item_that_is_nothing_but_foreign_reasoning_is_left_out_and_no_empty_message_stands_for_it() -> None:
    history = (user(), thought(SIGNED), item(said("So"), "msg_r2_1"), user("More"))
    context = to(RESPONSES, source="openai_responses")
    settled = reasoning.settle(asked(*history), context)
    assert [message.role for message in settled.messages] == ["user", "assistant", "user"]
    assert settled.messages[1].content == (Text(text="So"),)
    assert lines(context) == ["loss messages[1]", "note messages[2]"]
    empty = asked(user(), Message(role="assistant"), user("More"))
    assert reasoning.settle(empty, to(RESPONSES, source="openai_responses")) is empty


def test_responses_gets_no_ids_of_calls_whose_reasoning_is_lost() -> None:
    history = (
        user(),
        item(said("So"), "msg_0a"),
        item(calls("a"), "fc_0b"),
        answered(result("a")),
        item(said("x"), "msg_1"),
    )
    settled = reasoning.settle(asked(*history), to(RESPONSES, source="openai_responses"))
    assert item_ids(settled) == ["msg_1"]
    never = change_capabilities(RESPONSES, fields=RESPONSES.parameters.fields - {"reasoning"})
    context = to(never, source="openai_responses", target="openai_responses")
    assert item_ids(reasoning.settle(asked(*history), context)) == ["msg_0a", "fc_0b", "msg_1"]


def test_of_what_nobody_has_signed_the_receipt_says_that_it_may_be_anybodys() -> None:
    unsigned = Thinking(text="Let me see.")
    signed = replace(unsigned, native={"anthropic": {"signature": "s"}})
    call = ToolCall(id="a", name="f", arguments="{}")
    told: list[list[str]] = []
    for thinking in (unsigned, signed):
        context = to(GEMINI, source="openai_chat", target="gemini")
        request = asked(user(), Message(role="assistant", content=(thinking, call)), answered(result("a")))
        reasoning.settle(replace(request, model="gemini-3-pro"), context)
        told.append([line.why for line in context.receipt if line.what != "reasoning state"])
    assert told == [
        [
            "it cannot be given back, because its origin is unknown",
            "marked as another model's call, because its origin is unknown",
        ],
        ["reasoning of another model cannot be given back", "marked as another model's call"],
    ]


def test_a_new_turn_changes_no_mark_before_it() -> None:
    history = (user(), calls("a"), answered(result("a")), said("ok"))
    shorter = reasoning.settle(asked(*history), to(GEMINI))
    longer = reasoning.settle(asked(*history, user("more"), calls("b")), to(GEMINI))
    assert longer.messages[:4] == shorter.messages


@pytest.mark.parametrize("wanted", [Reasoning(mode="on"), Reasoning(mode="auto"), Reasoning(effort="high")])
def test_thinking_is_off_for_a_turn_whose_calls_lost_their_thinking(wanted: Reasoning) -> None:
    context = to(ANTHROPIC, source="openai_chat")
    request = reasoning.settle(asked(user(), calls("a"), answered(result("a")), reasoning=wanted), context)
    assert request.reasoning == Reasoning(mode="off")
    assert lines(context) == ["loss reasoning"]


def test_thinking_stays_on_when_the_turn_has_its_own_or_is_over() -> None:
    own = thought(SIGNED, ToolCall(id="a", name="look"))
    split = (thought(SIGNED), thought(ToolCall(id="a", name="look")))
    for history in ((user(), own), (user(), *split), (user(), calls("a"), answered(result("a")), said("x"), user("y"))):
        request = asked(*history, reasoning=Reasoning(mode="on", budget_tokens=2000))
        assert reasoning.settle(request, to(ANTHROPIC)).reasoning == request.reasoning


@pytest.mark.parametrize("source", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("carried", [True, False])
def test_thinking_stays_on_in_a_turn_that_starts_with_thinking(source: str, carried: bool) -> None:
    """Claude without interleaved thinking reasons in the first step of a tool loop alone."""
    first = thought(SIGNED, Text(text="So"), ToolCall(id="a", name="look"))
    history = (user(), first, answered(result("a")), calls("b"), answered(result("b")))
    request = asked(*history, reasoning=Reasoning(mode="on", budget_tokens=2000))
    context = to(ANTHROPIC, source=source, carried=carried)
    assert reasoning.settle(request, context) is request
    assert not context.receipt


def test_thinking_is_off_in_a_turn_that_starts_with_something_else() -> None:
    later = thought(SIGNED, ToolCall(id="b", name="look"))
    of_turn_before = (user(), later, answered(result("b")), said("Done"), user("More"))
    for history in (
        (user(), calls("a"), answered(result("a")), later, answered(result("b"))),
        (user(), said("So"), later, answered(result("b"))),
        (*of_turn_before, calls("a"), answered(result("a"))),
    ):
        request = asked(*history, reasoning=Reasoning(mode="on", budget_tokens=2000))
        settled = reasoning.settle(request, to(ANTHROPIC, source="openai_chat"))
        assert settled.reasoning == Reasoning(mode="off")


def test_thinking_stays_on_where_it_cannot_be_off_or_needs_no_beginning() -> None:
    request = asked(user(), calls("a"), answered(result("a")), reasoning=Reasoning(mode="on"))
    for can in (
        change_capabilities(ANTHROPIC, reasoning_off=False),
        change_capabilities(ANTHROPIC, reasoning_budget=False),
    ):
        assert reasoning.settle(request, to(can, target="anthropic")) is request


def test_the_mark_for_calls_of_other_models_is_no_state() -> None:
    call = ToolCall(id="a", name="look", native={"gemini": {"thoughtSignature": UNSIGNED}})
    context = to(CHAT, source="gemini")
    reasoning.settle(asked(user(), thought(call), answered(result("a"))), context)
    assert not context.receipt
