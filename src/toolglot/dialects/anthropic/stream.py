"""Streams of Messages events <-> events."""

from toolglot.dialects.anthropic.stream_decoder import AnthropicStreamDecoder
from toolglot.dialects.anthropic.stream_encoder import AnthropicStreamEncoder

__all__ = ["AnthropicStreamDecoder", "AnthropicStreamEncoder"]
