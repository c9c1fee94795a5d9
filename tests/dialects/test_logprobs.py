"""Log probabilities, from the request to the last frame of an answer, for the three dialects that have them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import folded, read_events
from tests.pitfalls.wires import data_frame, frames
from toolglot.api import translate_request, translate_response, translate_stream
from toolglot.dialects import DIALECTS
from toolglot.ir import Text, TokenLogprob
from toolglot.receipt import Receipt

WITH = ("openai_chat", "openai_responses", "gemini")
PAIRS = [(source, target) for source in WITH for target in WITH if source != target]

ASKED: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 2},
    "openai_responses": {
        "model": "m",
        "input": [{"role": "user", "content": "Hi"}],
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"responseLogprobs": True, "logprobs": 2},
    },
}


def asked_for(target: str, body: dict[str, Any]) -> tuple[Any, Any]:
    """Whether they are asked for, and how many of the likeliest tokens."""
    match target:
        case "openai_chat":
            return body.get("logprobs"), body.get("top_logprobs")
        case "openai_responses":
            return "message.output_text.logprobs" in body.get("include", ()) or None, body.get("top_logprobs")
        case _:
            config = body.get("generationConfig", {})
            return config.get("responseLogprobs"), config.get("logprobs")


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_request_for_log_probabilities_is_carried(source: str, target: str) -> None:
    got = translate_request(json.dumps(ASKED[source]), source, target, model="m")
    assert asked_for(target, got.json()) == (True, 2)
    assert not got.receipt.losses


@pytest.mark.parametrize("source", WITH)
@pytest.mark.parametrize("target", ["anthropic", "warp"])
def test_where_there_are_none_the_receipt_tells(source: str, target: str) -> None:
    told = translate_request(json.dumps(ASKED[source]), source, target, model="m").receipt
    assert {"logprobs", "top_logprobs"} <= {line.where for line in told.losses}


@pytest.mark.parametrize("dialect", WITH)
def test_a_request_comes_back_as_it_was(dialect: str) -> None:
    codec = DIALECTS[dialect]
    encoded = codec.encode_request(codec.decode_request(json.dumps(ASKED[dialect]).encode()), Receipt())
    assert json.loads(encoded) == ASKED[dialect]


def test_whoever_wants_the_likeliest_tokens_wants_log_probabilities() -> None:
    asked = {key: value for key, value in ASKED["openai_responses"].items() if key != "include"}
    got = translate_request(json.dumps(asked), "openai_responses", "openai_chat")
    assert asked_for("openai_chat", got.json()) == (True, 2)
    refused = {**ASKED["openai_chat"], "logprobs": False}
    got = translate_request(json.dumps(refused), "openai_chat", "gemini")
    assert asked_for("gemini", got.json()) == (False, None)


def test_reasoning_models_are_not_asked() -> None:
    got = translate_request(json.dumps(ASKED["gemini"]), "gemini", "openai_responses", model="gpt-5")
    assert asked_for("openai_responses", got.json()) == (None, None)
    assert {"logprobs", "top_logprobs"} <= {line.where for line in got.receipt.losses}


# Answers

TOKENS = (
    TokenLogprob(token="Hel", logprob=-0.25, top=(TokenLogprob(token="Hel", logprob=-0.25),)),
    TokenLogprob(token="lo", logprob=-0.75, top=(TokenLogprob(token="lo", logprob=-0.75),)),
)


def openai_entries(*tokens: TokenLogprob) -> list[dict[str, Any]]:
    plain = [{"token": each.token, "logprob": each.logprob, "bytes": list(each.token.encode())} for each in tokens]
    return [{**entry, "top_logprobs": [entry]} for entry in plain]


def gemini_result(*tokens: TokenLogprob) -> dict[str, Any]:
    chosen = [{"token": each.token, "logProbability": each.logprob} for each in tokens]
    return {"chosenCandidates": chosen, "topCandidates": [{"candidates": [entry]} for entry in chosen]}


def chat_answer() -> dict[str, Any]:
    message = {"role": "assistant", "content": "Hello", "refusal": None}
    logprobs = {"content": openai_entries(*TOKENS), "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def responses_answer() -> dict[str, Any]:
    part = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": openai_entries(*TOKENS)}
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**head, "output": [message]}


def gemini_answer() -> dict[str, Any]:
    content = {"parts": [{"text": "Hello"}], "role": "model"}
    told = {"avgLogprobs": -0.5, "logprobsResult": gemini_result(*TOKENS)}
    candidate = {"content": content, "finishReason": "STOP", **told, "index": 0}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}


ANSWERS = {"openai_chat": chat_answer(), "openai_responses": responses_answer(), "gemini": gemini_answer()}


def chat_stream() -> bytes:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks: list[dict[str, Any]] = []
    for each in TOKENS:
        choice = {"index": 0, "delta": {"content": each.token}, "finish_reason": None}
        chunks.append({**base, "choices": [{**choice, "logprobs": {"content": openai_entries(each), "refusal": None}}]})
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}]})
    return b"".join(map(data_frame, chunks)) + b"data: [DONE]\n\n"


def responses_stream() -> bytes:
    answer = responses_answer()
    item = answer["output"][0]
    at = {"output_index": 0, "item_id": "msg_1"}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**answer, "output": []}},
        {"type": "response.output_item.added", **at, "item": {**item, "content": []}},
    ]
    for each in TOKENS:
        delta = {"delta": each.token, "logprobs": openai_entries(each)}
        events.append({"type": "response.output_text.delta", **at, "content_index": 0, **delta})
    events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": answer})
    return b"".join(f"event: {event['type']}\n".encode() + data_frame(event) for event in events)


def gemini_stream() -> bytes:
    documents: list[dict[str, Any]] = []
    for each in TOKENS:
        content = {"parts": [{"text": each.token}], "role": "model"}
        candidate = {"content": content, "logprobsResult": gemini_result(each), "index": 0}
        documents.append({"candidates": [candidate], "modelVersion": "m", "responseId": "r"})
    documents[-1]["candidates"][0]["finishReason"] = "STOP"
    return b"".join(map(data_frame, documents))


STREAMS = {"openai_chat": chat_stream(), "openai_responses": responses_stream(), "gemini": gemini_stream()}


def told_in(target: str, body: dict[str, Any]) -> Any:
    match target:
        case "openai_chat":
            return body["choices"][0]["logprobs"]
        case "openai_responses":
            return body["output"][0]["content"][0]["logprobs"]
        case _:
            candidate = body["candidates"][0]
            return {"avgLogprobs": candidate["avgLogprobs"], "logprobsResult": candidate["logprobsResult"]}


WANTED: dict[str, Any] = {name: told_in(name, answer) for name, answer in ANSWERS.items()}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_log_probabilities_of_a_whole_answer_are_carried(source: str, target: str) -> None:
    got = translate_response(json.dumps(ANSWERS[source]), source, target)
    assert told_in(target, got.json()) == WANTED[target]
    assert not got.receipt


@pytest.mark.parametrize("dialect", WITH)
def test_a_whole_answer_comes_back_as_it_was(dialect: str) -> None:
    codec = DIALECTS[dialect]
    written = codec.encode_response(codec.decode_response(json.dumps(ANSWERS[dialect]).encode()), None, Receipt())
    assert told_in(dialect, json.loads(written)) == WANTED[dialect]


@pytest.mark.parametrize("dialect", WITH)
def test_a_stream_adds_up_to_the_whole_answer(dialect: str) -> None:
    """Cut anywhere, down to single bytes."""
    whole = DIALECTS[dialect].decode_response(json.dumps(ANSWERS[dialect]).encode())
    (text,) = (block for block in whole.content if isinstance(block, Text))
    for chunks in ([STREAMS[dialect]], [bytes([byte]) for byte in STREAMS[dialect]]):
        streamed = folded(read_events(dialect, chunks))
        (said,) = (block for block in streamed.content if isinstance(block, Text))
        assert (said.text, said.logprobs) == (text.text, text.logprobs)


def streamed_tokens(target: str, data: bytes) -> list[list[str]]:
    """The tokens of each frame that has some, as a client finds them."""
    found: list[list[str]] = []
    for frame in frames(data):
        if target == "openai_chat":
            entries = ((frame["choices"] or [{}])[0].get("logprobs") or {}).get("content") or []
        elif target == "openai_responses":
            entries = frame.get("logprobs", []) if frame["type"] == "response.output_text.delta" else []
        else:
            entries = frame["candidates"][0].get("logprobsResult", {}).get("chosenCandidates", [])
        if entries:
            found.append([entry["token"] for entry in entries])
    return found


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_log_probabilities_of_a_stream_come_with_their_text(source: str, target: str) -> None:
    translated = translate_stream(STREAMS[source], source, target)
    data = b"".join(translated)
    assert streamed_tokens(target, data) == [["Hel"], ["lo"]]
    assert not translated.receipt
    (text,) = (block for block in folded(read_events(target, [data])).content if isinstance(block, Text))
    assert [(token.token, token.logprob) for token in text.logprobs] == [("Hel", -0.25), ("lo", -0.75)]
    if target == "openai_responses":
        done = [frame for frame in frames(data) if frame["type"].endswith(".done")]
        assert [frame["logprobs"] for frame in done if "logprobs" in frame] == [WANTED[target]]
        assert frames(data)[-1]["response"]["output"][0]["content"][0]["logprobs"] == WANTED[target]
    if target == "gemini":
        assert frames(data)[-1]["candidates"][0]["avgLogprobs"] == -0.5


@pytest.mark.parametrize("source", WITH)
@pytest.mark.parametrize("client", ["anthropic", "warp"])
def test_clients_without_a_place_for_them_are_told(source: str, client: str) -> None:
    whole = translate_response(json.dumps(ANSWERS[source]), source, client)
    stream = translate_stream(STREAMS[source], source, client)
    assert b"".join(stream)
    for receipt in (whole.receipt, stream.receipt):
        assert [(line.where, line.what) for line in receipt.losses] == [("content[0]", "log probabilities")]


def test_tokens_that_are_less_than_a_character_wait_for_their_text() -> None:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    half = {"token": "\\xe2", "logprob": -1.0, "bytes": [226], "top_logprobs": []}
    deltas = [({"content": ""}, half), ({"content": "☀"}, {**half, "bytes": [152, 128]}), ({}, {**half, "bytes": []})]
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "logprobs": {"content": [entry]}, "finish_reason": None}]}
        for delta, entry in deltas
    ]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    data = b"".join(translate_stream(b"".join(map(data_frame, chunks)), "openai_chat", "openai_responses"))
    part = frames(data)[-1]["response"]["output"][0]["content"][0]
    assert [entry["bytes"] for entry in part["logprobs"]] == [[226], [152, 128], []]


@pytest.mark.parametrize("broken", [5, {"content": 5}, {"content": [{"token": 1}]}, {"content": [], "refusal": [{}]}])
def test_log_probabilities_that_cannot_be_read_are_told(broken: Any) -> None:
    answer = chat_answer()
    answer["choices"][0]["logprobs"] = broken
    losses = translate_response(json.dumps(answer), "openai_chat", "gemini").receipt.losses
    assert any(line.where.startswith("choices[0].logprobs") for line in losses)
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": {"content": "Hi"}, "logprobs": broken, "finish_reason": "stop"}
    stream = translate_stream(data_frame({**chunk, "choices": [choice]}), "openai_chat", "gemini")
    assert b"Hi" in b"".join(stream)
    (line,) = stream.receipt.losses
    assert line.where.startswith("choices[0].logprobs")


NOVEL = {"token": "Hi", "logprob": -1.0, "bytes": None, "top_logprobs": [{"token": "Hi", "logprob": -1.0, "inner": 7}]}


@pytest.mark.parametrize("client", ["openai_responses", "gemini", "anthropic"])
def test_members_of_log_probabilities_that_nobody_knows_are_named(client: str) -> None:
    logprobs = {"content": [{**NOVEL, "token_id": 5}], "refusal": None, "text_offset": [3]}
    members = ["text_offset", "content.token_id", "content.inner"]
    answer = chat_answer()
    answer["choices"][0]["logprobs"] = logprobs
    losses = translate_response(json.dumps(answer), "openai_chat", client).receipt.losses
    expected = [f"choices[0].logprobs.{member}" for member in members]
    assert [line.where for line in losses if line.where.startswith("choices")] == expected
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": {"content": "Hi"}, "logprobs": logprobs, "finish_reason": "stop"}
    stream = translate_stream(data_frame({**chunk, "choices": [choice]}), "openai_chat", client)
    assert b"Hi" in b"".join(stream)
    assert [line.where for line in stream.receipt.losses if line.where.startswith("choices")] == expected


@pytest.mark.parametrize("client", ["openai_chat", "gemini", "anthropic"])
def test_members_of_log_probabilities_of_a_response_that_nobody_knows_are_named(client: str) -> None:
    part = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": [{**NOVEL, "novel": 5}]}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    answer = {"id": "r", "object": "response", "status": "completed", "output": [item]}
    losses = translate_response(json.dumps(answer), "openai_responses", client).receipt.losses
    named = [line.where for line in losses if ".logprobs." in line.where]
    assert named == ["content[0].logprobs.inner", "content[0].logprobs.novel"]
    frames = [{"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}]
    frames.append({"type": "response.completed", "response": answer})
    stream = translate_stream(b"".join(map(data_frame, frames)), "openai_responses", client)
    assert b"Hi" in b"".join(stream)
    assert [line.where for line in stream.receipt.losses if ".logprobs." in line.where] == named
