"""Bytes, written down and read with a reader that knows no protobuf library."""

from __future__ import annotations

from base64 import urlsafe_b64decode

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
from tests.dialects.warp.raw import every, fields, numbers, only, texts
from tests.warp_server import story
from tests.warp_server.messages import encode
from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Media, Request, Response, Source, Stop, StopReason, Text, Thinking, ToolCall, Usage, replace
from toolglot.receipt import Receipt

TASK_CONTEXT, INPUT, SETTINGS, MCP_CONTEXT = 1, 2, 3, 6
INPUTS = (INPUT, 6, 1)
HISTORY = (TASK_CONTEXT, 1, 5)


def test_the_plainest_request_to_the_byte() -> None:
    request = Request(model="auto", messages=(user("hi"),))
    assert encode_request(request).hex(" ") == (
        "12 0a 32 08 0a 06 0a 04 0a 02 68 69 "  # input.user_inputs.inputs[0].user_query.query = "hi"
        "1a 10 0a 06 0a 04 61 75 74 6f "  # settings.model_config.base = "auto"
        "20 01 "  # supports_parallel_tool_calls
        "4a 01 09 "  # supported_tools = [CALL_MCP_TOOL], packed
        "88 01 01"  # supports_reasoning_message
    )


def test_a_result_is_field_12_of_an_input_and_field_16_of_a_history() -> None:
    data = encode_request(TWO_CALLS)
    assert [numbers(entry) for entry in every(data, *INPUTS, 2)] == [[1, 12], [1, 12]]
    later = encode_request(make_request(*TWO_CALLS.messages, assistant(Text(text="Mild.")), user("Thanks")))
    assert [numbers(entry) for entry in every(later, *HISTORY, 5)] == [[1, 16], [1, 16]]
    assert texts(later, *HISTORY, 5, 16, 1, 1, 1, 1) == ["12 C"]
    assert texts(later, *HISTORY, 5, 16, 2, 1) == ["no such city"]


def test_a_call_is_field_12_of_a_call_with_its_arguments_in_a_struct() -> None:
    data = encode_request(TWO_CALLS)
    assert texts(data, *HISTORY, 4, 1) == ["call-1", "call-2"]
    assert texts(data, *HISTORY, 4, 12, 1) == ["get_weather", "get_weather"]
    assert texts(data, *HISTORY, 4, 12, 2, 1, 1) == ["city", "city"]
    assert texts(data, *HISTORY, 4, 12, 2, 1, 2, 3) == ["Paris", "Rome"]


def test_every_message_of_a_history_has_its_number_and_its_task() -> None:
    data = encode_request(
        make_request(user("a"), assistant(Thinking(text="hm"), Text(text="b"), call("c")), result("c"), user("d"))
    )
    assert [numbers(message) for message in every(data, *HISTORY)] == [[1, 2, 11], [1, 11, 15], [1, 3, 11], [1, 4, 11]]
    assert set(texts(data, *HISTORY, 11)) == set(texts(data, TASK_CONTEXT, 1, 1))
    assert texts(data, *HISTORY, 15, 1) == ["hm"]


def test_tools_stand_flat_with_their_schema_as_a_struct() -> None:
    tool = only(encode_request(TWO_CALLS), MCP_CONTEXT, 2)
    assert texts(tool, 1) == ["get_weather"]
    assert texts(tool, 2) == ["Weather"]
    assert sorted(texts(tool, 3, 1, 1)) == ["properties", "required", "type"]


def test_an_image_is_base64_text_beside_the_input_or_beside_its_query() -> None:
    image = Media(kind="image", source=Source("base64", "aGVsbG8=", "image/png"))
    first = encode_request(make_request(user("What is this?", image)))
    assert every(first, INPUT, 1, 7, 1) == [b"aGVsbG8="]
    assert texts(first, INPUT, 1, 7, 2) == ["image/png"]
    later = encode_request(make_request(user("What is this?", image), assistant(Text(text="A dog")), user("And now?")))
    assert every(later, *HISTORY, 2, 2, 7, 1) == [b"aGVsbG8="]


def test_an_image_in_a_result_is_one_of_its_results() -> None:
    image = Media(kind="image", source=Source("base64", "aGVsbG8=", "image/png"))
    data = encode_request(make_request(user("a"), assistant(call("c")), result("c", Text(text="see"), image)))
    assert [numbers(item) for item in every(data, *INPUTS, 2, 12, 1, 1)] == [[1], [2]]
    assert every(data, *INPUTS, 2, 12, 1, 1, 2, 1) == [b"aGVsbG8="]


@pytest.mark.parametrize(
    ("request_of", "queries"),
    [
        pytest.param(make_request(system("Be brief."), user("hi")), ["hi"], id="a user's turn"),
        pytest.param(TWO_CALLS, [""], id="a turn of results"),
        pytest.param(make_request(system("Be brief.")), [""], id="nothing else"),
    ],
)
def test_the_system_prompt_is_an_attachment_of_the_input(request_of: Request, queries: list[str]) -> None:
    data = encode_request(request_of)
    assert texts(data, *INPUTS, 1, 1) == queries
    assert texts(data, *INPUTS, 1, 2, 1) == ["SYSTEM_PROMPT"]
    assert texts(data, *INPUTS, 1, 2, 2, 1) == ["Be brief."]


