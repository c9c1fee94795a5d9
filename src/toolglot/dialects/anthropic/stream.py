"""Streams of Messages events <-> events."""

from toolglot.dialects.anthropic.stream_decoder import AnthropicStreamDecoder
from toolglot.dialects.anthropic.stream_encoder import MESSAGE_STOP, AnthropicStreamEncoder

__all__ = ["MESSAGE_STOP", "AnthropicStreamDecoder", "AnthropicStreamEncoder"]
