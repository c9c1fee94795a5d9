"""Whole responses: folded streams. Warp always streams; other clients may want a whole response."""

from __future__ import annotations

from toolglot.dialects.warp.errors import read_error
from toolglot.dialects.warp.request_tasks import RequestTasks
from toolglot.dialects.warp.stream_decoder import WarpStreamDecoder
from toolglot.dialects.warp.stream_encoder import WarpStreamEncoder
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Fold, Start, unfold
from toolglot.ir import Request, Response, replace
from toolglot.receipt import Receipt
from toolglot.wire import json


def decode_response(data: bytes, request_tasks: RequestTasks | None = None) -> Response:
    """Fold a whole stream to a response, with all updates and rollbacks applied.

    Raises:
        DecodeError: the data is not a stream of this API.
        UpstreamError: the stream ends in an error, or is cut.
    """
    if data.lstrip().startswith(b"{"):
        raise UpstreamError(read_error(json.decode_frame(data), 0, {}))
    if b"data:" not in data:
        raise DecodeError("$", "a stream of events is expected, and there is none")
    decoder = WarpStreamDecoder(Receipt(), whole=True, request_tasks=request_tasks)
    folded = Fold()
    for event in (*decoder.feed(data), *decoder.close()):
        folded.add(event)
    if folded.fault is not None:
        if decoder.unreadable is not None:
            raise decoder.unreadable
        raise UpstreamError(folded.fault)
    return folded.response()


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    encoder = WarpStreamEncoder(request, receipt)
    events = (
        replace(event, native=response.native) if isinstance(event, Start) else event for event in unfold(response)
    )
    return b"".join(map(encoder.feed, events))
