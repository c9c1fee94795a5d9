"""Spans of citations in answers of several texts: Responses and Messages count from the part, Chat and Gemini from the
beginning of the answer's text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exchanges import read_events, write_events
from toolglot import translate_response
from toolglot.dialects import DIALECTS
from toolglot.events import Event, fold, unfold
from toolglot.ir import Text
from toolglot.wire import json

FIRST, SECOND, THIRD = "Let me look.", "The sky is blue.", " It is."
SKY = {"type": "url_citation", "url": "https://sky.example", "title": "Sky", "start_index": 4, "end_index": 7}


def message(item_id: str, text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": [part]}


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [
        message("msg_1", FIRST),
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"},
        message("msg_2", SECOND, SKY),
        message("msg_3", THIRD, SKY),
    ],
}


def cited(text: str, start: int, end: int) -> str:
    return text[start:end]


def chat_spans(answer: dict[str, Any]) -> list[str]:
    said = answer["choices"][0]["message"]
    spans = [entry["url_citation"] for entry in said["annotations"]]
    return [cited(said["content"], span["start_index"], span["end_index"]) for span in spans]


def gemini_spans(answer: dict[str, Any]) -> list[str]:
    candidate = answer["candidates"][0]
    text = "".join(part.get("text", "") for part in candidate["content"]["parts"])
    return [cited(text, *span) for span in gemini_segments(candidate)]


def gemini_segments(candidate: dict[str, Any]) -> list[tuple[int, int]]:
    """Offsets in bytes, which are characters here."""
    segments = [support["segment"] for support in candidate["groundingMetadata"]["groundingSupports"]]
    return [(segment["startIndex"], segment["endIndex"]) for segment in segments]


SPANS = {"openai_chat": chat_spans, "gemini": gemini_spans}
EXPECTED = [SECOND[4:7], THIRD[4:7]]


@pytest.mark.parametrize("client", SPANS)
def test_a_span_marks_the_same_words_in_an_answer_of_several_texts(client: str) -> None:
    assert SPANS[client](translate_response(RESPONSE, "openai_responses", client).json()) == EXPECTED


@pytest.mark.parametrize("client", SPANS)
def test_a_span_marks_the_same_words_in_a_stream_of_several_texts(client: str) -> None:
    events = streamed(RESPONSE)
    folded = fold(read_events(client, [write_events(client, events)]))
    whole = "".join(block.text for block in folded.content if isinstance(block, Text))
    frames = write_events(client, events).decode().split("data: ")[1:]
    documents = [json.decode(frame.strip().encode()) for frame in frames if "[DONE]" not in frame]
    if client == "openai_chat":
        listed = [entry for one in documents for entry in one["choices"][0]["delta"].get("annotations", ())]
        spans = [(entry["url_citation"]["start_index"], entry["url_citation"]["end_index"]) for entry in listed]
    else:
        spans = gemini_segments(documents[-1]["candidates"][0])
    assert [cited(whole, *span) for span in spans] == EXPECTED


def streamed(response: dict[str, Any]) -> list[Event]:
    return list(unfold(DIALECTS["openai_responses"].decode_response(json.encode(response))))


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "text", "text": FIRST},
        {
            "type": "text",
            "text": SECOND,
            "citations": [
                {"type": "web_search_result_location", "url": "https://sky.example", "title": "Sky", "cited_text": "x"}
            ],
        },
    ],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def test_a_citation_without_a_span_marks_its_whole_text() -> None:
    assert chat_spans(translate_response(MESSAGE, "anthropic", "openai_chat").json()) == [SECOND]
    answer = translate_response(MESSAGE, "anthropic", "openai_responses").json()
    parts = [part for item in answer["output"] for part in item["content"]]
    spans = [(part["text"], note) for part in parts for note in part["annotations"]]
    assert [cited(text, note["start_index"], note["end_index"]) for text, note in spans] == [SECOND]
