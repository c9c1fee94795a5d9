"""Answers of servers that imitate Chat Completions, and what other gateways made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import NAMES
from tests.forms import is_json
from tests.pitfalls.wires import call, calls, chat, data_frame, frames
from toolglot.api import translate_error, translate_request, translate_response, translate_stream
from toolglot.dialects import DIALECTS
from toolglot.errors import UpstreamError
from toolglot.ir import ToolCall
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

CLIENTS = [name for name in NAMES if name not in ("warp", "openai_chat")]


def whole(message: dict[str, Any], finish: str = "stop", usage: Any = None, **choice: Any) -> str:
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    said = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, **choice}
    return json.dumps({**head, "choices": [said], **({} if usage is None else {"usage": usage})})


def function(name: str, arguments: str = '{"a":1}', **fields: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


# Ids and models


def test_the_answer_begins_behind_azures_first_chunk() -> None:
    filters = [{"prompt_index": 0, "content_filter_results": {}}]
    first = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": filters}
    data = data_frame(first) + chat({"content": "Hi"}, finish="stop")
    started = frames(b"".join(translate_stream(data, "openai_chat", "anthropic")))[0]["message"]
    assert (started["id"], started["model"]) == ("chatcmpl-1", "m")
    started = frames(b"".join(translate_stream(data, "openai_chat", "openai_responses")))[0]["response"]
    assert (started["id"], started["model"], started["created_at"]) == ("chatcmpl-1", "m", 1)


HARMLESS: dict[str, Any] = {
    **{name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")},
    "jailbreak": {"filtered": False, "detected": False},
    "custom_blocklists": {"filtered": False, "details": []},
}
OFFSETS = {"check_offset": 44, "start_offset": 44, "end_offset": 198}
UNSAFE: list[dict[str, Any]] = [
    {"hate": {"filtered": False, "severity": "low"}},
    {"hate": {"filtered": True, "severity": "safe"}},
    {"protected_material_code": {"filtered": False, "detected": True}},
    {"error": {"code": "content_filter_error", "message": "It did not complete"}},
]


def filtered(verdicts: dict[str, Any]) -> dict[str, Any]:
    """A whole answer of Azure with these verdicts on the prompt and on the answer."""
    message = {"role": "assistant", "content": "Hi"}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "content_filter_results": verdicts}
    prompt = [{"prompt_index": 0, "content_filter_results": verdicts}]
    return {"id": "c", "created": 1, "model": "m", "choices": [choice], "prompt_filter_results": prompt}


@pytest.mark.parametrize("client", ["anthropic", "openai_responses", "gemini", "ollama"])
def test_a_content_filter_that_found_nothing_says_nothing(client: str) -> None:
    """Azure has its verdicts on every answer, and strict mode refuses losses."""
    translated = translate_response(filtered(HARMLESS), "openai_chat", client)
    assert not [line for line in translated.receipt if "filter" in line.where]
    receipt = Receipt()
    chunks = [
        {"choices": [], "prompt_filter_results": filtered(HARMLESS)["prompt_filter_results"]},
        {"choices": [{"index": 0, "delta": {"content": "Hi"}, "content_filter_results": HARMLESS}]},
        {"choices": [{"index": 0, "content_filter_results": HARMLESS, "content_filter_offsets": OFFSETS}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "content_filter_results": {}}]},
    ]
    decoder = DIALECTS["openai_chat"].stream_decoder(receipt)
    decoder.feed(b"".join(map(data_frame, chunks)))
    assert not receipt


@pytest.mark.parametrize("verdicts", UNSAFE, ids=["severity", "filtered", "detected", "error"])
def test_what_a_content_filter_found_is_a_note(verdicts: dict[str, Any]) -> None:
    places = ["choices[0].content_filter_results", "prompt_filter_results"]
    translated = translate_response(filtered({**HARMLESS, **verdicts}), "openai_chat", "anthropic")
    found = [line for line in translated.receipt if "filter" in line.where]
    assert sorted(line.where for line in found) == places
    assert not translated.receipt.losses
    receipt = Receipt()
    choice = {"index": 0, "delta": {"content": "Hi"}, "content_filter_results": verdicts}
    DIALECTS["openai_chat"].stream_decoder(receipt).feed(data_frame({"choices": [choice]}))
    assert [(line.where, line.severity) for line in receipt] == [(places[0], "note")]


@pytest.mark.parametrize("verdicts", [HARMLESS, *UNSAFE])
def test_chat_clients_get_the_verdicts_of_content_filters_as_they_came(verdicts: dict[str, Any]) -> None:
    chat_dialect, document = DIALECTS["openai_chat"], filtered(verdicts)
    written = chat_dialect.encode_response(chat_dialect.decode_response(json.dumps(document).encode()), None, Receipt())
    assert json.loads(written) == {**document, "object": "chat.completion"}


@pytest.mark.parametrize(
    ("client", "place", "prefix"),
    [("anthropic", "id", "msg_"), ("openai_responses", "id", "resp_"), ("gemini", "responseId", "")],
)
def test_an_answer_without_an_id_gets_one_of_the_clients_form(client: str, place: str, prefix: str) -> None:
    answer = {"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]}
    made = translate_response(answer, "openai_chat", client).json()[place]
    assert made.startswith(prefix)
    assert len(made) == len(prefix) + 24
    assert made == translate_response(answer, "openai_chat", client).json()[place]
    chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    first = frames(b"".join(translate_stream(data_frame(chunk), "openai_chat", client)))[0]
    streamed = first.get("message", first.get("response", first))[place]
    assert streamed.startswith(prefix)
    assert len(streamed) == len(prefix) + 24


def test_an_answer_for_a_chat_client_gets_an_id_and_the_model_that_was_asked() -> None:
    exchange = ExchangeCore("openai_chat", "gemini", model="gemini-x")
    exchange.request({"model": "mine", "messages": [{"role": "user", "content": "Hi"}]})
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    written = json.loads(exchange.response(answer))
    assert written["id"].startswith("chatcmpl-")
    assert written["model"] == "mine"


# Calls


NAMELESS: dict[str, Any] = {
    "openai_chat": json.loads(whole({"content": None, "tool_calls": [function("")]}, "tool_calls")),
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [{"type": "function_call", "id": "fc_1", "call_id": "c", "name": "", "arguments": "{}"}],
    },
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "tool_use", "id": "c", "name": "", "input": {}}],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "", "args": {}}}]}}]},
}


@pytest.mark.parametrize("client", NAMELESS)
@pytest.mark.parametrize("upstream", NAMELESS)
def test_a_call_without_a_name_is_an_error_in_whole_answers_and_in_streams(upstream: str, client: str) -> None:
    with pytest.raises(UpstreamError) as raised:
        translate_response(NAMELESS[upstream], upstream, client)
    assert raised.value.error.code == "malformed_tool_call"
    stream = b"".join(translate_stream(_streamed(upstream, NAMELESS[upstream]), upstream, client)).decode()
    assert "a call without a name" in stream


def _streamed(dialect: str, answer: dict[str, Any]) -> bytes:
    """A stream of this dialect with the nameless call of the answer."""
    if dialect == "openai_chat":
        return chat(calls(call(0, "{}", id="c", name="")))
    if dialect == "gemini":
        return data_frame(answer)
    if dialect == "openai_responses":
        item = {"output_index": 0, "item": answer["output"][0]}
        events = [
            {"type": "response.created", "response": {**answer, "output": []}},
            {"type": "response.output_item.added", **item},
            {"type": "response.output_item.done", **item},
            {"type": "response.completed", "response": answer},
        ]
    else:
        events = [
            {"type": "message_start", "message": {**answer, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": answer["content"][0]},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
    return b"".join(f"event: {event['type']}\n".encode() + data_frame(event) for event in events)


TWICE = '{"a":1,"a":2}'


@pytest.mark.parametrize("client", ["anthropic", "gemini"])
def test_a_key_that_stands_twice_in_arguments_is_in_the_receipt(client: str) -> None:
    note = ("note", "content[0].arguments")
    answer = whole({"content": None, "tool_calls": [function("f", TWICE)]}, "tool_calls")
    assert note in [(line.severity, line.where) for line in translate_response(answer, "openai_chat", client).receipt]
    stream = translate_stream(chat(calls(call(0, TWICE, id="c", name="f"))), "openai_chat", client)
    assert b"".join(stream)
    assert note in [(line.severity, line.where) for line in stream.receipt]
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [function("f", TWICE)]},
        {"role": "tool", "tool_call_id": "call_1", "content": "x"},
    ]
    request = translate_request({"model": "m", "messages": history}, "openai_chat", client)
    assert any(line.what == "a repeated key of the arguments" for line in request.receipt)
    plain = whole({"content": None, "tool_calls": [function("f", '{"a":{"b":1},"c":{"b":2}}')]}, "tool_calls")
    assert note not in [
        (line.severity, line.where) for line in translate_response(plain, "openai_chat", client).receipt
    ]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_number_of_a_call_in_a_whole_answer_is_no_loss(client: str) -> None:
    answer = whole({"content": None, "tool_calls": [function("f", index=0)]}, "tool_calls")
    assert not translate_response(answer, "openai_chat", client, strict=True).receipt.losses
    kept = json.loads(ExchangeCore("openai_chat", "openai_chat", verbatim=False).response(answer))
    assert kept["choices"][0]["message"]["tool_calls"] == json.loads(answer)["choices"][0]["message"]["tool_calls"]


# Members beside the text


FILE = {"type": "file", "file": {"hash": "x", "name": "a.pdf", "content": [{"type": "text", "text": "T"}]}}
CITED = {"type": "url_citation", "url_citation": {"url": "https://x", "title": "t", "start_index": 0, "end_index": 3}}


def test_a_file_among_annotations_leaves_the_citations_beside_it() -> None:
    answer = whole({"content": "hello", "annotations": [FILE, CITED]})
    carried = translate_response(answer, "openai_chat", "openai_responses")
    annotation = carried.json()["output"][0]["content"][0]["annotations"][0]
    assert annotation["url"] == "https://x"
    assert [(line.severity, line.where) for line in carried.receipt] == [("loss", "choices[0].message.annotations")]
    kept = json.loads(ExchangeCore("openai_chat", "openai_chat", verbatim=False).response(answer))
    assert kept["choices"][0]["message"]["annotations"] == [FILE, CITED]


def test_unknown_members_of_log_probabilities_are_in_the_receipt() -> None:
    entry = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": [], "rank": 3}
    answer = whole({"content": "a"}, logprobs={"content": [entry], "refusal": None})
    receipt = translate_response(answer, "openai_chat", "openai_responses").receipt
    assert [line.where for line in receipt.losses] == ["choices[0].logprobs.content.rank"]
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [entry]}}]}
    stream = translate_stream(data_frame(chunk) + chat(finish="stop"), "openai_chat", "openai_responses")
    assert b'"logprob":-1' in b"".join(stream)
    assert [line.where for line in stream.receipt.losses] == ["choices[0].logprobs.content.rank"]


def test_more_reasoning_than_output_is_counted_beside_the_output() -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 15}
    usage = {**counts, "completion_tokens_details": {"reasoning_tokens": 50}}
    gemini = translate_response(whole({"content": "a"}, usage=usage), "openai_chat", "gemini").json()["usageMetadata"]
    assert (gemini["candidatesTokenCount"], gemini["thoughtsTokenCount"], gemini["totalTokenCount"]) == (10, 50, 65)


@pytest.mark.parametrize("word", ["content-filter", "guardrail_intervened", "GUARDRAIL_INTERVENED", "RECITATION"])
def test_the_words_of_filters_are_filters(word: str) -> None:
    gemini = translate_response(whole({"content": "a"}, word), "openai_chat", "gemini").json()
    assert gemini["candidates"][0]["finishReason"] in ("SAFETY", word)
    written = b"".join(translate_stream(chat({"content": "a"}, finish=word), "openai_chat", "anthropic"))
    assert b'"stop_reason":"refusal"' in written


# Requests


def test_padding_that_a_client_asks_for_and_hidden_reasoning_are_in_the_receipt() -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    padded = translate_request({**asked, "stream_options": {"include_obfuscation": True}}, "openai_chat", "gemini")
    assert [(line.severity, line.where) for line in padded.receipt] == [("note", "stream_options.include_obfuscation")]
    hidden = translate_request({**asked, "reasoning": {"exclude": True}}, "openai_chat", "openai_responses")
    assert [(line.severity, line.where) for line in hidden.receipt] == [("note", "reasoning.show")]


def test_a_video_of_a_chat_request_reaches_gemini() -> None:
    parts = [
        {"type": "video_url", "video_url": {"url": "https://x/a.mp4"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "video_url", "video_url": "https://x/b.mp4"},
    ]
    body = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    gemini = translate_request(body, "openai_chat", "gemini")
    written = gemini.json()["contents"][0]["parts"]
    assert [part.get("fileData", part.get("inlineData")) for part in written] == [
        {"mimeType": "video/mp4", "fileUri": "https://x/a.mp4"},
        {"mimeType": "video/mp4", "data": "AAAA"},
        {"mimeType": "video/mp4", "fileUri": "https://x/b.mp4"},
    ]
    assert not gemini.receipt.losses
    again = ExchangeCore("openai_chat", "openai_chat", verbatim=False).request(body)
    assert json.loads(again) == body
    left_out = translate_request(body, "openai_chat", "anthropic")
    assert [line.where for line in left_out.receipt.losses] == [f"messages[0].content[{index}]" for index in range(3)]


# One answer in several places


def copilot(*indices: dict[str, int]) -> dict[str, Any]:
    """An answer of GitHub Copilot: its text and its calls are two choices."""
    said, called = {"role": "assistant", "content": "I look."}, {"role": "assistant", "tool_calls": [function("f")]}
    first, second = indices or ({}, {})
    choices = [
        {**first, "finish_reason": "tool_calls", "message": said},
        {**second, "finish_reason": "tool_calls", "message": called},
    ]
    return {"id": "chatcmpl-1", "created": 1, "model": "m", "choices": choices}


@pytest.mark.parametrize(
    "indices",
    [(), ({"index": 0}, {"index": 0}), ({"index": 0}, {"index": 1})],
    ids=["no index", "one index", "two indices"],
)
def test_text_and_calls_in_two_choices_are_one_answer_if_the_first_stopped_for_calls(
    indices: tuple[dict[str, int], ...],
) -> None:
    translated = translate_response(copilot(*indices), "openai_chat", "anthropic")
    answer = translated.json()
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
    assert answer["content"][1]["input"] == {"a": 1}
    assert answer["stop_reason"] == "tool_use"
    assert not translated.receipt.losses


def test_a_choice_with_an_index_of_its_own_is_another_answer() -> None:
    """With `n`: one of two answers called a tool."""
    document = copilot({"index": 0}, {"index": 1})
    document["choices"][0]["finish_reason"] = "stop"
    translated = translate_response(document, "openai_chat", "anthropic")
    assert [block["type"] for block in translated.json()["content"]] == ["text"]
    assert [line.where for line in translated.receipt.losses] == ["choices[1]"]


@pytest.mark.parametrize("client", CLIENTS)
def test_no_client_waits_for_the_result_of_a_call_that_it_does_not_get(client: str) -> None:
    novel = {"id": "call_1", "type": "novel", "novel": {"name": "f"}}
    answer = whole({"content": "I look.", "tool_calls": [novel]}, "tool_calls")
    with pytest.raises(UpstreamError, match="a call of a kind that the client's API does not have"):
        translate_response(answer, "openai_chat", client)


def copilot_stream(finish: str, called: dict[str, Any], *, finish_first: bool) -> bytes:
    head = {"id": "chatcmpl-1", "created": 1, "model": "m"}
    begins = {"tool_calls": [{"index": 0, **function("f", "")}], "role": "assistant", **called}
    goes_on = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in ('{"a"', ":1}")]
    choices = [
        {"index": 0, "delta": {"role": "assistant", "content": "I look."}},
        {"index": 1, "delta": begins},
        *({"index": 1, "delta": delta} for delta in goes_on),
        {"index": 1, "delta": {}, "finish_reason": "tool_calls"},
    ]
    choices.insert(1 if finish_first else len(choices), {"index": 0, "delta": {}, "finish_reason": finish})
    return b"".join(data_frame({**head, "choices": [choice]}) for choice in choices) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("finish_first", [True, False])
def test_a_stream_in_two_choices_is_one_answer_as_well(finish_first: bool) -> None:
    data = copilot_stream("tool_calls", {}, finish_first=finish_first)
    stream = translate_stream(data, "openai_chat", "anthropic")
    events = frames(b"".join(stream))
    blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block["type"] for block in blocks] == ["text", "tool_use"]
    pieces = [event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"]
    assert "".join(pieces) == '{"a":1}'
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert not stream.receipt.losses


@pytest.mark.parametrize(("finish", "called"), [("stop", {}), ("tool_calls", {"content": "Or I call."})])
def test_another_answer_of_a_stream_is_reported(finish: str, called: dict[str, Any]) -> None:
    stream = translate_stream(copilot_stream(finish, called, finish_first=True), "openai_chat", "anthropic")
    events = frames(b"".join(stream))
    assert [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"] == ["text"]
    assert [line.where for line in stream.receipt.losses] == ["choices[1]"]


@pytest.mark.parametrize("cut", [3, 4])
def test_a_stream_that_ends_inside_its_second_choice_has_no_whole_answer(cut: int) -> None:
    data = copilot_stream("tool_calls", {}, finish_first=True).split(b"\n\n")
    decoder = DIALECTS["openai_chat"].stream_decoder(Receipt())
    decoder.feed(b"\n\n".join(data[:cut]) + b"\n\n")
    assert not decoder.settled


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_usage_inside_the_last_choice_of_a_stream_is_counted(size: int) -> None:
    counts = {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57, "cached_tokens": 0}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "kimi-k2"}
    texts = [{**head, "choices": [{"index": 0, "delta": {"content": word}}]} for word in ("a", "b", "c", "d")]
    last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": counts}]}
    data = b"".join(map(data_frame, [*texts, last])) + b"data: [DONE]\n\n"
    stream = translate_stream([data[at : at + size] for at in range(0, len(data), size)], "openai_chat", "anthropic")
    usage = frames(b"".join(stream))[-2]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (50, 7)
    assert not stream.receipt.losses


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [(1002, "rate_limit", 429), (1004, "authentication", 401), (1008, "billing", 402), (1000, "server", 500)],
)
def test_an_error_of_minimax_keeps_its_meaning(code: int, kind: str, status: int) -> None:
    refused = {"id": "1", "choices": None, "model": "m", "base_resp": {"status_code": code, "status_msg": "so it is"}}
    with pytest.raises(UpstreamError) as raised:
        translate_response(refused, "openai_chat", "anthropic")
    assert (raised.value.error.kind, raised.value.error.status) == (kind, status)
    stream = translate_stream(data_frame(refused), "openai_chat", "anthropic")
    assert frames(b"".join(stream))[-1]["error"]["message"] == "so it is"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (498, {"error": {"message": "full", "type": "capacity_exceeded"}}, (529, "overloaded_error", "full")),
        (403, {"Message": "not authorized"}, (403, "permission_error", "not authorized")),
        (
            400,
            {"error": {"message": "See 'failed_generation'", "code": "tool_use_failed", "failed_generation": "<f>{}"}},
            (400, "invalid_request_error", "See 'failed_generation': <f>{}"),
        ),
    ],
    ids=["Groq's flex tier", "AWS", "Groq's unreadable call"],
)
def test_errors_of_other_servers_keep_their_meaning(status: int, body: Any, expected: tuple[int, str, str]) -> None:
    error = translate_error(status, {}, json.dumps(body).encode(), "openai_chat", "anthropic")
    told = json.loads(error.body)["error"]
    assert (error.status, told["type"], told["message"]) == expected


MIRRORED = {"name": "f", "arguments": '{"a":1}'}
"""What llama-cpp-python writes twice: as the deprecated `function_call` and in `tool_calls`."""
BOTH = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": MIRRORED}],
    "function_call": MIRRORED,
}


@pytest.mark.parametrize("client", [name for name in NAMES if is_json(name)])
def test_a_call_that_is_written_in_both_forms_is_one_call(client: str) -> None:
    exchange = ExchangeCore(client, "openai_chat")
    exchange.response(whole(BOTH, "tool_calls"))
    assert exchange.answered is not None
    assert [call.id for call in exchange.answered.content if isinstance(call, ToolCall)] == ["c1"]
    pieces = ["", '{"a":', "1}"]
    deltas = [
        {**calls(call(0, piece, id="c1", name="f")), "function_call": {"name": "f", "arguments": piece}}
        for piece in pieces
    ]
    streamed = ExchangeCore(client, "openai_chat")
    translation = streamed.stream()
    written = translation.feed(chat(*deltas)) + translation.close()
    assert translation.fault is None
    assert b"c1" in written
    assert not streamed.receipt.losses


@pytest.mark.parametrize("upstream", NAMES)
def test_such_a_call_in_a_history_is_one_call(upstream: str) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}, BOTH, result]}
    exchange = ExchangeCore("openai_chat", upstream, verbatim=False)
    sent = exchange.request(body)
    assert not exchange.receipt.losses
    if upstream == "openai_chat":
        assert json.loads(sent)["messages"][1] == BOTH
