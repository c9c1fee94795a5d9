"""Fields that OpenAI's two APIs share."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from toolglot.errors import DecodeError
from toolglot.ir import Cache, Json, PromptCache
from toolglot.receipt import UNREAD, Note, Receipt
from toolglot.wire import json
from toolglot.wire.media_types import file_suffix

MAX_IDENTIFIER = 64
"""Maximum characters of `safety_identifier`, and of the older `user`."""

REQUEST_HEADERS = frozenset(
    {"openai-organization", "openai-project", "openai-beta", "idempotency-key", "x-client-request-id"}
)
RESPONSE_HEADERS = ("openai-", "x-ratelimit-", "x-request-id")


def encode_identifier(user: str, receipt: Receipt) -> str:
    """Return the identifier of a user, hashed if it is too long (Claude Code's is a JSON object)."""
    if len(user) <= MAX_IDENTIFIER:
        return user
    receipt.note("user", "hashed", f"an identifier has at most {MAX_IDENTIFIER} characters")
    return sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


TIERS = frozenset({"auto", "default", "fast", "flex", "priority", "scale"})
"""The service tiers of OpenAI's APIs. The IR uses the same names."""


def encode_service_tier(tier: str | None, receipt: Receipt) -> str | None:
    """Return the tier of another dialect's request if OpenAI's APIs know it. They refuse any other."""
    if tier is None or tier in TIERS:
        return tier
    receipt.loss("service_tier", tier, "OpenAI's APIs have no such tier")
    return None


BREAKPOINT_MODELS = r"(^|/)gpt-(5\.([6-9]|\d\d)|[6-9]|1\d)(?!\d)"
"""Models that support `prompt_cache_breakpoint` and `prompt_cache_options`: GPT-5.6 and later."""

SAMPLING_MODELS: tuple[tuple[str, Mapping[str, object], str], ...] = (
    (
        r"(^|/)gpt-5\.[1-4](?!\d|\S*-(chat|codex|pro))",
        {"fields_without_reasoning": frozenset({"temperature", "top_p", "logprobs", "top_logprobs"})},
        "from GPT-5.1 on these are accepted while the effort is none (vercel/ai #10932)",
    ),
    (
        r"(^|/)gpt-5\.[12](?!\d|\S*-(chat|codex|pro))",
        {"reasons_by_default": False},
        "the effort of GPT-5.1 and 5.2 is none unless a request says otherwise (litellm #17011, langchain #35424)",
    ),
)
"""OpenAI's reasoning models that accept sampling parameters, and the conditions."""

PROMPT_CACHE = {"key": "prompt_cache_key", "retention": "prompt_cache_retention", "options": "prompt_cache_options"}
"""The fields of `PromptCache` and their members in a request."""


_PROMPT_CACHE_TYPES = {"key": str, "retention": str, "options": dict}


def take_prompt_cache(members: dict[str, Any]) -> PromptCache | None:
    """Move the cache settings out of the members. A value that could not be written back exactly stays."""
    kinds = _PROMPT_CACHE_TYPES
    found = {name: members.pop(key) for name, key in PROMPT_CACHE.items() if isinstance(members.get(key), kinds[name])}
    return PromptCache(**found) if found else None


def write_prompt_cache(wanted: PromptCache | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    return {key: value for name, key in PROMPT_CACHE.items() if (value := getattr(wanted, name)) is not None}


CACHE_LIFETIMES = {"30m": 1800, "12h": 43200}
"""Seconds for each value of `prompt_cache_breakpoint.ttl`."""


def encode_cache_breakpoint(cache: Cache) -> dict[str, Any]:
    """Return the member `prompt_cache_breakpoint` with the nearest lifetime."""
    hint = {"mode": "explicit"}
    if cache.seconds is not None:
        hint["ttl"] = "30m" if cache.seconds <= CACHE_LIFETIMES["30m"] else "12h"
    return {"prompt_cache_breakpoint": hint}


AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
"""Media types for the values of `input_audio.format`."""
_AUDIO_FORMATS = {media_type: name for name, media_type in AUDIO_TYPES.items()} | {"audio/mp3": "mp3"}


def audio_format(media_type: str | None) -> str:
    """Return the value of `input_audio.format` for a media type; WAV without one."""
    known = media_type or "audio/wav"
    return _AUDIO_FORMATS.get(known, known.partition("/")[2])


def parse_schema_text(text: str) -> dict[str, Any] | None:
    """Parse a tool schema that arrived as JSON text; None if it is not an object."""
    try:
        schema = json.decode(text.encode("utf-8", "surrogatepass"))
    except DecodeError:
        return None
    return schema if isinstance(schema, dict) else None


def original_schema_text(schema: Json, notes: Mapping[str, Any]) -> str | None:
    """Return the original text of a schema; None if it was not text, or if the schema has changed."""
    text = notes.get("$schema_text")
    return text if isinstance(text, str) and parse_schema_text(text) == schema else None


SCHEMA_NOTES: dict[str, Any] = {
    UNREAD.removeprefix("$"): (Note("parameters", "a schema as text", "it is read as the JSON that it holds"),)
}
"""The note on a tool whose schema arrived as text."""


def default_file_name(media_type: str | None) -> str:
    """Return a name for file data without one. The API refuses a file without a name."""
    return f"document.{file_suffix(media_type or 'application/pdf')}"


# Keywords that Structured Outputs documents as supported. Strict mode refuses any other.
_STRICT_KEYWORDS = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum", "title", "type"}
    | {"items", "maxItems", "minItems", "properties", "required"}
    | {"exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "minimum", "multipleOf", "pattern"}
)
_STRICT_FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})
_MAPS = ("properties", "$defs", "definitions")


def fits_strict_mode(schema: Any) -> bool:
    """Return whether strict mode accepts this schema. Its root must be an object. The walk does not recurse."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        return False
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or not _is_strict_node(node):
            return False
        for key in _MAPS:
            waiting.extend(node.get(key, {}).values())
        waiting.extend(node.get("anyOf", ()))
        if "items" in node:
            waiting.append(node["items"])
    return True


def _is_strict_node(node: dict[str, Any]) -> bool:
    if not node.keys() <= _STRICT_KEYWORDS or ("format" in node and str(node["format"]) not in _STRICT_FORMATS):
        return False
    if not all(isinstance(node.get(key, {}), dict) for key in _MAPS) or not isinstance(node.get("anyOf", []), list):
        return False
    kind = node.get("type")
    if "properties" not in node and kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return True
    required = node.get("required", [])
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return node.get("additionalProperties") is False and names == set(node.get("properties", {}))


def encode_strict(schema: Any, receipt: Receipt) -> bool | None:
    """`strict` for a schema that its sender expects to be enforced, though the sender's wire format has no such
    member."""
    if fits_strict_mode(schema):
        return True
    why = "strict mode does not accept this schema; the model is asked for it and nothing enforces it"
    receipt.loss("response_format.schema", "an enforced schema", why)
    return None
