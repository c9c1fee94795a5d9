"""toolglot: a universal translator for LLM tool calls.

    >>> from toolglot import translate_request
    >>> chat = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 10}
    >>> translate_request(chat, "openai_chat", "anthropic").json()["messages"]
    [{'role': 'user', 'content': 'Hello'}]

`Exchange` carries a request and its answer between a client's dialect and an upstream's. `DIALECTS` holds the dialects;
each can be used alone to read or write (`DIALECTS["gemini"].decode_request(data)`). The values are in `toolglot.ir`,
the stream's events in `toolglot.events`.
"""

from typing import TYPE_CHECKING, Any

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
from toolglot.capabilities import Capabilities
from toolglot.dialect import Dialect
from toolglot.dialects import DIALECTS, AnyDialect, DialectName
from toolglot.errors import (
    ApiError,
    DecodeError,
    HttpError,
    LossError,
    MissingExtraError,
    MisuseError,
    StreamError,
    ToolglotError,
    UnknownDialectError,
    UpstreamDecodeError,
    UpstreamError,
)
from toolglot.events import fold, unfold
from toolglot.exchange import Exchange
from toolglot.fragments import translate_messages, translate_result, translate_tools
from toolglot.receipt import Loss, Note, Receipt, ReceiptLine
from toolglot.streaming import StreamTranslation

if TYPE_CHECKING:
    from toolglot.in_process import HttpxTransport as httpx_transport  # noqa: N813

__version__ = "0.1.0"

__all__ = [
    "DIALECTS",
    "AnyDialect",
    "ApiError",
    "Capabilities",
    "DecodeError",
    "Dialect",
    "DialectName",
    "Exchange",
    "HttpError",
    "Loss",
    "LossError",
    "MissingExtraError",
    "MisuseError",
    "Note",
    "Receipt",
    "ReceiptLine",
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
    "httpx_transport",
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


def __getattr__(name: str) -> Any:
    """Import `httpx_transport` on first use: the core imports neither the gateway's routes nor the vendors."""
    if name != "httpx_transport":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from toolglot.in_process import HttpxTransport

    return HttpxTransport
