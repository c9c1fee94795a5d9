"""The three ways to tell Warp what was said before."""

from __future__ import annotations

from base64 import b64decode
from itertools import pairwise
from typing import Any

import pytest

from tests.dialects.warp.conversations import (
    TWO_CALLS,
    WARP,
    assistant,
    call,
    encode_request,
    make_request,
    result,
    system,
    user,
)
from tests.dialects.warp.raw import every, numbers, only, texts
from tests.warp_server import frames, story
from tests.warp_server.agent import TOKEN, Agent, three_turns
from tests.warp_server.messages import decode, encode
from toolglot.dialects.warp.tasks import Tasks
from toolglot.errors import DecodeError
from toolglot.ir import Media, Message, Request, Source, Text, Tool, ToolCall, ToolResult, replace, with_native
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

INPUTS = (2, 6, 1)
HISTORY = (1, 1, 5)
TOOLS = (
    Tool(name="get_weather", parameters={"type": "object", "properties": {}}),
    Tool(name="get_time", parameters={"type": "object", "properties": {}}),
)
HEADERS = {
    "content-type": "application/x-protobuf",
    "accept": "text/event-stream",
    "authorization": f"Bearer {TOKEN}",
}


def first_turns(request: Request) -> bytes:
    """A stream in which the server echoes what was asked and calls twice."""
    return frames.stream(
        [
            story.init(),
            story.create_task(story.ROOT, "", server_data="b3BhcXVl"),
            story.add(story.asked("u", "How is it?", server_message_data=story.OPAQUE)),
            story.add(story.called("c1", "call-1", "get_weather", {"city": "Paris"}, server_message_data="eA==")),
            story.add(story.called("c2", "call-2", "get_weather", {"city": "Rome"}, x_new={"n": 1})),
            story.finished(),
        ]
    )


def kept_tasks(request: Request, stream: bytes) -> Tasks:
    tasks = Tasks(encode_request(request))
    for at in range(0, len(stream), 11):
        tasks.feed(stream[at : at + 11])
    return tasks


ASKED = make_request(system("Be brief."), user("How is it?"))
CALLED = (
    *ASKED.messages,
    assistant(call("call-1", '{"city":"Paris"}'), call("call-2", '{"city":"Rome"}')),
    result("call-1", Text(text="12 C")),
    result("call-2", Text(text="15 C")),
)


def encode_replay(messages: tuple[Message, ...], tasks: Tasks, covered: int, receipt: Receipt | None = None) -> bytes:
    native = {"history": "replay", "tasks": tasks.tasks(), "covered": covered}
    metadata = {"conversation_id": tasks.conversation_id}
    return encode_request(with_native(make_request(*messages), "warp", **native, metadata=metadata), receipt)


def test_a_replay_sends_the_servers_tasks_as_they_were_and_the_rest_as_inputs() -> None:
    stream = first_turns(ASKED)
    tasks = kept_tasks(ASKED, stream)
    assert tasks.finished
    data = encode_replay(CALLED, tasks, 3)
    sent = decode("Request", data)
    (task,) = sent["task_context"]["tasks"]
    assert task["server_data"] == "b3BhcXVl"
    assert [message["id"] for message in task["messages"]] == ["m-u", "m-c1", "m-c2"]
    assert task["messages"][0]["server_message_data"] == story.OPAQUE
    assert task["messages"][2]["x_new"] == {"n": 1}
    assert texts(data, *INPUTS, 2, 1) == ["call-1", "call-2"]
    assert texts(data, 4, 1) == [story.CONVERSATION]
    assert texts(data, *INPUTS, 1, 2, 2, 1) == ["Be brief."]


