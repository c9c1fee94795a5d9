from __future__ import annotations

import pytest
from msgspec.structs import replace

from toolglot.capabilities import Capabilities
from toolglot.ir import CONTINUES, Media, Message, Opaque, Source, Text, ToolCall, ToolResult
from toolglot.passes import history
from toolglot.passes.history import INTERRUPTED

from .targets import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    TARGETS,
    answered,
    asked,
    calls,
    lines,
    result,
    said,
    texts,
    to,
    user,
)


def shape(*messages: Message) -> list[list[str]]:
    """Role, then what stands inside."""
    shown = []
    for message in messages:
        row = [message.role]
        for block in message.content:
            match block:
                case ToolCall(id=call_id):
                    row.append(f"call {call_id}")
                case ToolResult(call_id=call_id, is_error=is_error):
                    row.append(f"result {call_id}" + (" error" if is_error else ""))
                case _:
                    row.append(type(block).__name__)
        shown.append(row)
    return shown


@pytest.mark.parametrize("can", [ANTHROPIC, CHAT, GEMINI, RESPONSES])
def test_a_call_without_result_gets_one_that_says_so(can: Capabilities) -> None:
    context = to(can)
    request = history.repair(asked(user(), calls("a", "b"), answered(result("b")), user("Go on")), context)
    made = request.messages[2].content[0]
    assert request.messages[2].role == can.calls.results_role
    assert made == ToolResult(call_id="a", name="look", is_error=True, content=(Text(text=INTERRUPTED),))
    assert shape(*request.messages[3:]) == [["tool", "result b"], ["user", "Text"]]
    assert not context.receipt.losses


def test_calls_at_the_very_end_get_results_too() -> None:
    request = history.repair(asked(user(), calls("a", "b")), to(CHAT))
    assert shape(*request.messages[2:]) == [["tool", "result a error"], ["tool", "result b error"]]


def test_results_stand_in_call_order_and_text_moves_behind_them() -> None:
    context = to(CHAT)
    between = Message(role="system", content=(Text(text="By the way"),))
    request = history.repair(
        asked(user(), calls("a", "b"), answered(result("b")), between, answered(result("a")), said("ok")), context
    )
    assert shape(*request.messages[2:]) == [
        ["tool", "result a"],
        ["tool", "result b"],
        ["system", "Text"],
        ["assistant", "Text"],
    ]
    assert lines(context) == ["note messages[2]"]


def test_an_empty_message_between_results_moves_behind_them() -> None:
    empty = Message(role="user")
    request = history.repair(
        asked(user(), calls("a", "b"), answered(result("a")), empty, answered(result("b"))), to(CHAT)
    )
    assert shape(*request.messages[2:]) == [["tool", "result a"], ["tool", "result b"], ["user"]]


def test_results_of_one_user_message_stay_in_one_message_before_its_text() -> None:
    mixed = Message(role="user", content=(Text(text="so:"), result("b"), result("a"), Text(text="go on")))
    request = history.repair(asked(user(), calls("a", "b"), mixed), to(CHAT, source="anthropic"))
    assert shape(*request.messages[2:]) == [
        ["user", "result a"],
        ["user", "result b"],
        ["user", "Text", "Text"],
    ] or shape(*request.messages[2:]) == [["user", "result a", "result b"], ["user", "Text", "Text"]]


def test_calls_of_neighbouring_assistant_messages_are_one_batch() -> None:
    context = to(CHAT, source="openai_responses")
    request = asked(user(), calls("a"), said("and"), calls("b"), answered(result("a")), answered(result("b")))
    assert history.repair(request, context) is request
    assert not context.receipt


def test_a_result_without_call_is_user_text_that_names_its_tool() -> None:
    context = to(CHAT)
    image = Media(kind="image", source=Source("base64", "AAAA", "image/png"))
    orphan = ToolResult(call_id="gone", name="look", content=(Text(text="sunny"), image))
    request = history.repair(asked(user(), said("Hm"), answered(orphan), user("Next")), context)
    assert shape(*request.messages[2:]) == [["user", "Text", "Text", "Media"], ["user", "Text"]]
    assert "look" in texts(request.messages[2])[0]
    assert lines(context) == ["loss messages[2].content[0]"]


