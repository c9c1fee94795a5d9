"""Fields of servers that imitate Chat Completions: Mistral's thinking parts, images and thinking blocks as OpenRouter
and LiteLLM have them, Groq's own member. Each in a whole answer and in a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.pitfalls.wires import data_frame, frames
from toolglot.api import translate_request, translate_response, translate_stream
from toolglot.dialects import DIALECTS
from toolglot.events import fold
from toolglot.ir import Response
from toolglot.receipt import Receipt

CHAT = DIALECTS["openai_chat"]
PIXEL = "data:image/png;base64,QUJD"
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hmm."}]}
IMAGE = {"type": "image_url", "image_url": {"url": PIXEL}, "index": 0}
SIGNED = {"type": "thinking", "thinking": "Hmm.", "signature": "c2ln"}
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def whole(message: dict[str, Any], **fields: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **fields}
    return json.dumps(body).encode()


def stream(*deltas: dict[str, Any], **last: Any) -> bytes:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **last})
    return b"".join(map(data_frame, chunks)) + b"data: [DONE]\n\n"


def streamed(data: bytes) -> Response:
    decoder = CHAT.stream_decoder(Receipt())
    return fold([*decoder.feed(data), *decoder.close()])


TWINS: list[tuple[str, bytes, bytes]] = [
    (
        "thinking",
        whole({"content": [THINKING, {"type": "text", "text": "Hi"}]}, usage=USAGE),
        stream({"content": [THINKING]}, {"content": "Hi"}, usage=USAGE),
    ),
    (
        "images",
        whole({"content": "Hi", "images": [IMAGE]}, usage=USAGE),
        stream({"content": "Hi"}, {"images": [IMAGE]}, usage=USAGE),
    ),
    (
        "thinking_blocks",
        whole({"content": "Hi", "reasoning_content": "Hmm.", "thinking_blocks": [SIGNED]}, usage=USAGE),
        stream(
            {"reasoning_content": "Hm", "thinking_blocks": [{**SIGNED, "thinking": "Hm", "signature": None}]},
            {"reasoning_content": "m.", "thinking_blocks": [{**SIGNED, "thinking": "m.", "signature": None}]},
            {"thinking_blocks": [{**SIGNED, "thinking": ""}]},
            {"content": "Hi"},
            usage=USAGE,
        ),
    ),
    (
        "thinking_blocks alone",
        whole({"content": "Hi", "thinking_blocks": [SIGNED]}, usage=USAGE),
        stream({"thinking_blocks": [SIGNED]}, {"content": "Hi"}, usage=USAGE),
    ),
    (
        "x_groq",
        whole({"content": "Hi"}, x_groq={"id": "req_1", "usage": USAGE}),
        stream({"content": "Hi"}, x_groq={"id": "req_1", "usage": USAGE}),
    ),
]
WHOLE = {name: data for name, data, _ in TWINS}


@pytest.mark.parametrize(
    ("name", "document", "chunks"), TWINS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_stream_adds_up_to_the_whole_answer(name: str, document: bytes, chunks: bytes) -> None:
    answer, added_up = CHAT.decode_response(document), streamed(chunks)
    assert [(type(block), getattr(block, "text", "")) for block in added_up.content] == [
        (type(block), getattr(block, "text", "")) for block in answer.content
    ]
    assert added_up.usage == answer.usage
    assert answer.usage is not None
    assert answer.usage.output_tokens == 5


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_comes_back_as_it_was(name: str) -> None:
    came = json.loads(WHOLE[name])
    written = json.loads(CHAT.encode_response(CHAT.decode_response(WHOLE[name]), None, Receipt()))
    if name == "x_groq":  # the counts also stand where every client looks for them
        assert written.pop("usage") == USAGE
    assert written == came


def test_thinking_parts_reach_clients_that_have_reasoning() -> None:
    got = translate_response(WHOLE["thinking"], "openai_chat", "anthropic").json()
    assert [(block["type"], block.get("thinking", block.get("text"))) for block in got["content"]] == [
        ("thinking", "Hmm."),
        ("text", "Hi"),
    ]
    item = translate_response(WHOLE["thinking"], "openai_chat", "openai_responses").json()["output"][0]
    assert (item["type"], item["summary"]) == ("reasoning", [{"type": "summary_text", "text": "Hmm."}])
    parts = translate_response(WHOLE["thinking"], "openai_chat", "gemini").json()["candidates"][0]["content"]["parts"]
    said = [(part["text"], part.get("thought", False)) for part in parts if part["text"]]
    assert said == [("Hmm.", True), ("Hi", False)]


def test_thinking_parts_in_a_history_go_back_as_they_came() -> None:
    said = {"role": "assistant", "content": [THINKING, {"type": "text", "text": "Hi"}]}
    request = {"model": "magistral-small", "messages": [{"role": "user", "content": "?"}, said]}
    encoded = CHAT.encode_request(CHAT.decode_request(json.dumps(request).encode()), Receipt())
    assert json.loads(encoded) == request


def test_images_reach_clients_that_have_a_place_for_them() -> None:
    for data in (WHOLE["images"],):
        output = translate_response(data, "openai_chat", "openai_responses").json()["output"]
        assert (output[1]["type"], output[1]["result"]) == ("image_generation_call", "QUJD")
        parts = translate_response(data, "openai_chat", "gemini").json()["candidates"][0]["content"]["parts"]
        assert parts[1] == {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
        refused = translate_response(data, "openai_chat", "anthropic")
        assert [line.where for line in refused.receipt.losses] == ["content[1]"]


def test_a_model_that_paints_answers_chat_clients_in_images() -> None:
    parts = [{"text": "Look:"}, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}]
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}
    wanted = [{"type": "image_url", "image_url": {"url": PIXEL}}]
    got = translate_response(json.dumps(answer), "gemini", "openai_chat")
    assert got.json()["choices"][0]["message"]["images"] == wanted
    assert [(line.severity, line.where) for line in got.receipt] == [("note", "content[1]")]
    chunks = b"".join(translate_stream(data_frame(answer), "gemini", "openai_chat"))
    deltas = [frame["choices"][0]["delta"] for frame in frames(chunks) if frame["choices"]]
    assert {"images": wanted} in deltas


def test_thinking_blocks_travel_with_clients_of_other_dialects() -> None:
    """The signature is the server's to have back: an Anthropic client carries it in its own slot."""
    answer = translate_response(WHOLE["thinking_blocks"], "openai_chat", "anthropic")
    assert not answer.receipt.losses
    asked = {
        "model": "m",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": answer.json()["content"]},
            {"role": "user", "content": "And?"},
        ],
    }
    back = translate_request(json.dumps(asked), "anthropic", "openai_chat").json()["messages"][1]
    assert back["thinking_blocks"] == [SIGNED]
    assert back["reasoning_content"] == "Hmm."


