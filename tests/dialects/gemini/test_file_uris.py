"""Media by URL: what others can open is carried as what it is, and what only Google opens is named in the receipt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import DIALECTS, translate_request
from toolglot.receipt import Receipt


def from_gemini(file: dict[str, str], target: str, model: str) -> tuple[Any, list[str]]:
    body = {"contents": [{"role": "user", "parts": [{"fileData": file}]}]}
    result = translate_request(json.dumps(body).encode(), "gemini", target, model=model)
    document = json.loads(result.data)
    messages = document["input"] if target == "openai_responses" else document["messages"]
    return messages[0]["content"], [f"{line.severity} {line.what}" for line in result.receipt.losses]


def to_gemini(part: dict[str, Any]) -> Any:
    body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
    result = translate_request(json.dumps(body).encode(), "openai_chat", "gemini", model="gemini-2.5-pro")
    assert not result.receipt.losses
    return json.loads(result.data)["contents"][0]["parts"][0]


MOVIE = {"mimeType": "video/mp4", "fileUri": "https://files.example/movie.mp4"}
IN_CHAT = {"type": "video_url", "video_url": {"url": "https://files.example/movie.mp4"}}
VIDEO_MODELS = (
    "google/gemini-2.5-pro",
    "Qwen/Qwen3-VL-8B",
    "qwen2.5-vl-72b",
    "qwen3-omni-flash",
    "glm-4.5v",
    "kimi-k2.5",
)


@pytest.mark.parametrize("model", VIDEO_MODELS)
def test_a_public_video_goes_to_chat_models_that_take_one(model: str) -> None:
    assert from_gemini(MOVIE, "openai_chat", model.lower()) == ([IN_CHAT], [])


@pytest.mark.parametrize("model", ["gpt-4.1", "llama-3", "mistral-large", "qwen3-coder", "glm-4.6", "kimi-k2"])
def test_a_video_is_a_loss_for_other_chat_models(model: str) -> None:
    content, losses = from_gemini(MOVIE, "openai_chat", model)
    assert losses == ["loss video"]
    assert "movie.mp4" not in str(content)


@pytest.mark.parametrize("target", ["openai_responses", "anthropic"])
def test_a_video_is_a_loss_where_the_api_has_none(target: str) -> None:
    assert from_gemini(MOVIE, target, "some-model")[1] == ["loss video"]


@pytest.mark.parametrize("page", ["https://www.youtube.com/watch?v=1", "https://youtu.be/1"])
@pytest.mark.parametrize("model", ["gpt-4.1", "qwen3-vl"])
def test_a_page_with_a_video_is_named_as_a_video_that_others_cannot_open(page: str, model: str) -> None:
    assert from_gemini({"fileUri": page}, "openai_chat", model)[1] == ["loss video"]


UNTYPED = {"https://x.example/a.JPG?size=2": "image_url", "https://x.example/b.png": "image_url"}


@pytest.mark.parametrize("uri", UNTYPED)
def test_a_url_without_a_media_type_is_what_its_name_says(uri: str) -> None:
    content, losses = from_gemini({"fileUri": uri}, "openai_chat", "gpt-4.1")
    assert (content[0]["type"], losses) == (UNTYPED[uri], [])


@pytest.mark.parametrize("uri", [*UNTYPED, "https://x.example/c", "https://[bad/d.png"])
def test_a_file_without_a_media_type_stays_without_one_within_gemini(uri: str) -> None:
    body = {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": uri}}]}]}
    gemini = DIALECTS["gemini"]
    again = gemini.encode_request(gemini.decode_request(json.dumps(body).encode()), Receipt())
    assert json.loads(again) == body


@pytest.mark.parametrize(
    ("part", "file"),
    [
        (IN_CHAT, MOVIE),
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
            {"mimeType": "image/png", "fileUri": "https://x.example/a.png"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a?id=7"}},
            {"fileUri": "https://x.example/a?id=7"},
        ),
        ({"type": "video_url", "video_url": {"url": "https://youtu.be/1"}}, {"fileUri": "https://youtu.be/1"}),
    ],
)
def test_a_url_goes_to_gemini_with_the_type_that_its_name_says(part: dict[str, Any], file: dict[str, str]) -> None:
    assert to_gemini(part) == {"fileData": file}
