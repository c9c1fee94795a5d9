"""Sources of grounded answers: chunks and supports in bytes <-> citations in characters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.gemini.grounding import ByteOffsets
from toolglot.translate import Exchange

TEXT = "Zürich hat 😀 viele Trams. Bern auch."
FIRST, SECOND = "Zürich hat 😀 viele Trams.", "Bern auch."
CHUNKS = [{"web": {"uri": "https://a.test", "title": "A"}}, {"web": {"uri": "https://b.test"}}]
EXPECTED = [("https://a.test", 0, 25), ("https://b.test", 0, 25), ("https://b.test", 26, 36)]


def segment(text: str, within: str = TEXT, **fields: Any) -> dict[str, Any]:
    start = within.encode().index(text.encode())
    shown = {"startIndex": start} if start else {}
    return {**shown, "endIndex": start + len(text.encode()), "text": text, **fields}


def support(found: dict[str, Any], *indices: int) -> dict[str, Any]:
    return {"segment": found, "groundingChunkIndices": list(indices)}


GROUNDING = {
    "groundingChunks": CHUNKS,
    "groundingSupports": [support(segment(FIRST), 0, 1), support(segment(SECOND), 1)],
}


def answer(grounding: Any, *parts: dict[str, Any]) -> dict[str, Any]:
    content = {"parts": list(parts or ({"text": TEXT},)), "role": "model"}
    candidate = {"content": content, "finishReason": "STOP", "index": 0, "groundingMetadata": grounding}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}


def frames(*documents: dict[str, Any]) -> bytes:
    return b"".join(
        b"data: " + json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
        for document in documents
    )


def piece(text: str, **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **fields}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}


def annotations_of(message: dict[str, Any]) -> list[tuple[str, int, int]]:
    found = [one["url_citation"] for one in message.get("annotations", ())]
    return [(one["url"], one["start_index"], one["end_index"]) for one in found]


def chat_annotations(exchange: Exchange, document: dict[str, Any]) -> list[tuple[str, int, int]]:
    return annotations_of(json.loads(exchange.response(document))["choices"][0]["message"])


def streamed_annotations(exchange: Exchange, data: bytes, size: int = 10_000) -> list[tuple[str, int, int]]:
    stream = exchange.stream()
    written = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.close()
    chunks = [json.loads(line[6:]) for line in written.split(b"\n") if line.startswith(b"data: {")]
    return [one for chunk in chunks for choice in chunk["choices"] for one in annotations_of(choice["delta"])]


def losses(exchange: Exchange) -> list[str]:
    return [line.where for line in exchange.receipt if line.severity == "loss"]


def test_chat_clients_get_the_sources_as_annotations_of_characters() -> None:
    exchange = Exchange("openai_chat", "gemini")
    assert chat_annotations(exchange, answer(GROUNDING)) == EXPECTED
    assert losses(exchange) == []


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_chat_clients_get_the_sources_of_a_stream(size: int) -> None:
    texts = ["Zürich hat ", "😀 viele ", "Trams. ", "Bern"]
    last = piece(" auch.", finishReason="STOP", groundingMetadata=GROUNDING)
    exchange = Exchange("openai_chat", "gemini")
    assert streamed_annotations(exchange, frames(*map(piece, texts), last), size) == EXPECTED
    assert losses(exchange) == []


def test_sources_that_come_frame_by_frame_are_each_cited_once() -> None:
    first = {"groundingChunks": CHUNKS[:1], "groundingSupports": [support(segment(FIRST), 0)]}
    second = {"groundingChunks": CHUNKS[1:], "groundingSupports": [support(segment(SECOND), 0)]}
    data = frames(
        piece(FIRST + " ", groundingMetadata=first), piece(SECOND, finishReason="STOP", groundingMetadata=second)
    )
    assert streamed_annotations(Exchange("openai_chat", "gemini"), data) == [EXPECTED[0], EXPECTED[2]]


def test_sources_after_the_end_of_their_text_are_reported() -> None:
    call = {"functionCall": {"name": "f", "args": {}}}
    data = frames(
        piece(TEXT),
        {"candidates": [{"content": {"parts": [call], "role": "model"}, "index": 0}]},
        piece("", finishReason="STOP", groundingMetadata=GROUNDING),
    )
    exchange = Exchange("openai_chat", "gemini")
    assert streamed_annotations(exchange, data) == []
    assert "candidates[0].groundingMetadata.groundingSupports" in losses(exchange)


def test_responses_and_messages_clients_get_the_sources() -> None:
    document = json.loads(Exchange("openai_responses", "gemini").response(answer(GROUNDING)))
    found = document["output"][0]["content"][0]["annotations"]
    assert [(one["url"], one["start_index"], one["end_index"]) for one in found] == EXPECTED
    document = json.loads(Exchange("anthropic", "gemini").response(answer(GROUNDING)))
    found = document["content"][0]["citations"]
    assert [(one["type"], one["url"]) for one in found] == [
        ("web_search_result_location", url) for url, _, _ in EXPECTED
    ]


def test_a_segment_is_counted_from_its_part_or_from_the_whole_text() -> None:
    parts: list[dict[str, Any]] = [{"text": "hm", "thought": True}, {"text": FIRST + " "}, {"text": SECOND}]
    for found in (segment(SECOND, SECOND, partIndex=2), segment(SECOND, TEXT)):
        grounding = {"groundingChunks": CHUNKS, "groundingSupports": [support(found, 0)]}
        document = answer(grounding, *parts)
        assert chat_annotations(Exchange("openai_chat", "gemini"), document) == [("https://a.test", 26, 36)]


@pytest.mark.parametrize(
    "found",
    [
        {"startIndex": 2, "endIndex": 5},  # inside a character
        {"startIndex": 0, "endIndex": 1000},
        {"startIndex": 5, "endIndex": 2},
        {"startIndex": 0, "endIndex": 6, "text": "another"},
        {},
        None,
    ],
)
def test_a_source_whose_segment_cannot_be_found_supports_the_whole_text(found: Any) -> None:
    grounding = {"groundingChunks": CHUNKS, "groundingSupports": [support(found, 0)]}
    exchange = Exchange("openai_chat", "gemini")
    assert chat_annotations(exchange, answer(grounding)) == [("https://a.test", 0, len(TEXT))]
    assert ("candidates[0].groundingMetadata.groundingSupports" in losses(exchange)) is bool(found)


def test_sources_without_supports_support_the_whole_text() -> None:
    found = chat_annotations(Exchange("openai_chat", "gemini"), answer({"groundingChunks": CHUNKS}))
    assert found == [("https://a.test", 0, len(TEXT)), ("https://b.test", 0, len(TEXT))]


@pytest.mark.parametrize(
    ("grounding", "lost"),
    [
        ({**GROUNDING, "searchEntryPoint": {"renderedContent": "x"}}, "searchEntryPoint"),
        ({**GROUNDING, "groundingChunks": [*CHUNKS, {"web": {"uri": "https://c.test"}}]}, "groundingChunks"),
        ({**GROUNDING, "groundingSupports": [GROUNDING["groundingSupports"][0], support({}, 9)]}, "groundingSupports"),
        ({"groundingChunks": [{"web": {}}]}, "groundingChunks"),
        ({"groundingChunks": CHUNKS, "groundingSupports": {"a": 1}}, "groundingSupports"),
    ],
)  # fmt: skip
def test_what_no_citation_carries_is_reported(grounding: dict[str, Any], lost: str) -> None:
    exchange = Exchange("openai_chat", "gemini")
    exchange.response(answer(grounding))
    assert f"candidates[0].groundingMetadata.{lost}" in losses(exchange)


def test_gemini_clients_of_gemini_get_what_came() -> None:
    grounding = {**GROUNDING, "webSearchQueries": ["q"], "novel": 1}
    document = answer(grounding)
    exchange = Exchange("gemini", "gemini", verbatim=False)
    assert json.loads(exchange.response(document)) == document
    stream = Exchange("gemini", "gemini", verbatim=False).stream()
    written = stream.feed(frames(document)) + stream.close()
    last = json.loads(written.strip().split(b"data: ")[-1])
    assert last["candidates"][0]["groundingMetadata"] == grounding


def chat_answer() -> dict[str, Any]:
    cited = [
        {"type": "url_citation", "url_citation": {"url": url, "title": "T", "start_index": start, "end_index": end}}
        for url, start, end in EXPECTED
    ]
    message = {"role": "assistant", "content": TEXT, "annotations": cited}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


WRITTEN = {
    "groundingChunks": [{"web": {"uri": url, "title": "T"}} for url in ("https://a.test", "https://b.test")],
    "groundingSupports": [
        {"segment": {"startIndex": 0, "endIndex": 29, "text": FIRST}, "groundingChunkIndices": [0, 1]},
        {"segment": {"startIndex": 30, "endIndex": 40, "text": SECOND}, "groundingChunkIndices": [1]},
    ],
}


def test_gemini_clients_get_annotations_as_grounding() -> None:
    document = json.loads(Exchange("gemini", "openai_chat").response(chat_answer()))
    assert document["candidates"][0]["groundingMetadata"] == WRITTEN


def test_gemini_clients_get_annotations_of_a_stream_as_grounding() -> None:
    (choice,) = chat_answer()["choices"]
    shape = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    cited = {"annotations": choice["message"]["annotations"]}
    deltas = [*({"content": text} for text in ("Zürich hat ", "😀 viele ", "Trams. ", "Bern", " auch.")), cited]
    chunks = [{**shape, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**shape, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    stream = Exchange("gemini", "openai_chat").stream()
    written = stream.feed(frames(*chunks) + b"data: [DONE]\n\n") + stream.close()
    last = json.loads(written.strip().split(b"data: ")[-1])
    assert last["candidates"][0]["groundingMetadata"] == WRITTEN


@given(st.text(max_size=30))
def test_offsets_in_bytes_and_in_characters_are_those_of_utf_8(text: str) -> None:
    offsets, data = ByteOffsets(text), text.encode("utf-8", "surrogatepass")
    for at in range(len(text) + 1):
        before = len(text[:at].encode("utf-8", "surrogatepass"))
        assert (offsets.to_bytes(at), offsets.to_characters(before)) == (before, at)
    assert offsets.to_characters(len(data) + 1) is offsets.to_characters(-1) is None
