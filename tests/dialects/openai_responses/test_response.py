"""Response objects of the Responses API, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.api import translate_request, translate_response, translate_stream
from toolglot.dialects.openai_responses.dialect import OPENAI_RESPONSES
from toolglot.errors import DecodeError, UpstreamError
from toolglot.ir import (
    Block,
    Citation,
    Media,
    Message,
    Opaque,
    Refusal,
    Request,
    Response,
    Source,
    Stop,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "final_answer",
    "content": [
        {"type": "output_text", "text": "one", "annotations": [], "logprobs": []},
        {"type": "output_text", "text": "two", "annotations": [{"type": "url_citation", "url": "https://a"}]},
        {"type": "novel_part", "novel": 1},
        {"type": "refusal", "refusal": "no"},
    ],
}
EMPTY = {"type": "message", "id": "msg_2", "role": "assistant", "status": "incomplete", "content": []}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    "encrypted_content": "c2VjcmV0",
    "status": None,
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"a": 1.0}',
    "status": "completed",
}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "exec", "input": "text()"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
USAGE: dict[str, Any] = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 5},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 7},
    "total_tokens": 80,
}


def body(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1763164800,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
        **fields,
    }


def decode(*output: dict[str, Any], **fields: Any) -> Response:
    return OPENAI_RESPONSES.decode_response(json.dumps(body(*output, **fields)).encode())


def encode(response: Response, request: Request | None = None) -> dict[str, Any]:
    receipt = Receipt()
    written: dict[str, Any] = json.loads(OPENAI_RESPONSES.encode_response(response, request, receipt))
    assert not receipt, str(receipt)
    return written


def output(*blocks: Block, **fields: Any) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = encode(Response(id="resp_1", content=blocks, **fields))["output"]
    return written


@pytest.mark.parametrize(
    "wire",
    [
        body(),
        body(MESSAGE),
        body(MESSAGE, {**MESSAGE, "id": "msg_9"}),
        body(EMPTY),
        body(MESSAGE, EMPTY, REASONING, CALL, CUSTOM, SEARCH, EMPTY),
        body({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "bare"}]}),
        body({"type": "message", "id": "msg_3", "role": "assistant", "status": "completed", "content": None}),
        body({"type": "message", "id": "msg_3", "role": "critic", "status": "completed", "content": []}),
        body({"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "x"}]}),
        body({"type": "reasoning", "summary": []}),
        body({**CALL, "arguments": "", "namespace": "ns", "caller": {"type": "direct"}}),
        body({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
        body({**CALL, "arguments": "{", "status": "incomplete"}, status="incomplete"),
        body(status="incomplete", incomplete_details={"reason": "max_output_tokens"}, usage=None),
        body(status="in_progress", background=True),
        body(created_at=1763164800.5),
        body(usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "novel": None}),
        body(service_tier="default", metadata={}, novel={"deep": [None]}, instructions="be brief"),
        {"output": [CALL], "status": "completed"},
    ],
    ids=lambda wire: ",".join(item["type"] for item in wire["output"]) or "no items",
)
def test_a_response_comes_back_as_it_came(wire: dict[str, Any]) -> None:
    once = OPENAI_RESPONSES.encode_response(
        OPENAI_RESPONSES.decode_response(json.dumps(wire).encode()), None, Receipt()
    )
    assert json.loads(once) == wire
    assert OPENAI_RESPONSES.encode_response(OPENAI_RESPONSES.decode_response(once), None, Receipt()) == once


# What is read


def test_the_blocks_of_all_items_form_one_list() -> None:
    response = decode(REASONING, MESSAGE, SEARCH, CALL, CUSTOM)
    thinking, one, two, part, refusal, search, call, custom = response.content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "a\n\nb"
    assert thinking.native["openai_responses"]["encrypted_content"] == "c2VjcmV0"
    assert isinstance(one, Text)
    assert isinstance(two, Text)
    assert (one.text, two.text) == ("one", "two")
    assert [citation.url for citation in two.citations] == ["https://a"]
    assert isinstance(part, Opaque)
    assert isinstance(refusal, Refusal)
    assert search == Opaque("openai_responses", SEARCH)
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.arguments, call.complete) == ("call_1", "f", '{"a": 1.0}', True)
    assert isinstance(custom, ToolCall)
    assert (custom.id, custom.kind, custom.arguments) == ("call_2", "custom", "text()")


def test_the_envelope_is_read() -> None:
    response = decode()
    assert (response.id, response.model, response.created) == ("resp_1", "gpt-5", 1763164800)
    assert response.usage is not None
    assert replace(response.usage, native={}) == Usage(
        input_tokens=50, output_tokens=30, cached_tokens=10, cache_write_tokens=5, reasoning_tokens=7
    )


def test_what_repeats_the_request_means_nothing_to_others() -> None:
    native = decode(instructions="be brief", temperature=1.0, novel=1).native["openai_responses"]
    assert [key for key in native if not key.startswith("$")] == ["novel"]


@pytest.mark.parametrize(
    ("items", "fields", "reason", "raw"),
    [
        ((MESSAGE | {"content": MESSAGE["content"][:2]},), {}, "end", "completed"),
        ((MESSAGE,), {}, "refusal", "completed"),
        ((MESSAGE, CALL), {}, "tool_calls", "completed"),
        ((CUSTOM,), {}, "tool_calls", "completed"),
        (
            (CALL,),
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            "max_output_tokens",
        ),
        (
            (),
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "filtered",
            "content_filter",
        ),
        ((), {"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "other", "steered"),
        ((), {"status": "incomplete"}, "length", "incomplete"),
        ((), {"status": "incomplete", "incomplete_details": {"reason": "length"}}, "length", "length"),
        ((), {"status": "incomplete", "incomplete_details": {"reason": "max_tokens"}}, "length", "max_tokens"),
        ((), {"status": "queued", "background": True}, "other", "queued"),
        ((), {"status": None}, "end", "completed"),
    ],
)
def test_stop_reasons(items: tuple[dict[str, Any], ...], fields: dict[str, Any], reason: StopReason, raw: str) -> None:
    assert decode(*items, **fields).stop == Stop(reason, raw)


def test_a_call_that_was_cut_is_not_complete() -> None:
    (call,) = decode({**CALL, "arguments": '{"a', "status": "incomplete"}, status="incomplete").content
    assert isinstance(call, ToolCall)
    assert (call.arguments, call.complete) == ('{"a', False)


def test_a_failed_response_is_an_error() -> None:
    with pytest.raises(UpstreamError) as caught:
        decode(status="failed", error={"code": "rate_limit_exceeded", "message": "slow down"})
    assert (caught.value.error.kind, caught.value.error.message) == ("rate_limit", "slow down")


@pytest.mark.parametrize("status", ["cancelled", "queued", "in_progress"])
def test_a_response_that_is_no_answer_is_an_error(status: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        decode(status=status)
    assert (caught.value.error.kind, caught.value.error.message) == ("server", f"The response is {status}")


def test_a_stop_reason_that_no_other_api_has_is_reported() -> None:
    exchange = ExchangeCore("openai_chat", "openai_responses")
    steered = body(status="incomplete", incomplete_details={"reason": "steered"})
    exchange.response(json.dumps(steered).encode())
    assert [(line.where, line.what) for line in exchange.receipt.losses] == [("stop", "steered")]
    assert encode(OPENAI_RESPONSES.decode_response(json.dumps(steered).encode())) == steered


def test_usage_may_be_as_deep_as_a_document_may_be() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"a": deep}
    wire = body(usage={**USAGE, "novel": deep})
    assert encode(OPENAI_RESPONSES.decode_response(json.dumps(wire).encode())) == wire


def test_a_message_that_was_cut_is_incomplete() -> None:
    said = (Text(text="one"), ToolCall(id="a", name="f"), Text(text="tw"))
    for stop, status in ((Stop("length"), "incomplete"), (Stop("filtered"), "incomplete"), (Stop("end"), "completed")):
        items = encode(Response(content=said, stop=stop))["output"]
        assert [item["status"] for item in items] == ["completed", "completed", status]


def test_a_failed_response_may_say_nothing_more() -> None:
    with pytest.raises(UpstreamError) as caught:
        decode(status="failed")
    assert (caught.value.error.kind, caught.value.error.message) == ("server", "The response is failed")


def test_an_error_envelope_is_an_error() -> None:
    with pytest.raises(UpstreamError):
        OPENAI_RESPONSES.decode_response(b'{"error": {"message": "no", "type": "server_error"}}')


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"null", "$"),
        (b"{}", "$.output"),
        (b'{"output": 5}', "$.output"),
        (b'{"output": [5]}', "$.output[0]"),
        (b'{"output": [], "created_at": "now"}', "$.created_at"),
        (b'{"output": [{"type": "message", "content": 5}]}', "$.output[0].content"),
        (b'{"output": [{"type": "function_call", "name": "f", "arguments": []}]}', "$.output[0].arguments"),
    ],
)
def test_a_document_that_is_no_response_is_refused_with_its_path(data: bytes, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        OPENAI_RESPONSES.decode_response(data)
    assert caught.value.where == where


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        OPENAI_RESPONSES.decode_response(data)
    except (DecodeError, UpstreamError):
        return


# What is written for responses from elsewhere


def test_blocks_become_items_with_derived_ids() -> None:
    assert output(
        Thinking(text="hm"),
        Text(text="hi", citations=(Citation(url="https://a", title="A"),)),
        Text(text="again"),
        Refusal(text="no"),
        ToolCall(id="a", name="f", arguments=""),
        ToolCall(id="b", name="exec", kind="custom", arguments="x", namespace="ns"),
        Media(kind="image", source=Source("base64", "aGk=", "image/png")),
    ) == [
        {"id": "rs_1_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "id": "msg_1_1",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "hi",
                    "annotations": [
                        {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
                    ],
                    "logprobs": [],
                }
            ],
        },
        {
            "id": "msg_1_2",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "again", "annotations": [], "logprobs": []}],
        },
        {
            "id": "msg_1_3",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "no"}],
        },
        {
            "id": "fc_1_4",
            "type": "function_call",
            "status": "completed",
            "call_id": "a",
            "name": "f",
            "arguments": "{}",
        },
        {
            "id": "ctc_1_5",
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": "b",
            "name": "exec",
            "namespace": "ns",
            "input": "x",
        },
        {"id": "ig_1_6", "type": "image_generation_call", "status": "completed", "result": "aGk="},
    ]


@pytest.mark.parametrize("response_id", ["", "chatcmpl-é/1", "x" * 200])
def test_derived_ids_are_legal_for_any_response_id(response_id: str) -> None:
    (item,) = encode(Response(id=response_id, content=(Text(text="hi"),)))["output"]
    assert item["id"].startswith("msg_")
    assert len(item["id"]) <= 64
    assert item["id"].replace("_", "").replace("-", "").isalnum()
    assert item["id"].isascii()


def test_carried_reasoning_state_has_its_place() -> None:
    carried = Thinking(text="", native={"openai_responses": {"encrypted_content": "envelope"}})
    assert output(carried) == [{"id": "rs_1_0", "type": "reasoning", "summary": [], "encrypted_content": "envelope"}]


def test_a_cut_call_is_incomplete_and_its_arguments_are_not_mended() -> None:
    cut = ToolCall(id="a", name="f", arguments='{"a', complete=False)
    bare = ToolCall(id="b", name="f", complete=False)
    assert [(item["status"], item["arguments"]) for item in output(cut, bare, stop=Stop("length"))] == [
        ("incomplete", '{"a'),
        ("incomplete", ""),
    ]


@pytest.mark.parametrize(
    ("stop", "status", "details"),
    [
        (Stop("end"), "completed", None),
        (Stop("tool_calls"), "completed", None),
        (Stop("other"), "completed", None),
        (Stop("length"), "incomplete", {"reason": "max_output_tokens"}),
        (Stop("context_full"), "incomplete", {"reason": "max_output_tokens"}),
        (Stop("filtered"), "incomplete", {"reason": "content_filter"}),
        (Stop("refusal"), "incomplete", {"reason": "content_filter"}),
    ],
)
def test_statuses(stop: Stop, status: str, details: Any) -> None:
    written = encode(Response(stop=stop))
    assert (written["status"], written["incomplete_details"], written["error"]) == (status, details, None)


def test_a_refusal_in_words_completes_the_response() -> None:
    assert encode(Response(content=(Refusal(text="no"),), stop=Stop("refusal")))["status"] == "completed"


def test_a_call_that_could_not_be_read_is_no_failure_of_the_server() -> None:
    written = encode(Response(stop=Stop("malformed_call", detail="bad call")))
    assert (written["status"], written["error"]) == ("incomplete", None)


def test_usage_has_both_details() -> None:
    usage = Usage(input_tokens=50, output_tokens=30, cached_tokens=10, cache_write_tokens=5, reasoning_tokens=7)
    assert encode(Response(usage=usage))["usage"] == USAGE
    lifetimes = {"cache_write_tokens_details": {"ttl_30m_tokens": 5, "ttl_12h_tokens": 0}}
    details = {"input_tokens_details": {**USAGE["input_tokens_details"], **lifetimes}}
    assert encode(Response(usage=replace(usage, cache_write_long_tokens=0)))["usage"] == {**USAGE, **details}


def test_usage_that_was_changed_is_written_anew() -> None:
    response = decode()
    assert response.usage is not None
    more = replace(response, usage=replace(response.usage, output_tokens=31))
    assert encode(more)["usage"]["total_tokens"] == 81


def test_the_object_is_whole_and_repeats_the_request() -> None:
    request = OPENAI_RESPONSES.decode_request(
        json.dumps(
            {
                "model": "alias",
                "instructions": "be brief",
                "input": [{"role": "user", "content": "long"}],
                "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
                "tool_choice": {"type": "function", "name": "f"},
                "parallel_tool_calls": False,
                "temperature": 0.5,
                "reasoning": {"effort": "low"},
                "text": {"verbosity": "low"},
                "store": False,
                "previous_response_id": "resp_0",
                "metadata": {"a": "b"},
            }
        ).encode()
    )
    written = encode(Response(id="resp_1", model="upstream", created=7), request)
    assert written == {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "model": "upstream",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "completed_at": None,
        "background": False,
        "frequency_penalty": 0.0,
        "instructions": "be brief",
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "presence_penalty": 0.0,
        "previous_response_id": "resp_0",
        "prompt_cache_key": None,
        "reasoning": {"effort": "low", "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True, "description": None}],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
        "output": [],
        "usage": None,
    }


def test_content_that_a_response_cannot_carry_is_reported() -> None:
    receipt = Receipt()
    response = Response(
        content=(
            ToolResult(call_id="a"),
            Opaque("anthropic", {"type": "server_tool_use"}),
            Media(kind="audio", source=Source("base64", "UklGRg==", "audio/wav")),
        ),
        stop=Stop("pause"),
    )
    written = json.loads(OPENAI_RESPONSES.encode_response(response, None, receipt))
    assert written["output"] == []
    assert [line.where for line in receipt.losses] == ["content[0]", "content[1]", "content[2]", "stop"]


def test_a_response_becomes_history_item_by_item() -> None:
    """A gateway that keeps responses sends them back as the items they were."""
    items = [REASONING, MESSAGE, {**MESSAGE, "id": "msg_9"}, CALL]
    message = Message(role="assistant", content=decode(*items).content)
    request = Request(model="m", messages=(message,), native={"openai_responses": {"store": True}})
    written = json.loads(OPENAI_RESPONSES.encode_request(request, Receipt()))["input"]
    assert [item.get("id") for item in written] == ["rs_1", "msg_1", "msg_9", "fc_1"]
    assert written[1]["phase"] == "final_answer"
    assert written[1]["content"] == [
        MESSAGE["content"][0],
        MESSAGE["content"][1],
        MESSAGE["content"][2],
        MESSAGE["content"][3],
    ]


IMAGE_ITEM = {
    "id": "ig_1",
    "type": "image_generation_call",
    "status": "completed",
    "background": "opaque",
    "output_format": "webp",
    "quality": "high",
    "result": "QUJD",
    "size": "1024x1024",
}


def image_answer(**fields: Any) -> dict[str, Any]:
    text = {"type": "output_text", "text": "Look:", "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [text]}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**head, "output": [message, {**IMAGE_ITEM, **fields}]}


def image_stream(answer: dict[str, Any]) -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(answer["output"]):
        begun = {**item, "status": "in_progress", **({"result": None} if "result" in item else {"content": []})}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": answer})
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def test_an_image_that_the_model_made_reaches_gemini_and_chat_clients() -> None:
    answer = image_answer()
    whole = translate_response(json.dumps(answer), "openai_responses", "gemini")
    wanted = {"inlineData": {"mimeType": "image/webp", "data": "QUJD"}}
    assert whole.json()["candidates"][0]["content"]["parts"] == [{"text": "Look:"}, wanted]
    assert not whole.receipt
    chunks = b"".join(translate_stream(image_stream(answer), "openai_responses", "gemini"))
    frames = [json.loads(frame[6:]) for frame in chunks.decode().split("\n\n") if frame]
    assert wanted in [part for frame in frames for part in frame["candidates"][0]["content"]["parts"]]
    chat = translate_response(json.dumps(answer), "openai_responses", "openai_chat").json()["choices"][0]["message"]
    assert chat["images"] == [{"type": "image_url", "image_url": {"url": "data:image/webp;base64,QUJD"}}]


def test_an_image_item_comes_back_as_it_was() -> None:
    answer = image_answer(revised_prompt="A cat")
    decoded = OPENAI_RESPONSES.decode_response(json.dumps(answer).encode())
    assert json.loads(OPENAI_RESPONSES.encode_response(decoded, None, Receipt()))["output"] == answer["output"]
    request = {"model": "m", "input": [{**IMAGE_ITEM, "revised_prompt": "A cat"}, {"role": "user", "content": "Blue."}]}
    asked = OPENAI_RESPONSES.decode_request(json.dumps(request).encode())
    assert json.loads(OPENAI_RESPONSES.encode_request(asked, Receipt()))["input"] == request["input"]


def test_the_prompt_that_the_model_wrote_for_an_image_is_reported() -> None:
    told = translate_response(json.dumps(image_answer(revised_prompt="A cat")), "openai_responses", "gemini").receipt
    assert [(line.severity, line.where) for line in told] == [("loss", "content[1].revised_prompt")]


def test_an_image_of_an_earlier_answer_goes_to_gemini() -> None:
    request = {
        "model": "m",
        "input": [{"role": "user", "content": "A cat"}, IMAGE_ITEM, {"role": "user", "content": "Blue."}],
    }
    sent = translate_request(json.dumps(request), "openai_responses", "gemini").json()["contents"]
    assert sent[1] == {"parts": [{"inlineData": {"mimeType": "image/webp", "data": "QUJD"}}], "role": "model"}
    alone = {
        "model": "m",
        "input": [{"type": "image_generation_call", "id": "ig_1"}, {"role": "user", "content": "Blue."}],
    }
    receipt = translate_request(json.dumps(alone), "openai_responses", "gemini").receipt
    assert [line.what for line in receipt.losses] == ["image_generation_call"]


def test_usage_in_the_names_of_chat_completions_is_counted() -> None:
    """Servers that imitate both APIs write one kind of usage for both. Clients of this API get its own names."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    document = {"id": "resp_1", "created_at": 1, "model": "m", "status": "completed", "output": [], "usage": usage}
    response = OPENAI_RESPONSES.decode_response(json.dumps(document).encode())
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (10, 5)
    assert (response.usage.cached_tokens, response.usage.reasoning_tokens) == (3, 2)
    written = json.loads(OPENAI_RESPONSES.encode_response(response, None, Receipt()))["usage"]
    assert (written["input_tokens"], written["output_tokens"], written["total_tokens"]) == (10, 5, 15)
    assert written["input_tokens_details"]["cached_tokens"] == 3
    assert not written.keys() & usage.keys() - {"total_tokens"}
