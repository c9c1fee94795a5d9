"""`GET /v1/models` of OpenAI's two APIs and of the servers that imitate them.

OpenAI's own list has a name, a date and an owner. Other servers add the context window and abilities under various
names. All names in use are read; the most common ones are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolglot.errors import expected
from toolglot.models import ModelInfo, whole
from toolglot.wire import json

PATH = "/v1/models"

# Paths to the members of a model's entry, the likeliest first. vLLM has `max_model_len`, OpenRouter and Together
# `context_length`, Groq `context_window`, LM Studio and Mistral `max_context_length`, llama.cpp `meta`.
_WINDOWS = (
    ("max_model_len",),
    ("context_length",),
    ("context_window",),
    ("loaded_context_length",),
    ("max_context_length",),
    ("meta", "n_ctx"),
    ("meta", "n_ctx_train"),
    ("top_provider", "context_length"),
)
_OUTPUTS = (("max_output_tokens",), ("max_completion_tokens",), ("top_provider", "max_completion_tokens"))
_TITLES = (("display_name",), ("name",))
_MODALITIES = (("architecture", "input_modalities"), ("input_modalities",), ("modalities", "input"))
_INPUTS = {"text": "text", "image": "image", "file": "document", "pdf": "document", "audio": "audio", "video": "video"}
_INPUT_NAMES = {"text": "text", "image": "image", "document": "file", "audio": "audio", "video": "video"}


def encode_models(models: Sequence[ModelInfo], query: Mapping[str, str]) -> bytes:
    """Encode all models, because this API has no pages."""
    return json.encode({"object": "list", "data": [_entry(model) for model in models]})


def encode_model(model: ModelInfo) -> bytes:
    return json.encode(_entry(model))


def _entry(model: ModelInfo) -> dict[str, Any]:
    more: dict[str, Any] = {
        "name": model.title,
        "context_length": model.context_window,
        "max_model_len": model.context_window,
        "max_output_tokens": model.max_output_tokens,
    }
    if model.inputs:
        named = [name for kind, name in _INPUT_NAMES.items() if kind in model.inputs]
        more["architecture"] = {"input_modalities": named}
    return {
        "id": model.name,
        "object": "model",
        "created": model.created or 0,
        "owned_by": model.owner or "toolglot",
        **{key: value for key, value in more.items() if value is not None},
    }


def decode_models(data: bytes) -> list[ModelInfo]:
    """Read the models of a list. An entry that cannot be read is skipped.

    Raises:
        DecodeError: the data is not a list of models.
    """
    document = json.decode(data)
    listed = document if isinstance(document, list) else None  # Together's list is bare
    if isinstance(document, dict):
        listed = next((document[key] for key in ("data", "models") if isinstance(document.get(key), list)), None)
    if listed is None:
        raise expected("$.data", "an array", document.get("data") if isinstance(document, dict) else document)
    found = (_decode(entry) for entry in listed)
    return [model for model in found if model is not None]


def _decode(entry: Any) -> ModelInfo | None:
    if not isinstance(entry, dict):
        return None
    name = _first(entry, (("id",), ("model",), ("name",)), str)
    if not name:
        return None
    title = _first(entry, _TITLES, str)
    return ModelInfo(
        name=name,
        title=title if title != name else None,
        created=whole(entry.get("created")),
        owner=_first(entry, (("owned_by",), ("organization",)), str),
        context_window=_number(entry, _WINDOWS),
        max_output_tokens=_number(entry, _OUTPUTS),
        inputs=_decode_inputs(entry),
    )


def _decode_inputs(entry: dict[str, Any]) -> frozenset[str]:
    named = _first(entry, _MODALITIES, list)
    if named is not None:
        return frozenset(_INPUTS[name] for name in named if isinstance(name, str) and name in _INPUTS)
    abilities = entry.get("capabilities")
    sees = (isinstance(abilities, dict) and abilities.get("vision") is True) or (
        isinstance(abilities, list) and ("multimodal" in abilities or "vision" in abilities)
    )
    return frozenset({"text", "image"}) if sees or entry.get("type") == "vlm" else frozenset()


def _at(entry: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


def _first(entry: dict[str, Any], paths: tuple[tuple[str, ...], ...], kind: type) -> Any:
    return next((value for value in (_at(entry, path) for path in paths) if isinstance(value, kind) and value), None)


def _number(entry: dict[str, Any], paths: tuple[tuple[str, ...], ...]) -> int | None:
    return next((number for number in (whole(_at(entry, path)) for path in paths) if number is not None), None)
