"""`chat.completion.chunk` streams <-> events."""

from toolglot.dialects.openai_chat.stream_decoder import ChatStreamDecoder
from toolglot.dialects.openai_chat.stream_encoder import DONE, ChatStreamEncoder
from toolglot.dialects.openai_chat.stream_frames import arguments_of_frame, text_of_frame

__all__ = ["DONE", "ChatStreamDecoder", "ChatStreamEncoder", "arguments_of_frame", "text_of_frame"]
