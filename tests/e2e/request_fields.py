"""Every field that the official SDKs' request types have, each in a request of its own.

The types are walked as they are installed: TypedDicts of the OpenAI and Anthropic SDKs, pydantic models of Google's. A
`Probe` is a request with one field set, and the same request without it, so that a test can tell what became of it.
"""

from __future__ import annotations

import base64
import enum
import types
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import typing_extensions
from anthropic.types.beta import BetaMessage, message_create_params
from google.genai import types as genai_types
from openai.types.chat import ChatCompletion, ChatCompletionChunk, completion_create_params
from openai.types.responses import Response, response_create_params
from pydantic import BaseModel

from .sdk_types import GEMINI_MEMBERS, MARKERS

Json = Any
Body = dict[str, Any]

NEEDLE = "needle"


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


class Pair(NamedTuple):
    """A value that holds something, and the same value without it: `ABSENT` where nothing is left."""

    value: Json
    without: Json


class Probe(NamedTuple):
    """One field. `pairs` has the field itself first, then the records around it, from the innermost to the outermost.

    `needle` is the text by which the field is recognised on the other side, where it is a text.
    """

    path: str
    pairs: tuple[Pair, ...]
    needle: str | None = None

    @property
    def forms(self) -> tuple[str, ...]:
        """The needle as it may stand on the other side: a text with a form (a URL, JSON) has its word in it."""
        if self.needle is None:
            return ()
        word = self.needle if self.needle.startswith(f"{NEEDLE}_") else NEEDLE
        return word, base64.b64encode(word.encode()).decode().rstrip("=")

    def inside(self, step: str, wrap: Callable[[Json], Json], alone: Json = ABSENT) -> Probe:
        """The same field one level up. `alone` is what is left there when nothing is left of this value."""
        pairs = tuple(Pair(wrap(value), alone if without is ABSENT else wrap(without)) for value, without in self.pairs)
        return Probe(f"{step}{self.path}", pairs, self.needle)


class Field(NamedTuple):
    name: str
    annotation: Any
    required: bool


# Reading annotations


def _bare(annotation: Any) -> tuple[Any, bool]:
    required = False
    while get_origin(annotation) is typing_extensions.Annotated or get_origin(annotation) in MARKERS:
        required = required or get_origin(annotation) is typing_extensions.Required
        annotation = get_args(annotation)[0]
    return annotation, required


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


@cache
def fields_of(record: Any) -> tuple[Field, ...]:
    """The fields of a TypedDict or of a pydantic model, by their names on the wire."""
    if _is_model(record):
        return tuple(
            Field(field.alias or name, field.annotation, field.is_required())
            for name, field in record.model_fields.items()
        )
    hints = get_type_hints(record, include_extras=True)
    return tuple(Field(name, *_bare(hint)) for name, hint in hints.items())


def is_record(annotation: Any) -> bool:
    return _is_model(annotation) or typing_extensions.is_typeddict(annotation)


def arms(annotation: Any) -> tuple[Any, ...]:
    """The types of a union, flat, without None, and without models of parsed responses, which JSON does not have."""
    annotation, _ = _bare(annotation)
    if get_origin(annotation) not in (Union, types.UnionType):
        return () if annotation in (None, types.NoneType) else (annotation,)
    flat = [arm for member in get_args(annotation) for arm in arms(member)]
    plain = [arm for arm in flat if typing_extensions.is_typeddict(arm)]
    return tuple(arm for arm in flat if not (plain and _is_model(arm)))


# Values

TEXTS: dict[str, str] = {
    "arguments": '{"city":"needle"}',
    "image_url": "https://needle.example/image.png",
    "file_url": "https://needle.example/file.pdf",
    "url": "https://needle.example/image.png",
    "uri": "https://needle.example/image.png",
    "fileUri": "https://needle.example/image.png",
    "server_url": "https://needle.example/mcp",
    "file_data": "data:application/pdf;base64,bmVlZGxl",
    "data": "bmVlZGxl",
    "result": "bmVlZGxl",
    "media_type": "image/png",
    "mimeType": "image/png",
    "mime_type": "image/png",
    "call_id": "call_1",
    "tool_call_id": "call_1",
    "tool_use_id": "call_1",
    "role": "user",
    "thoughtSignature": "bmVlZGxl",
    "signature": "bmVlZGxl",
    "encrypted_content": "bmVlZGxl",
}
"""Texts that have a form, by the name of their field."""

NAME = "get_weather"
"""The tool of every request, and so the name of every call."""


