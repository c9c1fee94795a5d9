"""Errors of Chat Completions: the envelope that both of OpenAI's APIs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolglot.dialects.openai_chat.native import NAME
from toolglot.errors import ApiError, DecodeError, HttpError
from toolglot.wire import json, openai_error


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    return openai_error.decode_http(status, headers, body, NAME)


def encode_error(error: ApiError) -> HttpError:
    return openai_error.encode_http(error)


def error_event(payload: bytes) -> ApiError:
    """Return the error in the data of an `event: error`, in any form."""
    try:
        value = json.decode_frame(payload)
    except DecodeError:
        value = payload.decode("utf-8", "replace")
    return openai_error.read_error(value, NAME)


def choice_error(value: Any) -> ApiError:
    """Read OpenRouter's error inside a choice: `{"code": 502, "message", "metadata"}`."""
    return replace(openai_error.read_error({"error": value}, NAME), in_foreign_form=True)
