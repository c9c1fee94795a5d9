"""`chat.completion.chunk` streams <-> events."""

from toolglot.dialects.openai_chat.stream_decoder import ChatStreamDecoder
from toolglot.dialects.openai_chat.stream_encoder import DONE, ChatStreamEncoder
from toolglot.dialects.openai_chat.stream_frames import text_of_frame

__all__ = ["DONE", "ChatStreamDecoder", "ChatStreamEncoder", "text_of_frame"]