def leaves(annotation: Any, name: str) -> Iterator[Json]:
    """Values of a type that is no record and no container."""
    origin = get_origin(annotation)
    if origin in (Literal, typing_extensions.Literal):
        yield from get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        yield from (member.value for member in annotation if "UNSPECIFIED" not in member.value)
    elif annotation is bool:
        yield from (True, False)
    elif annotation is int:
        yield 7654
    elif annotation is float:
        yield 0.25
    elif annotation in (str, bytes):
        yield TEXTS.get(name, f"{NEEDLE}_{name}")
    elif annotation in (Any, object):
        yield {NEEDLE: NEEDLE}
    elif annotation is datetime:
        yield "2026-01-02T03:04:05Z"


def _element(annotation: Any) -> Any:
    """What a sequence holds; None if this is none."""
    origin = get_origin(annotation)
    members = get_args(annotation)
    if origin is None or len(members) != 1 or origin in (Literal, typing_extensions.Literal, type):
        return None
    return members[0]


def _mapped(annotation: Any) -> Any:
    origin, members = get_origin(annotation), get_args(annotation)
    is_mapping = isinstance(origin, type) and issubclass(dict, origin) and len(members) == 2
    return members[1] if is_mapping else None


def sample(annotation: Any, name: str, above: tuple[Any, ...] = ()) -> Json:
    """The least value of a type: of a union its first arm that has one."""
    for arm in arms(annotation):
        if arm in above:
            continue
        if is_record(arm):
            return minimal(arm, (*above, arm))
        if (mapped := _mapped(arm)) is not None:
            return {NEEDLE: sample(mapped, NEEDLE, above)}
        if (element := _element(arm)) is not None:
            inner = sample(element, name, above)
            return [] if inner is ABSENT else [inner]
        for value in leaves(arm, name):
            return value
    return ABSENT


def minimal(record: Any, above: tuple[Any, ...] = ()) -> Body:
    """A record with what it requires."""
    known = MINIMAL.get(record.__name__)
    if known is not None:
        return dict(known)
    found = {field.name: sample(field.annotation, field.name, above) for field in fields_of(record) if field.required}
    return {name: value for name, value in found.items() if value is not ABSENT}


def probes(annotation: Any, name: str, above: tuple[Any, ...] = ()) -> Iterator[Probe]:
    """Every field below a type, each arm of a union by itself. A record inside of itself is not gone into again."""
    for arm in arms(annotation):
        if is_record(arm):
            if arm not in above:
                yield from _probes_of_record(arm, (*above, arm))
        elif (mapped := _mapped(arm)) is not None:
            for probe in probes(mapped, NEEDLE, above):
                yield probe.inside(".*", lambda value: {NEEDLE: value})
        elif (element := _element(arm)) is not None:
            for probe in probes(element, name, above):
                yield probe.inside("[]", lambda value: [value])
        else:
            for value in leaves(arm, name):
                needle = value if isinstance(value, str) and NEEDLE in value else None
                yield Probe("" if needle else f"={value}", (Pair(value, ABSENT),), needle)


def _probes_of_record(record: Any, above: tuple[Any, ...]) -> Iterator[Probe]:
    base, label = minimal(record, above), f"({record.__name__})"
    whole = Pair(base, ABSENT)
    yield Probe(label, (whole,))
    for field in fields_of(record):
        rest = {key: value for key, value in base.items() if key != field.name}

        def wrap(value: Json, base: Body = base, name: str = field.name) -> Json:
            return {**base, name: value}

        for probe in probes(field.annotation, field.name, above):
            found = probe.inside(f"{label}.{field.name}", wrap, ABSENT if field.required else rest)
            if not (field.required and found.pairs[0].value == base and probe.needle is None):
                # (else it is the discriminator of a union, for which the record as a whole stands)
                yield Probe(found.path, (*found.pairs, whole), found.needle)


MINIMAL: dict[str, Body] = {"Schema": {"type": "STRING"}}
"""Records whose least form is not an empty one."""


# Requests around a field

