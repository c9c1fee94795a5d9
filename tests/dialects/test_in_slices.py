"""A large request is read in slices. Each form that its history may have means the same as in a small request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import DecodeError, translate_request
from toolglot.wire import incremental_json

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("openai_responses", {"model": "m", "input": "Umbrella?"}),
    ("openai_responses", {"model": "m", "input": [{"role": "user", "content": "Umbrella?"}]}),
    ("gemini", {"contents": {"role": "user", "parts": [{"text": "Umbrella?"}]}}),
    ("gemini", {"contents": [{"role": "user", "parts": [{"text": "Umbrella?"}]}]}),
    ("openai_chat", {"model": "m", "messages": [{"role": "user", "content": "Umbrella?"}]}),
    ("anthropic", {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Umbrella?"}]}),
]
HISTORIES = {"openai_chat": "messages", "openai_responses": "input", "anthropic": "messages", "gemini": "contents"}


def outcome(source: str, document: dict[str, Any]) -> Any:
    target = "anthropic" if source != "anthropic" else "openai_chat"
    try:
        return translate_request(json.dumps(document).encode(), source, target, model="m").json()
    except DecodeError as error:
        return error.where, error.what


@pytest.mark.parametrize(("source", "document"), FORMS)
def test_every_form_of_a_history_is_read(
    source: str, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = outcome(source, document)
    assert whole["messages"] == [{"role": "user", "content": "Umbrella?"}]
    monkeypatch.setattr(incremental_json, "LARGE", -1)
    assert outcome(source, document) == whole


@pytest.mark.parametrize("wrong", [None, 5, True, "text", {"a": 1}], ids=repr)
@pytest.mark.parametrize("source", HISTORIES)
def test_what_is_no_history_is_refused_with_the_same_words(
    source: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"model": "m", "max_tokens": 5, HISTORIES[source]: wrong}
    whole = outcome(source, document)
    monkeypatch.setattr(incremental_json, "LARGE", -1)
    assert outcome(source, document) == whole
