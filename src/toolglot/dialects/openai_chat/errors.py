"""Errors of Chat Completions: the envelope that both of OpenAI's APIs share."""

from __future__ import annotations

from collections.abc import Mapping

from toolglot.dialects.openai_chat.native import NAME
from toolglot.errors import ApiError, HttpError
from toolglot.wire import openai_error


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    return openai_error.decode_http(status, headers, body, NAME)


def encode_error(error: ApiError) -> HttpError:
    return openai_error.encode_http(error)
