"""`GET /v1/models`: the list in pages, and one model with its capabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from toolglot.dialect import Listing
from toolglot.errors import expected
from toolglot.models import ModelInfo, asked_size, page, whole
from toolglot.wire import json

_USUAL, _MOST = 20, 1000
_EFFORTS = ("low", "medium", "high", "max")
_THINKING_TYPES = ("adaptive", "enabled", "disabled", "between_tools")
_INPUTS = {"image_input": "image", "pdf_input": "document"}


def encode_models(models: Sequence[ModelInfo], query: Mapping[str, str]) -> bytes:
    """Encode one page: `limit` models after `after_id` or before `before_id`. An unknown id gives an empty page."""
    size = asked_size(query, "limit", _USUAL, _MOST)
    names = [model.name for model in models]
    if before := query.get("before_id"):
        end = names.index(before) if before in names else 0
        start = max(end - size, 0)
        listed, more = models[start:end], start > 0
    else:
        after = query.get("after_id")
        start = 0 if not after else names.index(after) + 1 if after in names else len(names)
        listed, more = page(models, start, size), start + size < len(names)
    wire = {
        "data": [_encode_entry(model) for model in listed],
        "has_more": more,
        "first_id": listed[0].name if listed else None,
        "last_id": listed[-1].name if listed else None,
    }
    return json.encode(wire)


def encode_model(model: ModelInfo) -> bytes:
    return json.encode(_encode_entry(model))


def _encode_entry(model: ModelInfo) -> dict[str, Any]:
    # The API itself writes the start of the epoch if it does not know the date.
    created = datetime.fromtimestamp(min(model.created or 0, _LATEST), UTC)
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.title or model.name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.context_window,
        "max_tokens": model.max_output_tokens,
        "capabilities": _encode_capabilities(model),
    }


_LATEST = 253_402_300_799  # the end of the year 9999


def _supports(answer: object) -> dict[str, bool]:
    return {"supported": bool(answer)}


def _encode_capabilities(model: ModelInfo) -> dict[str, Any] | None:
    """Encode all capabilities that the API has. None if nothing is known of the model."""
    if not model.inputs and model.thinking is None:
        return None
    no, thinks = _supports(False), _supports(model.thinking)
    return {
        **{name: _supports(kind in model.inputs) for name, kind in _INPUTS.items()},
        "thinking": {**thinks, "types": dict.fromkeys(_THINKING_TYPES, thinks)},
        "effort": {**thinks, **dict.fromkeys(_EFFORTS, thinks)},
        "structured_outputs": _supports(True),
        "batch": no,
        "citations": no,
        "code_execution": no,
        "context_management": no,
        "server_tools": {**no, "code_execution": no, "web_search": no},
    }


def decode_models(data: bytes) -> list[ModelInfo]:
    """Decode the models of a page. Invalid entries are left out.

    Raises:
        DecodeError: the document is not a list of models.
    """
    body = json.decode(data)
    if not isinstance(body, dict):
        raise expected("$", "an object", body)
    listed = body.get("data")
    if not isinstance(listed, list):
        raise expected("$.data", "an array", listed)
    return [_decode_entry(entry) for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _decode_entry(entry: Mapping[str, Any]) -> ModelInfo:
    title, able = entry.get("display_name"), entry.get("capabilities")
    able = able if isinstance(able, dict) else {}
    kinds = {kind for name, kind in _INPUTS.items() if _is_supported(able.get(name))}
    return ModelInfo(
        name=entry["id"],
        title=title if isinstance(title, str) else None,
        created=_decode_date(entry.get("created_at")),
        owner=None,
        context_window=whole(entry.get("max_input_tokens")),
        max_output_tokens=whole(entry.get("max_tokens")),
        inputs=frozenset({"text", *kinds}) if able else frozenset(),
        thinking=_is_supported(able["thinking"]) if "thinking" in able else None,
    )


def _is_supported(ability: Any) -> bool:
    return isinstance(ability, dict) and ability.get("supported") is True


def _decode_date(value: Any) -> int | None:
    try:
        return whole(datetime.fromisoformat(value).timestamp()) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


LISTING = Listing(
    path=f"/v1/models?limit={_MOST}",
    encode_models=encode_models,
    encode_model=encode_model,
    decode_models=decode_models,
)
