"""`GET /api/tags` and `POST /api/show`: the models; `GET /api/version` and `/api/ps`, which clients ask for first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from toolglot.dialect import Listing
from toolglot.dialects.ollama.request import LATEST
from toolglot.dialects.ollama.wire import MODEL_LISTS, SHOW_REQUESTS
from toolglot.errors import DecodeError, expected
from toolglot.models import ModelInfo, whole
from toolglot.wire import json

VERSION = "0.13.0"
"""The release of Ollama whose API this is. VS Code wants 0.6.4 or later."""
ARCHITECTURE = "toolglot"
_CONTEXT = "context_length"


def encode_version(body: bytes) -> bytes:
    return json.encode({"version": VERSION})


def encode_running_models(body: bytes) -> bytes:
    """No model is loaded here: upstreams have them."""
    return json.encode({"models": []})


def encode_models(models: Sequence[ModelInfo], query: Mapping[str, str]) -> bytes:
    return json.encode({"models": [_entry(model) for model in models]})


def _entry(model: ModelInfo) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": _modified(model),
        "size": 0,
        # Ollama's command line shows the first twelve characters, and ends in a panic where there are fewer.
        "digest": hashlib.sha256(model.name.encode(errors="replace")).hexdigest(),
        "details": _details(),
        "capabilities": _abilities(model),
    }


def _modified(model: ModelInfo) -> str:
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


def _abilities(model: ModelInfo) -> list[str]:
    """Every model is offered with tools: a gateway can have it write calls as text."""
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
            "capabilities": _abilities(model),
            "modified_at": _modified(model),
        }
    )


def decode_name(body: bytes) -> str:
    """The model that `POST /api/show` asks for.

    Raises:
        DecodeError: it names none.
    """
    asked = SHOW_REQUESTS.read_value(json.decode(body), "$")
    name = asked.model or asked.name
    if name is UNSET:
        raise DecodeError("$.model", "this string is required")
    return name.removesuffix(LATEST) or name


def decode_models(data: bytes) -> list[ModelInfo]:
    """The models of a list; an entry that cannot be read is left out.

    Raises:
        DecodeError: this is no list of models.
    """
    listed = MODEL_LISTS.read_value(json.decode(data), "$").models
    if listed is UNSET:
        raise expected("$.models", "an array", None)
    return [_decode(entry) for entry in listed or () if isinstance(entry, dict) and _name(entry)]


def _name(entry: dict[str, Any]) -> str:
    found = entry.get("model") or entry.get("name")
    return found if isinstance(found, str) else ""


def _decode(entry: dict[str, Any]) -> ModelInfo:
    abilities = entry.get("capabilities")
    told = abilities if isinstance(abilities, list) else []
    return ModelInfo(
        name=_name(entry),
        context_window=whole(entry.get(_CONTEXT)),
        inputs=frozenset({"text", "image"}) if "vision" in told else frozenset(),
        thinking="thinking" in told if told else None,
    )


LISTING = Listing(
    path="/api/tags",
    encode_models=encode_models,
    encode_model=encode_model,
    decode_models=decode_models,
    decode_name=decode_name,
)