def test_an_early_stop_of_groq_is_an_error() -> None:
    data = stream({"content": "Hi"}, x_groq={"id": "req_1", "error": "over capacity"})
    last = frames(b"".join(translate_stream(data, "openai_chat", "anthropic")))[-1]
    assert last["type"] == "error"
    assert "over capacity" in last["error"]["message"]


def test_what_groq_may_say_besides_is_told() -> None:
    answer = translate_response(whole({"content": "Hi"}, x_groq={"id": "r", "novel": 1}), "openai_chat", "anthropic")
    assert [line.where for line in answer.receipt.losses] == ["x_groq"]
    told = translate_stream(stream({"content": "Hi"}, x_groq={"id": "r", "novel": 1}), "openai_chat", "anthropic")
    assert b"".join(told)
    assert [line.where for line in told.receipt.losses] == ["x_groq.novel"]
    assert not translate_response(WHOLE["x_groq"], "openai_chat", "anthropic").receipt


def test_a_document_by_its_url_is_read() -> None:
    part = {"type": "document_url", "document_url": "https://example.com/a.pdf", "document_name": "a"}
    request = {"model": "mistral-large", "messages": [{"role": "user", "content": [part]}]}
    got = translate_request(json.dumps(request), "openai_chat", "anthropic").json()["messages"][0]["content"]
    assert got == [{"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "title": "a"}]
    assert json.loads(CHAT.encode_request(CHAT.decode_request(json.dumps(request).encode()), Receipt())) == request
