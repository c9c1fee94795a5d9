"""Does a request body fit the official SDK's own types? Unknown keys, missing keys and wrong types are all complaints.

The OpenAI and Anthropic SDKs describe requests as TypedDicts, which nothing checks at run time, so the small checker
here walks their annotations. Google's are pydantic models that refuse unknown fields by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import typing_extensions
from anthropic.types import message_create_params
from google.genai import types as genai_types
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import BaseModel, TypeAdapter, ValidationError

MARKERS = (typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.ReadOnly)


@cache
def _hints(typed_dict: type) -> dict[str, Any]:
    return get_type_hints(typed_dict, include_extras=True)


def _bare(annotation: Any) -> tuple[Any, bool]:
    """An annotation without its markers, and whether one of them was `Required`."""
    required = False
    while get_origin(annotation) is typing_extensions.Annotated or get_origin(annotation) in MARKERS:
        required = required or get_origin(annotation) is typing_extensions.Required
        annotation = get_args(annotation)[0]
    return annotation, required


def complaints(value: Any, annotation: Any, path: str = "$") -> Iterator[str]:
    """What is wrong with a JSON value, seen through a type annotation."""
    annotation, _ = _bare(annotation)
    origin = get_origin(annotation)
    if annotation in (Any, object):
        return
    if origin in (Union, UnionType):
        yield from _union(value, get_args(annotation), path)
    elif origin in (Literal, typing_extensions.Literal):
        if value not in get_args(annotation):
            yield f"{path}: {value!r} is not one of {get_args(annotation)}"
    elif is_typeddict(annotation) or typing_extensions.is_typeddict(annotation):
        yield from _typed_dict(value, annotation, path)
    elif origin is dict or (isinstance(origin, type) and issubclass(dict, origin) and len(get_args(annotation)) == 2):
        yield from _mapping(value, get_args(annotation)[1], path)
    elif origin is not None:  # what is left are kinds of sequences
        yield from _sequence(value, get_args(annotation)[0], path)
    elif not _is_a(value, annotation):
        yield f"{path}: {value!r} is not {getattr(annotation, '__name__', annotation)}"


def _is_a(value: Any, annotation: Any) -> bool:
    if annotation in (None, NoneType):
        return value is None
    if isinstance(value, bool):
        return annotation is bool
    return isinstance(value, (int, float) if annotation is float else annotation)


def _union(value: Any, members: tuple[Any, ...], path: str) -> Iterator[str]:
    """Nothing, if one member fits; else what is wrong with the member that comes nearest."""
    # Parsed responses may stand in requests as models; here everything is JSON, which the TypedDicts describe.
    plain = [member for member in members if not (isinstance(member, type) and issubclass(member, BaseModel))]
    attempts = [list(complaints(value, member, path)) for member in plain]
    if all(attempts):
        nothing = [f"{path}.type: only a parsed response fits here"]
        yield from min(attempts, key=lambda attempt: _distance(attempt, path), default=nothing)


def _distance(attempt: list[str], path: str) -> tuple[bool, bool, int]:
    """How far off a member is. Another kind of value, or another `type` or `role`: another member was meant."""
    another_kind = any(line.startswith(f"{path}:") for line in attempt)
    another_member = any(line.startswith((f"{path}.type:", f"{path}.role:")) for line in attempt)
    return another_kind, another_member, len(attempt)


def _typed_dict(value: Any, typed_dict: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is not an object"
        return
    hints = _hints(typed_dict)
    for key, annotation in hints.items():
        if key in value:
            yield from complaints(value[key], annotation, f"{path}.{key}")
        elif _bare(annotation)[1]:
            yield f"{path}.{key}: missing in {typed_dict.__name__}"
    for key in value.keys() - hints.keys():
        yield f"{path}.{key}: unknown to {typed_dict.__name__}"


def _mapping(value: Any, member: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is not an object"
        return
    for key, item in value.items():
        yield from complaints(item, member, f"{path}.{key}")


def _sequence(value: Any, member: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: {value!r} is not a list"
        return
    for index, item in enumerate(value):
        yield from complaints(item, member, f"{path}[{index}]")


# ── Gemini: the members of the body, which the SDK has as arguments of a call ────────────────────────────────────────

GEMINI_MEMBERS: dict[str, Any] = {
    "contents": list[genai_types.Content],
    "systemInstruction": genai_types.Content,
    "tools": list[genai_types.Tool],
    "toolConfig": genai_types.ToolConfig,
    "generationConfig": genai_types.GenerationConfig,
    "safetySettings": list[genai_types.SafetySetting],
    "cachedContent": str,
    "labels": dict[str, str],
    "serviceTier": genai_types.ServiceTier,
    "store": bool,
}


def _snake_case(value: Any, annotation: Any, path: str) -> Iterator[str]:
    """The models also take snake_case, which the API's documents do not use and toolglot does not write."""
    origin, members = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        for member in members:
            yield from _snake_case(value, member, path)
    elif origin is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _snake_case(item, members[0], f"{path}[{index}]")
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _snake_case(item, members[1], f"{path}.{key}")
    elif isinstance(value, dict) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        model: Any = annotation
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        for key, item in value.items():
            if key in fields:
                yield from _snake_case(item, fields[key].annotation, f"{path}.{key}")
            else:
                yield f"{path}.{key}: not written like this in {annotation.__name__}"


def _gemini(body: dict[str, Any]) -> Iterator[str]:
    if "contents" not in body:
        yield "$.contents: missing"
    for key, value in body.items():
        if key not in GEMINI_MEMBERS:
            yield f"$.{key}: unknown to generateContent"
            continue
        try:
            TypeAdapter(GEMINI_MEMBERS[key]).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            for line in error.errors():
                yield f"$.{key}.{'.'.join(map(str, line['loc']))}: {line['msg']}"
        yield from _snake_case(value, GEMINI_MEMBERS[key], f"$.{key}")


def _typed(streaming: type, whole: type) -> Callable[[dict[str, Any]], Iterator[str]]:
    return lambda body: complaints(body, streaming if body.get("stream") else whole)


CHECKS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "openai_chat": _typed(
        completion_create_params.CompletionCreateParamsStreaming,
        completion_create_params.CompletionCreateParamsNonStreaming,
    ),
    "openai_responses": _typed(
        response_create_params.ResponseCreateParamsStreaming, response_create_params.ResponseCreateParamsNonStreaming
    ),
    "anthropic": _typed(
        message_create_params.MessageCreateParamsStreaming, message_create_params.MessageCreateParamsNonStreaming
    ),
    "gemini": _gemini,
}


def check(dialect: str, body: bytes | dict[str, Any]) -> list[str]:
    """Everything that the SDK's types have against this request."""
    return list(CHECKS[dialect](body if isinstance(body, dict) else json.loads(body)))