USER: dict[str, Json] = {
    "openai_chat": {"role": "user", "content": "Hello"},
    "openai_responses": {"role": "user", "content": "Hello"},
    "anthropic": {"role": "user", "content": "Hello"},
    "gemini": {"role": "user", "parts": [{"text": "Hello"}]},
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: dict[str, Json] = {
    "openai_chat": {"type": "function", "function": {"name": NAME, "parameters": SCHEMA}},
    "openai_responses": {"type": "function", "name": NAME, "parameters": SCHEMA},
    "anthropic": {"name": NAME, "input_schema": SCHEMA},
    "gemini": {"functionDeclarations": [{"name": NAME, "parameters": {"type": "OBJECT", "properties": {}}}]},
}
CALLS: dict[str, Json] = {
    "openai_chat": {
        "role": "assistant",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": "{}"}}],
    },
    "openai_responses": {"type": "function_call", "call_id": "call_1", "name": NAME, "arguments": "{}"},
    "anthropic": {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": NAME, "input": {}}]},
    "gemini": {"role": "model", "parts": [{"functionCall": {"id": "call_1", "name": NAME, "args": {}}}]},
}
RESULTS: dict[str, Json] = {
    "openai_chat": {"role": "tool", "tool_call_id": "call_1", "content": "17"},
    "openai_responses": {"type": "function_call_output", "call_id": "call_1", "output": "17"},
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "17"}]},
    "gemini": {"role": "user", "parts": [{"functionResponse": {"id": "call_1", "name": NAME, "response": {"a": 1}}}]},
}
CONVERSATIONS = {"openai_chat": "messages", "openai_responses": "input", "anthropic": "messages", "gemini": "contents"}
ROOTS: dict[str, Any] = {
    "openai_chat": completion_create_params.CompletionCreateParamsNonStreaming,
    "openai_responses": response_create_params.ResponseCreateParamsNonStreaming,
    "anthropic": message_create_params.MessageCreateParamsNonStreaming,
}


def base_of(dialect: str) -> Body:
    base: Body = {CONVERSATIONS[dialect]: [USER[dialect]], "tools": [TOOLS[dialect]]}
    if dialect != "gemini":
        base["model"] = "some-model"
    if dialect == "anthropic":
        base["max_tokens"] = 1000
    return base


def around(dialect: str, item: Body) -> list[Body]:
    """A conversation in which this message may stand: a result has its call before it, a call its result behind it."""
    text = str(item)
    conversation = [USER[dialect]]
    if any(mark in text for mark in ("'tool'", "_output'", "'tool_result'", "'functionResponse'")):
        conversation.append(CALLS[dialect])
    conversation.append(item)
    if any(mark in text for mark in ("'tool_calls'", "'function_call'", "'tool_use'", "'functionCall'")):
        conversation.append(RESULTS[dialect])
    return [*conversation, USER[dialect]]


def requests(dialect: str) -> Iterator[Probe]:
    """A request for every field, with it and without it."""
    base, conversation = base_of(dialect), CONVERSATIONS[dialect]
    for field in GEMINI if dialect == "gemini" else fields_of(ROOTS[dialect]):
        if field.name in ("model", "stream"):
            continue
        rest = {key: value for key, value in base.items() if key != field.name}

        def wrap(value: Json, name: str = field.name) -> Json:
            return {**base, name: around(dialect, value[0]) if name == conversation else value}

        for probe in probes(field.annotation, field.name):
            if field.name == conversation:
                if isinstance(probe.pairs[0].value, list):
                    yield probe.inside(field.name, wrap, {**base, conversation: [USER[dialect], USER[dialect]]})
            else:
                yield probe.inside(field.name, wrap, rest)


GEMINI = tuple(Field(name, annotation, False) for name, annotation in GEMINI_MEMBERS.items())


# Names

ANSWERS: dict[str, tuple[Any, ...]] = {
    "openai_chat": (ChatCompletion, ChatCompletionChunk),
    "openai_responses": (Response,),
    "anthropic": (BetaMessage,),
    "gemini": (genai_types.GenerateContentResponse,),
}


def names_of(dialect: str) -> frozenset[str]:
    """Every name of a field, and every literal, in the types of requests and answers."""
    roots = [field.annotation for field in GEMINI] if dialect == "gemini" else [ROOTS[dialect]]
    seen: set[Any] = set()
    names = set[str](GEMINI_MEMBERS if dialect == "gemini" else ())
    waiting: list[Any] = [*roots, *ANSWERS[dialect]]
    while waiting:
        annotation, _ = _bare(waiting.pop())
        if get_origin(annotation) in (Literal, typing_extensions.Literal):
            names.update(map(str, get_args(annotation)))
        elif is_record(annotation):
            if annotation not in seen:
                seen.add(annotation)
                names.update(field.name for field in fields_of(annotation))
                waiting.extend(field.annotation for field in fields_of(annotation))
        else:
            waiting.extend(get_args(annotation))
    return frozenset(names)
