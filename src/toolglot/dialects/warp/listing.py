"""Lists of models. Warp itself has only a GraphQL API, with the choices for each of its features.

Lists are written in OpenAI's form, which tools around Warp request from a gateway, and read in both forms.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialect import Listing
from toolglot.errors import DecodeError
from toolglot.models import ModelInfo, whole
from toolglot.wire import json, openai_models

_FEATURES = ("agentMode", "planning", "coding", "cliAgent", "computerUseAgent")


def decode_models(data: bytes) -> list[ModelInfo]:
    """Decode a list of models, or the models that any feature offers. Disabled models are left out.

    Raises:
        DecodeError: the document is not a list of models.
    """
    features = _find_key(json.decode(data), "featureModelChoice")
    if features is None:
        return openai_models.decode_models(data)
    if not isinstance(features, dict):
        raise DecodeError("featureModelChoice", "an object is expected")
    found: dict[str, ModelInfo] = {}
    for feature in _FEATURES:
        offered = features.get(feature)
        choices = offered.get("choices") if isinstance(offered, dict) else None
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and isinstance(choice.get("id"), str) and not choice.get("disableReason"):
                found.setdefault(choice["id"], _decode_entry(choice))
    return list(found.values())


def _find_key(value: Any, key: str) -> Any:
    """Find the first value of this key, at any depth: its position differs between versions."""
    pending = [value]
    for item in pending:
        if isinstance(item, dict):
            if key in item:
                return item[key]
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return None


def _decode_entry(choice: dict[str, Any]) -> ModelInfo:
    title, owner = choice.get("displayName"), choice.get("provider")
    return ModelInfo(
        name=choice["id"],
        title=title if isinstance(title, str) else None,
        owner=owner if isinstance(owner, str) else None,
        context_window=whole(choice.get("contextWindow")),
        inputs=frozenset({"text", "image"}) if choice.get("visionSupported") is True else frozenset(),
    )


LISTING = Listing(
    path=openai_models.PATH,
    encode_models=openai_models.encode_models,
    encode_model=openai_models.encode_model,
    decode_models=decode_models,
)
