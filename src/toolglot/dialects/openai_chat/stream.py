"""`chat.completion.chunk` streams <-> events."""

from toolglot.dialects.openai_chat.stream_decoder import ChatStreamDecoder
from toolglot.dialects.openai_chat.stream_encoder import DONE, ChatStreamEncoder

__all__ = ["DONE", "ChatStreamDecoder", "ChatStreamEncoder"]
