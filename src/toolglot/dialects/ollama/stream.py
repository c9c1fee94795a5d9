"""Streams of Ollama <-> events."""

from toolglot.dialects.ollama.stream_decoder import OllamaStreamDecoder
from toolglot.dialects.ollama.stream_encoder import OllamaStreamEncoder

__all__ = ["OllamaStreamDecoder", "OllamaStreamEncoder"]
