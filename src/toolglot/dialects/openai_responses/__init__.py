"""OpenAI's Responses API: `POST /v1/responses`."""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.dialects.openai_responses.counting import COUNTING, image_tokens
from toolglot.dialects.openai_responses.direct import DIRECT
from toolglot.dialects.openai_responses.errors import STREAMED_ERRORS, decode_error, encode_error
from toolglot.dialects.openai_responses.listing import LISTING
from toolglot.dialects.openai_responses.models import CAPABILITIES, MODELS
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.readable import READABLE
from toolglot.dialects.openai_responses.request import decode_request, encode_request, path
from toolglot.dialects.openai_responses.response import decode_response, encode_response
from toolglot.dialects.openai_responses.served import SERVED
from toolglot.dialects.openai_responses.stream import stream_decoder, stream_encoder
from toolglot.wire import openai_fields

OPENAI_RESPONSES = Dialect(
    name=NAME,
    title="OpenAI Responses",
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=stream_decoder,
    stream_encoder=stream_encoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=path,
    answer_id_prefix="resp_",
    can=CAPABILITIES,
    readable=READABLE,
    models=MODELS,
    request_headers=openai_fields.REQUEST_HEADERS,
    response_headers=openai_fields.RESPONSE_HEADERS,
    state_slot="encrypted_content",
    model_places=(("model",), ("response", "model")),
    history_key="input",
    system_key="instructions",
    listing=LISTING,
    counting=COUNTING,
    image_tokens=image_tokens,
    streamed_errors=STREAMED_ERRORS,
    streams_early_failures=True,
    served=SERVED,
    direct=DIRECT,
)

__all__ = ["OPENAI_RESPONSES"]
