"""Streams of Messages events <-> events."""

from toolglot.dialects.anthropic.stream_decoder import AnthropicStreamDecoder
from toolglot.dialects.anthropic.stream_encoder import MESSAGE_STOP, AnthropicStreamEncoder
from toolglot.dialects.anthropic.stream_frames import text_of_frame

__all__ = ["MESSAGE_STOP", "AnthropicStreamDecoder", "AnthropicStreamEncoder", "text_of_frame"]
