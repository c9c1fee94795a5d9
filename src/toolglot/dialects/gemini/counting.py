"""`POST /v1beta/models/{model}:countTokens`: only `contents`, or a whole request within `generateContentRequest`.

Google Cloud's form, with instructions and tools next to the contents, is read too.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialect import Counting
from toolglot.dialects.gemini import request as content
from toolglot.dialects.gemini.native import NAME
from toolglot.errors import DecodeError
from toolglot.ir import Request, native_of, replace
from toolglot.receipt import Receipt
from toolglot.tokens.media import tokens_by_crops as image_tokens
from toolglot.wire import json
from toolglot.wire.counting import read_count, read_members

__all__ = ["COUNTING", "image_tokens"]

_WRAPPERS = ("generateContentRequest", "generate_content_request")


def path(request: Request) -> str:
    return content.path(replace(request, stream=False)).replace(":generateContent", ":countTokens")


def decode_request(data: bytes) -> Request:
    """Decode the request to count, with the model that its body names. The caller sets the model of the path."""
    body = json.decode(data)
    wrappers = [key for key in _WRAPPERS if isinstance(body, dict) and body.get(key) is not None]
    if not wrappers:
        return _without_model(content.decode_request(data))
    key = wrappers[0]
    if len(wrappers) > 1 or "contents" in body:
        raise DecodeError(f"$.{key}", "the request to count must be either here or in contents")
    try:
        return _without_model(content.decode_request(bytes(read_members(data)[key])))
    except DecodeError as error:
        raise DecodeError(f"$.{key}{error.where[1:]}", error.what) from None


def _without_model(request: Request) -> Request:
    """Move the model from the native members to `model`: in this body it means the same as in the path."""
    fields = dict(native_of(request, NAME))
    model = fields.pop("model", None)
    if not isinstance(model, str):
        return request
    native = {owner: kept for owner, kept in {**request.native, NAME: fields}.items() if kept}
    return replace(request, model=model.removeprefix("models/"), native=native)


def encode_request(request: Request, receipt: Receipt) -> bytes:
    """Encode the request to count. A request with more than contents must be wrapped, and then names its model."""
    encoded = content.encode_request(request, receipt)
    fields: dict[str, Any] = {**read_members(encoded)}
    if fields.keys() <= {"contents"}:
        return encoded
    model = request.model if "/" in request.model else f"models/{request.model}"
    return json.encode({_WRAPPERS[0]: {"model": model, **fields}})


def encode_count(tokens: int) -> bytes:
    return json.encode({"totalTokens": tokens})


def decode_count(data: bytes) -> int:
    # This API's JSON omits zeros.
    return read_count(data, "totalTokens", absent=0)


COUNTING = Counting(
    path=path,
    decode_request=decode_request,
    encode_request=encode_request,
    encode_count=encode_count,
    decode_count=decode_count,
)