def test_what_the_server_did_not_echo_is_part_of_the_tasks_all_the_same() -> None:
    first = kept_tasks(ASKED, first_turns(ASKED))
    sent = with_native(
        make_request(*CALLED),
        "warp",
        history="replay",
        tasks=first.tasks(),
        covered=3,
        metadata={"conversation_id": "x"},
    )
    answer = frames.stream([story.init(), *story.spoken("Mild.", number="t"), story.finished()])
    second = kept_tasks(sent, answer)
    messages = (*CALLED, assistant(Text(text="Mild.")), user("Thanks"))
    data = encode_replay(messages, second, 6)
    kinds = [[number for number in numbers(message) if number in (2, 3, 4, 5)] for message in every(data, *HISTORY)]
    assert kinds == [[2], [4], [4], [5], [5], [3]]
    assert texts(data, *HISTORY, 5, 16, 1, 1, 1, 1) == ["12 C", "15 C"]
    assert b"Be brief." not in only(data, 1)
    assert texts(data, *INPUTS, 1, 1) == ["Thanks"]


def test_a_picture_of_a_question_that_the_server_did_not_echo_stays_with_it() -> None:
    image = {"data": "aGk=", "mime_type": "image/png"}
    inputs = {"inputs": [{"user_query": {"query": "see"}}]}
    sent = encode("Request", {"input": {"context": {"images": [image]}, "user_inputs": inputs}})
    tasks = Tasks(sent)
    tasks.feed(frames.stream([story.init(), story.create_task(story.ROOT), *story.spoken("Hi"), story.finished()]))
    (root,) = (decode("Task", b64decode(task)) for task in tasks.tasks())
    assert root["messages"][0]["user_query"] == {"query": "see", "context": {"images": [image]}}


def test_calls_that_nobody_answers_are_cancelled() -> None:
    tasks = kept_tasks(ASKED, first_turns(ASKED))
    data = encode_replay((*ASKED.messages, user("Never mind")), tasks, 3)
    cancelled = [entry for entry in every(data, *HISTORY, 5) if 14 in numbers(entry)]
    assert [texts(entry, 1) for entry in cancelled] == [["call-1"], ["call-2"]]


def answers_to(*ids: str) -> tuple[Message, ...]:
    """The conversation of a client that has other ids for the same calls."""
    first, second = ids
    return (
        *ASKED.messages,
        assistant(call(first, '{"city":"Paris"}'), call(second, '{"city":"Rome"}')),
        result(second, Text(text="15 C")),
        result(first, Text(text="12 C")),
    )


@pytest.mark.parametrize("ids", [("toolu_1", "toolu_2"), ("call-2", "call-1"), ("", "x")])
def test_results_bear_the_ids_that_their_calls_have_in_the_task(ids: tuple[str, str]) -> None:
    receipt = Receipt()
    data = encode_replay(answers_to(*ids), kept_tasks(ASKED, first_turns(ASKED)), 3, receipt)
    assert texts(data, *INPUTS, 2, 1) == ["call-2", "call-1"]
    assert texts(data, *INPUTS, 2, 12, 1, 1, 1, 1) == ["15 C", "12 C"]
    assert every(data, *HISTORY, 5) == []  # nothing is cancelled
    assert not receipt.losses


def test_a_call_that_the_client_never_saw_takes_nobodys_result() -> None:
    hidden = story.message("h", "tool_call", {"tool_call_id": "h", "grep": {"queries": ["x"]}})
    seen = story.called("c", "call-1", "get_weather", {"city": "Paris"})
    for calls in ([hidden, seen], [seen, hidden]):
        stream = frames.stream([story.init(), story.create_task(story.ROOT, "", *calls), story.finished()])
        messages = (*ASKED.messages, assistant(call("toolu_1")), result("toolu_1", Text(text="12 C")))
        data = encode_replay(messages, kept_tasks(ASKED, stream), 3)
        assert texts(data, *INPUTS, 2, 1) == ["call-1"]
        assert texts(data, *HISTORY, 5, 1) == ["h"]  # which is cancelled


def test_a_later_call_may_have_the_id_of_an_earlier_one() -> None:
    """As those do that are made from what is called."""
    tasks = kept_tasks(ASKED, first_turns(ASKED))
    again = (assistant(call("x", '{"city":"Rome"}')), result("x", Text(text="16 C")))
    data = encode_replay((*answers_to("x", "y"), *again), tasks, 3)
    assert texts(data, *HISTORY, 5, 1) == ["call-2", "call-1"]
    assert texts(data, *INPUTS, 2, 1) == ["x"]


