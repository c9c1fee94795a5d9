"""`GET /api/tags` and `POST /api/show`: the models. `GET /api/version` and `/api/ps`: clients call these first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from toolglot.dialect import Listing
from toolglot.dialects.ollama.wire import MODEL_LISTS, SHOW_REQUESTS
from toolglot.errors import DecodeError, expected
from toolglot.models import GATEWAY_TAG, LATEST, ModelInfo, whole
from toolglot.wire import json

VERSION = "0.13.0"
"""The Ollama release whose API this implements. VS Code requires 0.6.4 or later."""
ARCHITECTURE = "toolglot"
_CONTEXT = "context_length"


def encode_version(body: bytes) -> bytes:
    return json.encode({"version": VERSION})


def encode_running_models(body: bytes) -> bytes:
    """Encode an empty list: the gateway itself loads no models."""
    return json.encode({"models": []})


def encode_models(models: Sequence[ModelInfo], query: Mapping[str, str]) -> bytes:
    return json.encode({"models": [_encode_entry(model) for model in models]})


def _encode_entry(model: ModelInfo) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": _add_tag(model.name),
        "modified_at": _modified_at(model),
        "size": 0,
        # Ollama's command line shows the first twelve characters, and panics if there are fewer.
        "digest": hashlib.sha256(model.name.encode(errors="replace")).hexdigest(),
        "details": _details(),
        "capabilities": _capabilities(model),
    }


def _add_tag(name: str) -> str:
    """Return a name with a tag. Open WebUI adds `:latest` to a name without one, and then rejects it because the list
    does not have that name; it leaves other tags alone. `:latest` is not used here: it may be a part of an upstream's
    own name, so the router could not remove it from the names that VS Code sends to `/v1/chat/completions`."""
    return name if ":" in name else name + GATEWAY_TAG


def _modified_at(model: ModelInfo) -> str:
    return datetime.fromtimestamp(model.created or 0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _details() -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "",
        "family": ARCHITECTURE,
        "families": [ARCHITECTURE],
        "parameter_size": "",
        "quantization_level": "",
    }


def _capabilities(model: ModelInfo) -> list[str]:
    """Return the capabilities of a model. All have tools: the gateway can let a model write calls as text."""
    sees, thinks = "image" in model.inputs, model.thinking
    return ["completion", "tools", *(["vision"] if sees else []), *(["thinking"] if thinks else [])]


def encode_model(model: ModelInfo) -> bytes:
    window = {} if model.context_window is None else {f"{ARCHITECTURE}.{_CONTEXT}": model.context_window}
    return json.encode(
        {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": _details(),
            "model_info": {
                "general.architecture": ARCHITECTURE,
                "general.basename": model.title or model.name,
                **window,
            },
            "capabilities": _capabilities(model),
            "modified_at": _modified_at(model),
        }
    )


def decode_name(body: bytes) -> str:
    """Decode the model's name in a request of `POST /api/show`.

    Raises:
        DecodeError: the request names no model.
    """
    request = SHOW_REQUESTS.read_value(json.decode(body), "$")
    name = request.model or request.name
    if name is UNSET:
        raise DecodeError("$.model", "this string is required")
    return name.removesuffix(GATEWAY_TAG).removesuffix(LATEST) or name


def decode_models(data: bytes) -> list[ModelInfo]:
    """Decode a list of models. Invalid entries are left out.

    Raises:
        DecodeError: the document is not a list of models.
    """
    listed = MODEL_LISTS.read_value(json.decode(data), "$").models
    if listed is UNSET:
        raise expected("$.models", "an array", None)
    return [_decode_entry(entry) for entry in listed or () if isinstance(entry, dict) and _model_name(entry)]


def _model_name(entry: dict[str, Any]) -> str:
    found = entry.get("model") or entry.get("name")
    return found.removesuffix(GATEWAY_TAG) if isinstance(found, str) else ""


def _decode_entry(entry: dict[str, Any]) -> ModelInfo:
    listed = entry.get("capabilities")
    capabilities = listed if isinstance(listed, list) else []
    return ModelInfo(
        name=_model_name(entry),
        context_window=whole(entry.get(_CONTEXT)),
        inputs=frozenset({"text", "image"}) if "vision" in capabilities else frozenset(),
        thinking="thinking" in capabilities if capabilities else None,
    )


LISTING = Listing(
    path="/api/tags",
    encode_models=encode_models,
    encode_model=encode_model,
    decode_models=decode_models,
    decode_name=decode_name,
)
