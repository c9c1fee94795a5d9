"""Warp's multi-agent API: protobuf requests, streams of base64.

It requires the package `protobuf`, which is an extra. `protobuf` is loaded on first use of the dialect, never by
importing toolglot.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from toolglot.dialect import (
    AnswerShape,
    Dialect,
    HeaderRules,
    RequestShape,
    StreamDecoder,
    StreamEncoder,
    UpstreamRules,
)
from toolglot.dialects.warp.client_tools import ClientToolPass
from toolglot.dialects.warp.errors import decode_error, encode_error
from toolglot.dialects.warp.listing import LISTING
from toolglot.dialects.warp.models import CAPABILITIES
from toolglot.dialects.warp.native import NAME
from toolglot.errors import MissingExtraError
from toolglot.ir import COUNTS, Request, Response, replace
from toolglot.receipt import Receipt

PATH = "/ai/multi-agent"


def _load(module: str) -> Any:
    """Import a module of this dialect that needs protobuf.

    Raises:
        MissingExtraError: protobuf is not installed.
    """
    try:
        return import_module(f"toolglot.dialects.warp.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "google":
            raise
        raise MissingExtraError("the dialect warp", "protobuf", "warp") from None


def _ready() -> None:
    _load("descriptors")


def _path(request: Request) -> str:
    return PATH


def _decode_request(data: bytes) -> Request:
    request: Request = _load("request").decode_request(data)
    return request


def _encode_request(request: Request, receipt: Receipt) -> bytes:
    data: bytes = _load("request").encode_request(request, receipt)
    return data


def _decode_response(data: bytes) -> Response:
    response: Response = _load("response").decode_response(data)
    return response


def _encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    data: bytes = _load("response").encode_response(response, request, receipt)
    return data


def _stream_decoder(receipt: Receipt) -> StreamDecoder:
    decoder: StreamDecoder = _load("stream_decoder").WarpStreamDecoder(receipt)
    return decoder


def _stream_encoder(request: Request | None, receipt: Receipt) -> StreamEncoder:
    encoder: StreamEncoder = _load("stream_encoder").WarpStreamEncoder(request, receipt)
    return encoder


def _with_request_tasks(dialect: Dialect, request: Request) -> Dialect:
    """Make decoders that know the tasks of the request: the server's changes to them are not part of its answer."""
    request_tasks = _load("request_tasks").RequestTasks(request)

    def decode_response(data: bytes) -> Response:
        response: Response = _load("response").decode_response(data, request_tasks)
        return response

    def stream_decoder(receipt: Receipt) -> StreamDecoder:
        decoder: StreamDecoder = _load("stream_decoder").WarpStreamDecoder(receipt, request_tasks=request_tasks)
        return decoder

    return replace(dialect, decode_response=decode_response, stream_decoder=stream_decoder)


WARP = Dialect(
    name=NAME,
    title="Warp",
    decode_request=_decode_request,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_response=_encode_response,
    stream_decoder=_stream_decoder,
    stream_encoder=_stream_encoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=_path,
    can=CAPABILITIES,
    request=RequestShape(needs_model=False),
    headers=HeaderRules(
        sent={"content-type": "application/x-protobuf", "accept": "text/event-stream"}, answer_prefixes=("x-warp-",)
    ),
    answer=AnswerShape(model_places=(), counts=frozenset(COUNTS) - {"cache_write_long_tokens", "reasoning_tokens"}),
    upstream=UpstreamRules(
        forwards=False,
        answer_pass=ClientToolPass,
        answering=_with_request_tasks,
        default_history={"max_messages": 50, "max_tool_results": 10},
    ),
    listing=LISTING,
    ready=_ready,
)
