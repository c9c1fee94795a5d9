from __future__ import annotations

from toolglot.ir import Cache, Message, Request, Text, Thinking, ToolCall, replace
from toolglot.passes import turns

from .targets import ANTHROPIC, CHAT, GEMINI, RESPONSES, answered, asked, calls, lines, result, said, to, user
from .test_history import shape


def test_results_and_text_after_them_are_one_user_turn() -> None:
    request = asked(user(), calls("a", "b"), answered(result("a")), answered(result("b")), user("Go on"))
    grouped = turns.group(request, to(ANTHROPIC, source="openai_chat"))
    assert shape(*grouped.messages) == [
        ["user", "Text"],
        ["assistant", "call a", "call b"],
        ["user", "result a", "result b", "Text"],
    ]


def test_results_come_first_in_a_user_turn() -> None:
    mixed = Message(role="user", content=(Text(text="so"), result("a")))
    grouped = turns.group(asked(user(), calls("a"), mixed), to(GEMINI))
    assert shape(grouped.messages[2]) == [["user", "result a", "Text"]]


def test_a_user_turn_with_results_is_split_where_results_have_a_role() -> None:
    mixed = Message(role="user", content=(result("a"), result("b"), Text(text="Go on")))
    grouped = turns.group(asked(user(), calls("a", "b"), mixed), to(CHAT, source="anthropic"))
    assert shape(*grouped.messages[2:]) == [["tool", "result a"], ["tool", "result b"], ["user", "Text"]]


def test_neighbouring_assistant_items_are_one_turn_in_order() -> None:
    request = asked(
        user(), said("pre"), calls("a"), said("mid"), calls("b"), answered(result("a")), answered(result("b"))
    )
    grouped = turns.group(request, to(CHAT, source="openai_responses"))
    assert shape(grouped.messages[1]) == [["assistant", "Text", "call a", "Text", "call b"]]


def test_items_stay_apart_where_the_target_has_items() -> None:
    request = asked(user(), said("pre"), calls("a"), answered(result("a")))
    assert turns.group(request, to(RESPONSES, source="anthropic")) is request


def test_system_messages_are_not_merged() -> None:
    system = Message(role="system", content=(Text(text="Be kind"),))
    grouped = turns.group(asked(system, system, user(), user("again")), to(ANTHROPIC))
    assert shape(*grouped.messages) == [["system", "Text"], ["system", "Text"], ["user", "Text", "Text"]]


def test_empty_text_goes_where_the_target_refuses_it_and_hands_its_breakpoint_on() -> None:
    content = (Text(text="Hello"), Text(text=" \n", cache=Cache()))
    grouped = turns.group(asked(Message(role="user", content=content), said(""), user("?")), to(ANTHROPIC))
    assert grouped.messages[0].content[0] == Text(text="Hello", cache=Cache())
    assert shape(*grouped.messages) == [["user", "Text", "Text"]]


def test_the_empty_text_at_the_end_of_a_turn_does_not_come_between_calls_and_results() -> None:
    empty = Text(text="", native={"gemini": {"$piece": True}})
    beside = Message(role="assistant", content=(*calls("a").content, empty))
    for turn in ((calls("a"), Message(role="assistant", content=(empty,))), (beside,)):
        grouped = turns.group(asked(user(), *turn, answered(result("a"))), to(RESPONSES, source="gemini"))
        assert shape(*grouped.messages[1:]) == [["assistant", "call a"], ["tool", "result a"]]


def test_empty_text_stays_where_it_carries_state_of_the_target() -> None:
    context = to(RESPONSES, source="gemini")
    for owner, stays in ((context.target, True), ("gemini", False)):
        signed = Message(role="assistant", content=(Text(text="", native={owner: {"thoughtSignature": "c2ln"}}),))
        grouped = turns.group(asked(user(), calls("a"), signed, answered(result("a"))), context)
        assert (signed in grouped.messages) is stays


def test_an_answer_of_nothing_but_empty_text_stays() -> None:
    request = asked(user(), said(""), user("?"))
    assert turns.group(request, to(RESPONSES, source="gemini")) is request


def test_empty_text_inside_a_result_goes_and_the_result_stays() -> None:
    empty = replace(result("a"), content=(Text(text=""),))
    grouped = turns.group(asked(user(), calls("a"), answered(empty)), to(ANTHROPIC))
    assert grouped.messages[2].content == (result("a", ""),)


