"""`GET /v1beta/models`: the list in pages, and one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from toolglot.dialect import Listing
from toolglot.dialects.gemini.wire import MODEL_LISTS
from toolglot.errors import expected
from toolglot.models import ModelInfo, asked_size, page, whole
from toolglot.wire import json

_USUAL, _MOST = 50, 1000
_PREFIX = "models/"
_METHODS = ("generateContent", "countTokens")


def encode_models(models: Sequence[ModelInfo], query: Mapping[str, str]) -> bytes:
    """Encode one page. The token of the next page is its start position. An invalid token gives an empty page."""
    size = asked_size(_to_camel_case(query), "pageSize", _USUAL, _MOST)
    token = _to_camel_case(query).get("pageToken")
    start = 0 if not token else whole(token) or len(models)
    wire: dict[str, Any] = {"models": [_encode_entry(model) for model in page(models, start, size)]}
    if start + size < len(models):
        wire["nextPageToken"] = str(start + size)
    return json.encode(wire)


def _to_camel_case(query: Mapping[str, str]) -> dict[str, str]:
    spelling = {"page_size": "pageSize", "page_token": "pageToken"}
    return {spelling.get(key, key): value for key, value in query.items()}


def encode_model(model: ModelInfo) -> bytes:
    return json.encode(_encode_entry(model))


def _encode_entry(model: ModelInfo) -> dict[str, Any]:
    fields = {
        "name": model.name if model.name.startswith(_PREFIX) else _PREFIX + model.name,
        "version": "001",
        "displayName": model.title or model.name,
        "inputTokenLimit": model.context_window,
        "outputTokenLimit": model.max_output_tokens,
        "supportedGenerationMethods": _METHODS,
        "thinking": model.thinking,
    }
    return {key: value for key, value in fields.items() if value is not None}


def decode_models(data: bytes) -> list[ModelInfo]:
    """Decode the models of a page that generate content. Invalid entries are left out.

    Raises:
        DecodeError: the document is not a list of models.
    """
    body = MODEL_LISTS.read_value(json.decode(data), "$")
    if body.models is UNSET and body.rest:
        raise expected("$.models", "an array", None)
    return [_decode_entry(entry) for entry in body.models or () if _generates_content(entry)]


def _generates_content(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    methods = entry.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


def _decode_entry(entry: dict[str, Any]) -> ModelInfo:
    title, thinking = entry.get("displayName"), entry.get("thinking")
    return ModelInfo(
        name=entry["name"].removeprefix(_PREFIX),
        title=title if isinstance(title, str) else None,
        context_window=whole(entry.get("inputTokenLimit")),
        max_output_tokens=whole(entry.get("outputTokenLimit")),
        thinking=thinking if isinstance(thinking, bool) else None,
    )


LISTING = Listing(
    path=f"/v1beta/models?pageSize={_MOST}",
    encode_models=encode_models,
    encode_model=encode_model,
    decode_models=decode_models,
)