@pytest.mark.parametrize(
    ("calls", "messages"),
    [
        ([story.called("a", "", "get_weather"), story.called("b", "", "get_weather")], answers_to("x", "y")),
        ([story.called("a", "1", "get_weather"), story.called("b", "1", "get_weather")], answers_to("x", "y")),
        ([story.called("b", "call-2", "get_weather")], answers_to("x", "y")),
        ([story.called("a", "call-1", "get_time"), story.called("b", "call-2", "get_time")], answers_to("x", "y")),
        (
            [story.called("a", "call-1", "get_weather"), story.called("b", "call-2", "get_weather")],
            (*answers_to("x", "y"), assistant(call("call-1")), result("call-1", Text(text="?"))),
        ),
    ],
    ids=["no ids", "one id for two", "a call that is not there", "other calls", "an id that is taken"],
)
def test_where_it_cannot_be_told_whose_a_result_is_the_conversation_is_told_anew(
    calls: list[Any], messages: tuple[Message, ...]
) -> None:
    stream = frames.stream([story.init(), story.create_task(story.ROOT, "", *calls), story.finished()])
    receipt = Receipt()
    data = encode_replay(messages, kept_tasks(ASKED, stream), 3, receipt)
    assert data == encode_request(
        make_request(*messages)
    )  # as another conversation: the server's id is not there either
    assert "it is sent in full" in str(receipt)


@pytest.mark.parametrize(
    ("tool", "body", "answer", "path", "told"),
    [
        ("run_shell_command", {"command": "ls"}, "a.txt", (2, 5, 1), b"a.txt"),
        ("read_files", {"#1": [[2, "CgFh"]]}, "text", (3, 1, 1, 2), b"text"),
        ("file_glob", {"#1": [[2, "Kg=="]]}, "a.txt", (9, 1, 1), b"a.txt"),
        ("grep", {"queries": ["x"]}, "nothing found", (8, 2, 1), b"nothing found"),
        ("grep", {"queries": ["x"]}, '{"success":{"matched_files":[{"file_path":"a"}]}}', (8, 1, 1, 1), b"a"),
    ],
)
def test_a_built_in_tools_call_is_answered_in_its_own_kind(
    tool: str, body: dict[str, object], answer: str, path: tuple[int, ...], told: bytes
) -> None:
    called = story.message("b", "tool_call", {"tool_call_id": "b", tool: body})
    stream = frames.stream([story.init(), story.create_task(story.ROOT, "", called), story.finished()])
    messages = (*ASKED.messages, assistant(call("b", "{}", tool)), result("b", Text(text=answer)))
    receipt = Receipt()
    data = encode_replay(messages, kept_tasks(ASKED, stream), 3, receipt)
    assert every(data, *INPUTS, 2, *path) == [told]
    assert [line.what for line in receipt.losses] == (["result of grep"] if path[:2] == (8, 2) else [])
    assert every(data, *INPUTS, 2, 12) == []


def test_without_tasks_a_replay_is_native() -> None:
    assert encode_request(with_native(TWO_CALLS, "warp", history="replay")) == encode_request(TWO_CALLS)


def test_a_rolled_back_transaction_is_no_part_of_the_tasks() -> None:
    stream = frames.stream(
        [
            story.init(),
            story.create_task(),
            story.begin(),
            *story.spoken("no", "pe", number="x"),
            story.rollback(),
            *story.spoken("y", "es", number="y"),
            story.finished(),
        ]
    )
    tasks = kept_tasks(ASKED, stream)
    data = encode_replay((*ASKED.messages, assistant(Text(text="yes")), user("ok")), tasks, 3)
    assert texts(data, *HISTORY, 3, 1) == ["yes"]


