"""Stream lines that only add text to an open block."""

from __future__ import annotations

from msgspec import UNSET

from toolglot.dialects.ollama.wire import ANSWERS, OllamaMessage
from toolglot.errors import DecodeError


def text_of_frame(payload: bytes) -> str | None:
    """Return the text or reasoning of a line with no other content. None for any other line."""
    try:
        answer = ANSWERS.read_frame(payload)
    except DecodeError:
        return None
    message = answer.message
    if message is UNSET:
        message = OllamaMessage(content=answer.response, thinking=answer.thinking, tool_calls=answer.tool_calls)
    if answer.done or answer.logprobs or answer.rest or message.tool_calls or message.images or message.rest:
        return None
    return None if message.content and message.thinking else message.content or message.thinking or None
