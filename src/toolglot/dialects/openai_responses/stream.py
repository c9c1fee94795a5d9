"""The stream decoder and encoder of `POST /v1/responses`, under the names that every dialect has."""

from __future__ import annotations

from toolglot.dialect import StreamDecoder, StreamEncoder
from toolglot.dialects.openai_responses.stream_decoder import ResponsesStreamDecoder
from toolglot.dialects.openai_responses.stream_encoder import ResponsesStreamEncoder
from toolglot.ir import Request
from toolglot.receipt import Receipt


def stream_decoder(receipt: Receipt) -> StreamDecoder:
    return ResponsesStreamDecoder(receipt)


def stream_encoder(request: Request | None, receipt: Receipt) -> StreamEncoder:
    return ResponsesStreamEncoder(request, receipt)