@pytest.mark.parametrize("history", ["native", "replay", "text"])
def test_three_turns_with_a_server_that_is_strict_about_histories(history: str) -> None:
    agent = Agent(three_turns, history)  # type: ignore[arg-type]
    messages: list[Message] = [system("Be brief."), user("Weather and time?")]
    tasks, covered, conversation = None, 0, ""
    for turn in range(3):
        request = replace(make_request(*messages), tools=TOOLS)
        native: dict[str, Any] = {
            "history": history,
            **({"metadata": {"conversation_id": conversation}} if conversation else {}),
        }
        if history == "replay" and tasks is not None:
            native |= {"tasks": tasks.tasks(), "covered": covered}
        request = with_native(request, "warp", **native)
        sent = encode_request(request)
        stream = frames.stream(agent.answer(HEADERS, sent))
        tasks = Tasks(sent)
        tasks.feed(stream)
        conversation = tasks.conversation_id if history == "replay" else ""
        answer = WARP.decode_response(stream)
        messages.append(Message(role="assistant", content=answer.content))
        covered = len(messages)
        if turn == 0:
            calls = [block for block in answer.content if isinstance(block, ToolCall)]
            messages += [
                Message(role="tool", content=(ToolResult(call_id=made.id, content=(Text(text=f"{made.name}!"),)),))
                for made in calls
            ]
        else:
            messages.append(user("And?"))
    assert all("Be brief." in "".join(heard.system) for heard in agent.heard)
    assert agent.heard[1].results == ["get_weather!", "get_time!"]


def test_a_text_has_the_layout_that_servers_were_seen_to_take() -> None:
    receipt = Receipt()
    data = encode_request(with_native(TWO_CALLS, "warp", history="text"), receipt)
    assert every(data, 1) == []
    assert texts(data, *INPUTS, 1, 1) == [
        "User: How is it in Paris and in Rome?\n\n"
        "Assistant: Let me see.\n"
        'Tool calls: Called get_weather (call-1) with args: {"city":"Paris"};'
        ' Called get_weather (call-2) with args: {"city":"Rome"}\n\n'
        "Tool result (call-1): 12 C\n\n"
        "Tool error (call-2): no such city\n\n"
        "User: Please analyze the tool results above and provide your response."
    ]
    assert texts(data, *INPUTS, 1, 2, 2, 1) == ["Be brief."]
    assert not receipt.losses


def test_a_first_question_is_told_in_its_own_words() -> None:
    data = encode_request(with_native(make_request(user("User: hi")), "warp", history="text"))
    assert texts(data, *INPUTS, 1, 1) == ["User: hi"]


def test_a_text_counts_its_images() -> None:
    image = Media(kind="image", source=Source("base64", "aGk=", "image/png"))
    data = encode_request(
        with_native(
            make_request(user("see", image), assistant(Text(text="ok")), user("and", image)), "warp", history="text"
        )
    )
    (query,) = texts(data, *INPUTS, 1, 1)
    assert query.index("[image 1]") < query.index("[image 2]")
    assert len(every(data, 2, 1, 7)) == 2


def test_a_strategy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DecodeError, match="there is no strategy 'memory'"):
        encode_request(with_native(ASKED, "warp", history="memory"))


def test_a_longer_history_extends_the_shorter_one() -> None:
    turns = [ASKED.messages, CALLED, (*CALLED, assistant(Text(text="Mild.")), user("Thanks"))]
    past = [every(encode_request(make_request(*messages)), *HISTORY) for messages in turns]
    for shorter, longer in pairwise(past):
        assert longer[: len(shorter)] == shorter


def test_a_second_conversation_in_a_request_is_told_where_there_is_room_for_one() -> None:
    def task(number: int, **more: Any) -> dict[str, Any]:
        return {"id": f"t-{number}", "messages": [story.asked(number, f"{number}?")], **more}

    query = {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}}
    inner = task(3, dependencies={"parent_task_id": "t-1"})
    for tasks, told in (([task(1), task(2), inner], 1), ([task(1), {"id": "t-2"}, inner], 0)):
        data = encode("Request", {"task_context": {"tasks": tasks}, "input": query})
        assert decode("Request", encode_request(WARP.decode_request(data))) == decode("Request", data)
        exchange = ExchangeCore("warp", "openai_chat", model="m")
        exchange.request(data)
        lines = [line for line in exchange.receipt.losses if line.where == "other_conversations"]
        assert len(lines) == told
