"""`generationConfig` <-> sampling, response format and reasoning."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from toolglot.dialects.gemini.blocks import keep
from toolglot.dialects.gemini.names import THINKING, normalize
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.tools import decode_schema, encode_schema
from toolglot.dialects.gemini.wire import GenerationConfig
from toolglot.errors import expected
from toolglot.ir import Reasoning, Request, ResponseFormat, native_of
from toolglot.receipt import Receipt
from toolglot.wire.structs import field_reader, members_without

_SETTINGS = {
    "temperature": "temperature",
    "top_p": "topP",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "max_output_tokens": "maxOutputTokens",
    "top_k": "topK",
    "candidates": "candidateCount",
    "top_logprobs": "logprobs",
    "seed": "seed",
    "logprobs": "responseLogprobs",
}
"""Fields of the IR -> members of `generationConfig`."""
_settings_of = field_reader(*_SETTINGS)
_FIELDS = {member: name for name, member in _SETTINGS.items()}

_FORMATS: dict[str, Literal["text", "json"]] = {"application/json": "json", "text/plain": "text"}
_LEVELS = frozenset({"minimal", "low", "medium", "high"})


def decode_settings(config: GenerationConfig, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decode `generationConfig`: fields of `Request`, and the members without a field."""
    rest = members_without(config, "thinkingConfig")
    fields = {_FIELDS[key]: rest.pop(key) for key in _FIELDS.keys() & rest.keys() if rest[key] is not None}
    if rest.get("stopSequences"):
        fields["stop"] = tuple(rest.pop("stopSequences"))
    if (form := _decode_format(rest, where)) is not None:
        fields["response_format"] = form
    if config.thinking_config is not UNSET:
        fields["reasoning"] = _decode_reasoning(config.thinking_config, f"{where}.thinkingConfig")
    return fields, rest


def encode_settings(request: Request, receipt: Receipt) -> dict[str, Any]:
    """Encode the members of `generationConfig` that the IR has."""
    members: dict[str, Any] = {_SETTINGS[name]: value for name, value in _settings_of(request)}
    if request.stop:
        members["stopSequences"] = list(request.stop)
    if request.response_format is not None:
        wants_openapi = bool(native_of(request, NAME).get("$openapi_schema"))
        members |= _encode_format(request.response_format, wants_openapi, receipt)
    if request.reasoning is not None:
        members["thinkingConfig"] = _encode_reasoning(request.reasoning, receipt)
    return members


# Response format


def _decode_format(config: dict[str, Any], where: str) -> ResponseFormat | None:
    """Decode the response format, and remove its members from `config`."""
    mime = config.get("responseMimeType")
    if mime is not None and not (isinstance(mime, str) and mime in _FORMATS):
        return None  # text/x.enum and future types, which no other API has
    # Older versions of the Python SDK write the JSON Schema member with an underscore.
    plain = "_responseJsonSchema" if config.get("_responseJsonSchema") is not None else "responseJsonSchema"
    names = plain, "responseSchema"
    schemas = config.get(plain), config.get("responseSchema")
    if schemas == (None, None):
        return None if mime is None else ResponseFormat(kind=_FORMATS[config.pop("responseMimeType")])
    if mime == "text/plain":
        return None
    schema, taken, notes = decode_schema(schemas, names, where)
    del config[taken]
    if mime is not None:
        del config["responseMimeType"]
    if plain.startswith("_"):
        notes = {plain: notes.get(plain, schema)}
    native = keep({}, **notes, mime="absent" if mime is None else None)
    return ResponseFormat(kind="json_schema", schema=schema, native=native)


def _encode_format(form: ResponseFormat, wants_openapi: bool, receipt: Receipt) -> dict[str, Any]:
    if form.kind != "json_schema":
        return {"responseMimeType": "text/plain" if form.kind == "text" else "application/json"}
    notes = native_of(form, NAME)
    plain = "_responseJsonSchema" if "$_responseJsonSchema" in notes else "responseJsonSchema"
    for present, what in ((form.name, "name"), (form.description, "description")):
        if present is not None:
            receipt.note(f"response_format.{what}", what, "Gemini has no name for a response schema")
    mime = {} if notes.get("$mime") == "absent" else {"responseMimeType": "application/json"}
    keys = (plain, "responseSchema", "response_format.schema")
    return {**mime, **encode_schema(form, form.schema, *keys, wants_openapi, receipt)}


# Reasoning


def _decode_reasoning(config: dict[str, Any], where: str) -> Reasoning:
    config = dict(normalize(config, THINKING, where))
    show, level, budget = config.get("includeThoughts"), config.get("thinkingLevel"), config.get("thinkingBudget")
    if show is not None and not isinstance(config.pop("includeThoughts"), bool):
        raise expected(f"{where}.includeThoughts", "a boolean", show)
    effort = level.lower() if isinstance(level, str) and level.lower() in _LEVELS else None
    if effort is not None:
        del config["thinkingLevel"]
    mode: Literal["on", "off", "auto"] | None = "on" if effort is not None else None
    if type(budget) is int and budget >= -1:
        del config["thinkingBudget"]
        mode = "off" if budget == 0 else "auto" if budget == -1 else "on"
    else:
        budget = None
    notes = {
        "level": level if effort is not None and level != effort.upper() else None,
        "both": True if effort is not None and budget is not None else None,
    }
    tokens = budget if budget is not None and budget > 0 else None
    return Reasoning(mode=mode, effort=effort, budget_tokens=tokens, show=show, native=keep(config, **notes))


def _encode_reasoning(reasoning: Reasoning, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(reasoning, NAME)
    members: dict[str, Any] = {}
    if reasoning.show is not None:
        members["includeThoughts"] = reasoning.show
    effort, budget = reasoning.effort, reasoning.budget_tokens
    if reasoning.mode == "off":
        budget = 0
    elif reasoning.mode is not None and budget is None and (effort is None or notes.get("$both")):
        budget = -1
    if budget is not None:
        members["thinkingBudget"] = budget
    if effort is not None and (budget is None or notes.get("$both")):
        if effort not in _LEVELS:
            receipt.loss("reasoning.effort", f"effort {effort}", "Gemini has no such thinking level")
        else:
            noted = notes.get("$level")
            members["thinkingLevel"] = noted if noted is not None and noted.lower() == effort else effort.upper()
    elif effort is not None and budget:
        # "You can only set one of thinking budget and thinking level."
        receipt.loss("reasoning.effort", f"effort {effort}", "Gemini takes either a budget or a level")
    return {**{key: value for key, value in notes.items() if not key.startswith("$")}, **members}
