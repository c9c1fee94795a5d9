"""The arguments and results of the tools, as records: the schemas for models are generated from these.

The descriptions are written for models: short, and exact about allowed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from toolglot.dialects import DIALECTS
from toolglot.errors import ToolglotError
from toolglot.tools.mcp import NAME as MCP

MAX_DOCUMENT = 8 * 1024 * 1024
"""Maximum bytes of a document, in either direction."""
MAX_NAME = 512
"""Maximum characters of a name: of a dialect, a model, a format."""

Kind = Literal["request", "response", "stream", "tools", "messages"]

_ONE = {"enum": list(DIALECTS)}
_SIDE = {"enum": [*DIALECTS, MCP]}

Name = Annotated[str, Meta(max_length=MAX_NAME)]
Document = dict[str, Any] | list[Any] | str
"""A JSON document, as JSON or as text."""


class CallError(ToolglotError):
    """The call is invalid. The message says what is wrong and where, for the caller to fix."""


class NoArguments(Struct, forbid_unknown_fields=True):
    """A tool without arguments."""


class Translate(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[
        Name, Meta(description="The dialect of the document; `mcp` only for kind `tools`.", extra_json_schema=_SIDE)
    ] = field(name="from")
    target: Annotated[
        Name, Meta(description="The dialect to translate it to; `mcp` only for kind `tools`.", extra_json_schema=_SIDE)
    ] = field(name="to")
    kind: Annotated[
        Kind,
        Meta(
            description="Kind of the document. `request`: the body of a request to a model's API. `response`: the "
            "body of its answer. `stream`: the text of a streamed answer (server-sent events). `tools`: an array of "
            "tool definitions. `messages`: an array of messages (`input` items, `contents`)."
        ),
    ]
    document: Annotated[
        Document,
        Meta(description="The JSON document, as JSON or as a string with JSON in it; for a stream, its text."),
    ]
    model: Annotated[
        Name,
        Meta(
            description="The model's name in the result (request, tools, messages). Required if the document does "
            "not name one: gemini has it in the URL."
        ),
    ] = ""
    strict: Annotated[bool, Meta(description="Fail instead of losing anything in the translation.")] = False
    text_format: Annotated[
        Name,
        Meta(
            description="For a model without native tool calls (request, tools, messages): write tools, calls and "
            "results as text in this format. list_dialects names the formats."
        ),
    ] = ""


class LintStream(Struct, forbid_unknown_fields=True, kw_only=True):
    dialect: Annotated[Name, Meta(description="The dialect whose rules the stream must keep.", extra_json_schema=_ONE)]
    recording: Annotated[str, Meta(description="The whole stream as received: server-sent events.")]


class CountTokens(Struct, forbid_unknown_fields=True, kw_only=True):
    dialect: Annotated[Name, Meta(description="The dialect of the request.", extra_json_schema=_ONE)]
    document: Annotated[Document, Meta(description="The body of the request, as JSON or as a string with JSON in it.")]
    model: Annotated[
        Name, Meta(description="The model that would read it, if the request does not name it: images differ.")
    ] = ""


class ConversationMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    role: Literal["user", "assistant"]
    content: Annotated[str, Meta(description="Text.")]


class AskModel(Struct, forbid_unknown_fields=True, kw_only=True):
    model: Annotated[Name, Meta(min_length=1, description="The model to ask, by a name that the gateway knows.")]
    prompt: Annotated[str, Meta(description="What to ask, after `messages` if there are any.")] = ""
    system: Annotated[str, Meta(description="System text for the model.")] = ""
    max_output_tokens: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="The longest answer, in tokens.")] | UnsetType
    ) = UNSET
    messages: Annotated[
        list[ConversationMessage],
        Meta(max_length=1000, description="A conversation so far, before the prompt; the user begins it."),
    ] = []


class TranslateReceiptLine(Struct):
    severity: Annotated[
        Literal["note", "loss"], Meta(description="note: the form changed, not the meaning; loss: something is missing")
    ]
    where: str
    what: str
    why: str


class TranslateResult(Struct, omit_defaults=True):
    document: Annotated[Any, Meta(description="The translated JSON document; a stream, or prose, is a string.")]
    receipt: Annotated[
        list[TranslateReceiptLine], Meta(description="Losses and changes; empty if the translation is exact.")
    ]
    path: Annotated[str, Meta(description="Of a request: where it is posted, below the API's base URL.")] = ""
    cut_off: Annotated[str, Meta(description="What is missing of this result because it was too long.")] = ""


class BrokenRule(Struct):
    event: Annotated[int, Meta(description="The number of the event in the stream, from 1.")]
    rule: str
    message: str
    excerpt: Annotated[str, Meta(description="The beginning of that event.")]


class LintResult(Struct, omit_defaults=True):
    sound: Annotated[bool, Meta(description="No rule is broken.")]
    events: Annotated[int, Meta(description="Events in the stream.")]
    breaches: list[BrokenRule]
    cut_off: Annotated[str, Meta(description="What is missing of this result because it was too long.")] = ""


class TokenCount(Struct):
    tokens: Annotated[int, Meta(description="Input tokens of the request, estimated offline.")]
    images_as: Annotated[str, Meta(description="The dialect whose price for images was used.")]


class NamedItem(Struct):
    name: str
    title: str


class DialectList(Struct):
    dialects: Annotated[list[NamedItem], Meta(description="Names for `from`, `to` and `dialect`.")]
    tools_only: Annotated[
        list[NamedItem], Meta(description="Further names for `from` and `to`, only with kind `tools`.")
    ]
    text_formats: Annotated[list[NamedItem], Meta(description="Names for `text_format`.")]


class TokenUsage(Struct):
    """Only the counts that the upstream reported."""

    input_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    cached_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET


class ModelAnswer(Struct, omit_defaults=True):
    text: str
    stop_reason: Annotated[str, Meta(description="Why the model stopped: end, length, stop_sequence, refusal …")]
    model: Annotated[str, Meta(description="The model that answered, as its API names it.")]
    usage: TokenUsage | UnsetType = UNSET
    cut_off: Annotated[str, Meta(description="What is missing of this result because it was too long.")] = ""


T = TypeVar("T", bound=Struct)


def read_arguments(arguments: Mapping[str, Any] | None, form: type[T]) -> T:
    """Convert the arguments of a call to their record. Raises `CallError`."""
    # Many models write null for values that they do not want to set.
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        names = ", ".join(each.encode_name for each in msgspec.structs.fields(form)) or "none"
        raise CallError(f"wrong arguments: {error} (arguments of this tool: {names})") from None


def record_schema(form: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a record without references: not every MCP client resolves them."""
    (schema,), parts = msgspec.json.schema_components((form,), ref_template="{name}")
    inlined = _inline_references(schema, parts)
    assert isinstance(inlined, dict)
    return inlined


def _inline_references(value: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inline_references(each, parts) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        around = {name: each for name, each in value.items() if name != "$ref"}
        return {**_inline_references(parts[value["$ref"]], parts), **around}
    # The name and docstring of a record mean nothing to a model.
    unsaid = ("title", "description") if "properties" in value else ()
    said = {name: _inline_references(each, parts) for name, each in value.items() if name not in unsaid}
    return {"type": "string", **said} if "enum" in said else said