def test_a_conversation_that_the_assistant_begins_gets_a_user_message_in_front() -> None:
    context = to(ANTHROPIC)
    grouped = turns.group(asked(said("Welcome"), user()), context)
    assert shape(*grouped.messages) == [["user", "Text"], ["assistant", "Text"], ["user", "Text"]]
    assert lines(context) == ["loss messages[0]"]


def test_a_system_prompt_alone_gets_a_user_message() -> None:
    system = Message(role="system", content=(Text(text="Be kind"),))
    for can in (ANTHROPIC, GEMINI, RESPONSES):
        context = to(can)
        assert shape(*turns.group(asked(system), context).messages) == [["system", "Text"], ["user", "Text"]]
        assert lines(context) == ["loss messages"]
    context = to(CHAT)
    assert shape(*turns.group(asked(system), context).messages) == [["system", "Text"]]
    assert not context.receipt


def test_a_conversation_of_which_nothing_is_left_gets_a_user_message() -> None:
    context = to(ANTHROPIC)
    assert shape(*turns.group(asked(user(" ")), context).messages) == [["user", "Text"]]
    assert lines(context) == ["note messages[0]", "loss messages"]


def test_nothing_is_made_up_for_a_client_that_said_nothing() -> None:
    for can in (ANTHROPIC, CHAT, RESPONSES, GEMINI):
        context = to(can)
        assert turns.group(asked(), context).messages == ()
        assert lines(context) == ["loss messages"]


def test_an_empty_user_message_that_goes_is_told() -> None:
    context = to(ANTHROPIC)
    grouped = turns.group(asked(user(), said("Well"), Message(role="user"), user("more")), context)
    assert shape(*grouped.messages) == [["user", "Text"], ["assistant", "Text"], ["user", "Text"]]
    assert lines(context) == ["note messages[2]"]


def test_a_message_of_which_nothing_is_left_goes_whatever_its_role() -> None:
    emptied = [Message(role=role) for role in ("developer", "user", "assistant")]
    context = to(CHAT, source="openai_responses")
    assert turns.group(asked(*emptied, user()), context).messages == (user(),)
    assert lines(context) == ["note messages[0]", "note messages[1]", "note messages[2]"]
    # A conversation of nothing else is not made shorter than it was.
    request = asked(Message(role="user"))
    assert turns.group(request, to(CHAT, source="openai_responses")) is request


def test_pieces_of_one_text_are_joined_for_others() -> None:
    def piece(text: str) -> Text:
        return Text(text=text, native={"gemini": {"$piece": True}})

    def thought(text: str) -> Thinking:
        return Thinking(text=text, native={"gemini": {"$piece": True, "thought": True}})

    spoken = Message(role="assistant", content=(thought("H"), thought("m"), piece("Hel"), piece("lo"), Text(text="!")))
    request = asked(user(), spoken, user())
    context = to(CHAT, source="gemini")
    content = turns.group(request, context).messages[1].content
    assert [block.text for block in content if isinstance(block, Text | Thinking)] == ["Hm", "Hello", "!"]
    assert turns.group(request, to(GEMINI, source="gemini")) is request


def test_an_assistant_message_at_the_end_is_followed_by_the_wish_to_go_on() -> None:
    context = to(ANTHROPIC)
    grouped = turns.group(asked(user(), said("Once upon")), context)
    assert shape(*grouped.messages)[-1] == ["user", "Text"]
    assert lines(context) == ["loss messages[1]"]


def test_fields_of_merged_messages_are_those_of_the_first() -> None:
    context = to(ANTHROPIC)
    noted = replace(user(), native={"anthropic": {"clear_at": 1}})
    grouped = turns.group(asked(noted, user("more")), context)
    assert grouped.messages[0].native == noted.native
    assert lines(context) == ["note messages[0]"]


def test_a_dialect_keeps_its_own_grouping() -> None:
    request: Request = asked(user(), user("more"), calls("a"), answered(result("a"), role="user"), user("so"))
    context = to(ANTHROPIC, source="anthropic")
    assert turns.group(request, context) is request
    assert not context.receipt


def test_grouping_keeps_every_call() -> None:
    grouped = turns.group(asked(user(), calls("a"), calls("b")), to(GEMINI))
    assert [b.id for b in grouped.messages[1].content if isinstance(b, ToolCall)] == ["a", "b"]
