"""Streams of `streamGenerateContent` <-> events."""

from toolglot.dialects.gemini.stream_decoder import GeminiStreamDecoder
from toolglot.dialects.gemini.stream_encoder import GeminiStreamEncoder

__all__ = ["GeminiStreamDecoder", "GeminiStreamEncoder"]