def test_an_empty_result_without_call_is_left_out_and_told() -> None:
    context = to(CHAT)
    request = history.repair(asked(answered(result("gone", "")), user()), context)
    assert shape(*request.messages) == [["user", "Text"]]
    assert lines(context) == ["loss messages[0].content[0]"]


def test_of_two_results_for_one_call_the_first_counts() -> None:
    context = to(CHAT)
    request = history.repair(asked(user(), calls("a"), answered(result("a", "1")), answered(result("a", "2"))), context)
    assert request.messages[2:] == (answered(result("a", "1")),)
    assert lines(context) == ["loss messages[3].content[0]"]


def test_results_of_a_call_that_yields_several_are_one_result() -> None:
    """Gemini's `willContinue`: a call that does not block is a generator, and its last result may be empty."""
    context = to(CHAT)
    first = replace(result("a", "1"), native={**CONTINUES, "gemini": {"x": 1}})
    second, last = replace(result("a", "2"), native=CONTINUES), ToolResult(call_id="a")
    messages = (answered(first, result("b")), answered(second), answered(last, result("a", "3")))
    request = history.repair(asked(user(), calls("a", "b"), *messages), context)
    whole = replace(result("a", "1"), content=(Text(text="1"), Text(text="2")), native={"gemini": {"x": 1}})
    assert request.messages[2:] == (answered(whole, result("b")),)
    assert lines(context) == [
        "note messages[3].content[0]",
        "note messages[4].content[0]",
        "loss messages[4].content[1]",
    ]


LATE = "it moves to its call, which is in another turn"
MARK = "[The result of look arrived here; it is shown with its call.]"


def test_a_result_that_comes_after_the_next_turn_moves_to_its_call() -> None:
    context = to(CHAT)
    late = result("a", "late", name="look")
    request = history.repair(asked(user(), calls("a"), said("waiting"), user("?"), said("…"), answered(late)), context)
    assert request.messages[3:] == (answered(late), user("?"), said("…"), user(MARK))
    assert [str(line) for line in context.receipt] == [f"note: messages[5].content[0]: result of look (a): {LATE}"]


@pytest.mark.parametrize(
    ("messages", "shaped", "told"),
    [
        (  # the slow one of two parallel calls, after an answer with another call
            (calls("a", "b"), answered(result("a")), calls("c"), answered(result("b")), answered(result("c"))),
            ["call a call b", "result a", "result b", "call c", "result c"],
            ["note messages[4].content[0]"],
        ),
        (  # both slow, the later one first
            (calls("a", "b"), user("?"), said("…"), answered(result("b")), said("…"), answered(result("a")), user()),
            ["call a call b", "result a", "result b", "Text", "Text", "Text", "Text", "Text"],
            ["note messages[4].content[0]", "note messages[6].content[0]"],
        ),
        (  # in one message with the results of the next batch
            (calls("a", "b"), answered(result("a")), calls("c"), answered(result("c"), result("b"))),
            ["call a call b", "result a", "result b", "call c", "result c"],
            ["note messages[4].content[1]"],
        ),
        (  # before its call
            (answered(result("a")), calls("a"), user("?")),
            ["call a", "result a", "Text"],
            ["note messages[1].content[0]"],
        ),
        (  # each batch has the results of the other
            (calls("a"), answered(result("b")), calls("b"), answered(result("a"))),
            ["call a", "result a", "call b", "result b"],
            ["note messages[2].content[0]", "note messages[4].content[0]"],
        ),
        (  # a second one, late
            (calls("a"), answered(result("a")), said("Hm"), answered(result("a", "more"))),
            ["call a", "result a", "Text", "Text Text"],
            ["loss messages[4].content[0]"],
        ),
        (  # two late ones for one call
            (calls("a"), user("?"), said("Hm"), answered(result("a")), answered(result("a", "more"))),
            ["call a", "result a", "Text", "Text", "Text Text"],
            ["note messages[4].content[0]", "loss messages[5].content[0]"],
        ),
    ],
)
def test_results_reach_their_calls_in_whatever_turn_they_stand(
    messages: tuple[Message, ...], shaped: list[str], told: list[str]
) -> None:
    context = to(CHAT)
    request = history.repair(asked(user("Begin"), *messages), context)
    assert [" ".join(rest) for _, *rest in shape(*request.messages)] == ["Text", *shaped]
    assert sorted(lines(context)) == sorted(told)
    assert history.repair(request, to(CHAT)) is request


