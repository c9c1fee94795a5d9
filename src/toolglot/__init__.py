"""toolglot: a universal translator for LLM tool calls.

    >>> from toolglot import translate_request
    >>> chat = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 10}
    >>> translate_request(chat, "openai_chat", "anthropic").json()["messages"]
    [{'role': 'user', 'content': 'Hello'}]

`Exchange` carries a request and its answer between a client's dialect and an upstream's. `DIALECTS` holds the dialects;
each can be used alone to read or write (`DIALECTS["gemini"].decode_request(data)`). The values are in `toolglot.ir`,
the stream's events in `toolglot.events`.
"""

from toolglot.api import (
    Translated,
    TranslatedAsyncStream,
    TranslatedStream,
    read_response,
    read_stream,
    translate_error,
    translate_request,
    translate_response,
    translate_stream,
    translate_stream_async,
)
from toolglot.dialect import Capabilities, Dialect
from toolglot.dialects import DIALECTS
from toolglot.errors import (
    ApiError,
    DecodeError,
    HttpError,
    LossError,
    StreamError,
    ToolglotError,
    UnknownDialectError,
    UpstreamDecodeError,
    UpstreamError,
)
from toolglot.events import fold, unfold
from toolglot.fragments import translate_messages, translate_result, translate_tools
from toolglot.receipt import Loss, Receipt
from toolglot.streaming import StreamTranslation
from toolglot.translate import Exchange

__version__ = "0.1.0"

__all__ = [
    "DIALECTS",
    "ApiError",
    "Capabilities",
    "DecodeError",
    "Dialect",
    "Exchange",
    "HttpError",
    "Loss",
    "LossError",
    "Receipt",
    "StreamError",
    "StreamTranslation",
    "ToolglotError",
    "Translated",
    "TranslatedAsyncStream",
    "TranslatedStream",
    "UnknownDialectError",
    "UpstreamDecodeError",
    "UpstreamError",
    "fold",
    "read_response",
    "read_stream",
    "translate_error",
    "translate_messages",
    "translate_request",
    "translate_response",
    "translate_result",
    "translate_stream",
    "translate_stream_async",
    "translate_tools",
    "unfold",
]