ANSWER = Response(
    id="req-1",
    content=(Text(text="Hi"), ToolCall(id="c1", name="get", arguments='{"n":5}')),
    stop=Stop("tool_calls"),
    usage=Usage(input_tokens=7, output_tokens=3),
)


def payloads(stream: bytes) -> list[bytes]:
    found = []
    for event in stream.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        assert name == "event:data"
        assert data.startswith("data:")
        found.append(urlsafe_b64decode(data[5:]))
    return found


def test_a_stream_for_a_client_of_warp_is_init_task_messages_and_finished() -> None:
    init, task, text, called, finished = payloads(WARP.encode_response(ANSWER, None, Receipt()))
    assert numbers(only(init, 1)) == [1, 2]
    assert texts(init, 1, 2) == ["req-1"]
    (root,) = texts(task, 2, 1, 1, 1, 1)
    assert texts(text, 2, 1, 3, 1) == [root]
    assert texts(text, 2, 1, 3, 2, 11) == [root]
    assert texts(text, 2, 1, 3, 2, 3, 1) == ["Hi"]
    assert texts(called, 2, 1, 3, 2, 4, 1) == ["c1"]
    assert only(called, 2, 1, 3, 2, 4, 12, 2, 1, 2, 2) == bytes.fromhex("0000000000001440")  # 5.0
    assert finished.hex(" ") == "1a 08 12 00 42 04 10 07 18 03"


def test_text_that_goes_on_is_appended_under_a_mask() -> None:
    encoder = WARP.stream_encoder(None, Receipt())
    events: list[Event] = [Start(id="r"), Open(0, Text(text="")), Delta(0, "Hel"), Delta(0, "lo"), Close(index=0)]
    written_so_far = payloads(b"".join(map(encoder.feed, [*events, Finish(stop=Stop("end"))])))
    added, appended = written_so_far[2], written_so_far[3]
    assert texts(added, 2, 1, 3, 2, 3, 1) == ["Hel"]
    change = only(appended, 2, 1, 5)
    assert numbers(change) == [1, 2, 3]
    assert texts(change, 1, 1) == texts(added, 2, 1, 3, 2, 1)
    assert texts(change, 1, 3, 1) == ["lo"]
    assert texts(change, 2, 1) == ["agent_output.text"]
    assert numbers(change).count(2) == 1


def test_fields_come_in_the_order_of_their_numbers_and_the_same_in_every_run() -> None:
    data = encode_request(TWO_CALLS)
    assert [field.number for field in fields(data)] == sorted(field.number for field in fields(data))
    assert all(encode_request(TWO_CALLS) == data for _ in range(3))


def test_a_client_that_has_a_task_is_answered_in_it_and_in_its_conversation() -> None:
    asking = encode(
        "Request",
        {
            "task_context": {"tasks": [{"id": "task-7", "messages": [story.asked(1, "a"), story.said(2, "b")]}]},
            "input": {"user_inputs": {"inputs": [{"user_query": {"query": "c"}}]}},
            "metadata": {"conversation_id": "conversation-7"},
        },
    )
    stream = payloads(WARP.encode_response(ANSWER, WARP.decode_request(asking), Receipt()))
    assert texts(stream[0], 1, 1) == ["conversation-7"]
    assert [texts(event, 2, 1, 3, 1) for event in stream[1:-1]] == [["task-7"], ["task-7"]]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ApiError(kind="billing", message="m"), 4),
        (ApiError(kind="bad_request", code="context_length_exceeded", message="m"), 5),
        (ApiError(kind="overloaded", message="m"), 6),
        (ApiError(kind="rate_limit", message="m"), 6),
        (ApiError(kind="authentication", message="m"), 12),
        (ApiError(kind="server", message="m"), 7),
    ],
)
def test_an_error_in_a_stream_is_a_reason_to_finish(error: ApiError, reason: int) -> None:
    encoder = WARP.stream_encoder(None, Receipt())
    init, finished = payloads(encoder.feed(Fault(error)))
    assert numbers(init) == [1]
    assert numbers(only(finished, 3)) == [reason]
    assert texts(finished, 3, 7, 1) == (["m"] if reason == 7 else [])


@pytest.mark.parametrize(("reason", "number"), [("end", 2), ("tool_calls", 2), ("length", 3), ("context_full", 5)])
def test_a_stop_is_a_reason_to_finish(reason: StopReason, number: int) -> None:
    *_, finished = payloads(WARP.encode_response(replace(ANSWER, stop=Stop(reason), usage=None), None, Receipt()))
    assert numbers(only(finished, 3)) == [number]


def test_a_call_that_was_cut_is_no_call() -> None:
    cut = replace(ANSWER, content=(ToolCall(id="c", name="f", arguments='{"a":', complete=False),), stop=Stop("length"))
    receipt = Receipt()
    stream = payloads(WARP.encode_response(cut, None, receipt))
    assert [found for event in stream for found in every(event, 2, 1, 3, 2, 4)] == []
    assert [text for event in stream for text in texts(event, 2, 1, 3, 2, 3, 1)] == ['[tool call f was cut off: {"a":]']
    assert len(receipt.losses) == 1