def test_late_results_of_a_long_history_take_linear_time_and_stay_whole() -> None:
    count = 20_000
    names = [f"c{number}" for number in range(count)]
    turns = [each for name in names for each in (calls(name), user("?"))]
    request = history.repair(asked(user(), *turns, said("Hm"), answered(*map(result, names), role="user")), to(CHAT))
    assert [
        block.call_id for message in request.messages for block in message.content if type(block) is ToolResult
    ] == names


def test_an_assistant_message_without_content_is_left_out() -> None:
    context = to(CHAT)
    request = history.repair(asked(user(), Message(role="assistant"), user("?")), context)
    assert shape(*request.messages) == [["user", "Text"], ["user", "Text"]]
    assert lines(context) == ["note messages[1]"]


def test_an_empty_result_stays_empty() -> None:
    request = asked(user(), calls("a"), answered(result("a", "")))
    assert history.repair(request, to(CHAT)) is request


def test_blocks_of_server_side_tools_stay_where_they_are() -> None:
    server = Opaque("anthropic", {"type": "server_tool_use", "id": "srvtoolu_1"})
    request = asked(user(), Message(role="assistant", content=(server, Text(text="found"))), user("thanks"))
    assert history.repair(request, to(CHAT, source="anthropic")) is request


def test_a_dialect_keeps_its_own_histories() -> None:
    request = asked(answered(result("stored")), calls("a"))
    context = to(RESPONSES, source="openai_responses")
    assert history.repair(request, context) is request
    assert not context.receipt


@pytest.mark.parametrize(
    ("messages", "shaped"),
    [
        ((calls("a"), said("Hm"), user("go")), ["calls a", "error a", "text", "user"]),
        ((calls("a"), said("Hm"), answered(result("a")), user("go")), ["calls a", "result a", "text", "user"]),
        (
            (calls("a"), calls("b"), answered(result("b")), answered(result("a"))),
            ["calls a", "result a", "calls b", "result b"],
        ),
        ((said("Hm"), calls("a"), answered(result("a"))), ["text", "calls a", "result a"]),
    ],
)
def test_chat_clients_get_results_right_behind_the_message_with_the_calls(
    messages: tuple[Message, ...], shaped: list[str]
) -> None:
    """Nothing merges the assistant's messages on the way from Chat to Chat, and OpenAI refuses one in between."""
    context = to(CHAT, source="openai_chat")
    request = history.pair(asked(user(), *messages), context)
    words = {"call": "calls", "result": "result", "Text": "text"}
    told = []
    for role, *rest in shape(*request.messages[1:]):
        kind, _, more = rest[0].partition(" ")
        told.append("user" if role == "user" else f"{words[kind]} {more}".strip())
    assert told == [each.replace("error a", "result a error") for each in shaped]
    assert not context.receipt.losses


@pytest.mark.parametrize("name", ["anthropic", "gemini", "openai_responses"])
def test_where_messages_of_the_assistant_are_one_turn_they_stay_together(name: str) -> None:
    request = asked(user(), calls("a"), said("Hm"), answered(result("a")))
    assert history.pair(request, to(TARGETS[name], source=name)) is request


def test_one_more_turn_changes_nothing_before_it() -> None:
    broken = [user(), calls("a", "b"), answered(result("b")), user("?"), said("Hm"), user("go")]
    shorter = history.repair(asked(*broken), to(CHAT))
    longer = history.repair(asked(*broken, calls("c"), answered(result("c"))), to(CHAT))
    assert longer.messages[: len(shorter.messages)] == shorter.messages
