"""OpenAI's Responses API: `POST /v1/responses`."""

from __future__ import annotations

from toolglot.dialect import AnswerShape, Dialect, HeaderRules, RequestShape, StateSlots, StreamShape, UpstreamRules
from toolglot.dialects.openai_responses.counting import COUNTING, image_tokens
from toolglot.dialects.openai_responses.errors import STREAMED_ERRORS, decode_error, encode_error
from toolglot.dialects.openai_responses.history_demand import DEMAND
from toolglot.dialects.openai_responses.listing import LISTING
from toolglot.dialects.openai_responses.models import CAPABILITIES, MODELS
from toolglot.dialects.openai_responses.native import NAME, SIDE_MEMBERS
from toolglot.dialects.openai_responses.readable import READABLE
from toolglot.dialects.openai_responses.request import decode_request, encode_request, path
from toolglot.dialects.openai_responses.response import decode_response, encode_response
from toolglot.dialects.openai_responses.served import SERVED
from toolglot.dialects.openai_responses.stream_decoder import ResponsesStreamDecoder
from toolglot.dialects.openai_responses.stream_encoder import ResponsesStreamEncoder, note_forwarded
from toolglot.dialects.openai_responses.stream_frames import text_of_frame
from toolglot.wire import openai_fields

OPENAI_RESPONSES = Dialect(
    name=NAME,
    title="OpenAI Responses",
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=ResponsesStreamDecoder,
    stream_encoder=ResponsesStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=path,
    can=CAPABILITIES,
    models=MODELS,
    readable=READABLE,
    request=RequestShape(
        history_key="input",
        system_key="instructions",
        tool_defaults={"type": "function"},
        image_tokens=image_tokens,
    ),
    headers=HeaderRules(request_headers=openai_fields.REQUEST_HEADERS, answer_prefixes=openai_fields.RESPONSE_HEADERS),
    answer=AnswerShape(
        id_prefix="resp_",
        model_places=(("model",), ("response", "model")),
        required_counts=frozenset({"input_tokens", "output_tokens"}),
        side_members=SIDE_MEMBERS,
    ),
    stream=StreamShape(
        error_codes=STREAMED_ERRORS,
        early_failures=True,
        text_of_frame=text_of_frame,
        changing_members=("sequence_number", "obfuscation"),
        note_forwarded=note_forwarded,
    ),
    state=StateSlots(slot="encrypted_content"),
    upstream=UpstreamRules(demand=DEMAND),
    listing=LISTING,
    counting=COUNTING,
    served=SERVED,
)

__all__ = ["OPENAI_RESPONSES"]
