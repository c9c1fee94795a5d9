"""Google Gemini: `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from toolglot.dialect import AnswerShape, Dialect, HeaderRules, RequestShape, StateSlots, StreamShape, UpstreamRules
from toolglot.dialects.gemini.counting import COUNTING, image_tokens
from toolglot.dialects.gemini.errors import OVERFLOW_WORDS, decode_error, encode_error
from toolglot.dialects.gemini.history_demand import DEMAND
from toolglot.dialects.gemini.listing import LISTING
from toolglot.dialects.gemini.models import CAPABILITIES, MODELS
from toolglot.dialects.gemini.native import NAME, SIDE_MEMBERS
from toolglot.dialects.gemini.readable import READABLE
from toolglot.dialects.gemini.request import decode_request, encode_request, path
from toolglot.dialects.gemini.response import decode_response, encode_response
from toolglot.dialects.gemini.stream_decoder import GeminiStreamDecoder
from toolglot.dialects.gemini.stream_encoder import GeminiStreamEncoder
from toolglot.dialects.gemini.stream_frames import text_of_frame
from toolglot.ir import COUNTS
from toolglot.wire.framing import EVENTS_OR_ARRAY


def _wrap_result(value: Any, raw: Raw) -> Any:
    is_bare = isinstance(value, dict) and value.keys() & {"functionResponse", "function_response"}
    return {"role": "user", "parts": [raw]} if is_bare else raw


GEMINI = Dialect(
    name=NAME,
    title="Google Gemini",
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=GeminiStreamDecoder,
    stream_encoder=GeminiStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=path,
    can=CAPABILITIES,
    models=MODELS,
    readable=READABLE,
    request=RequestShape(
        history_key="contents",
        system_key="systemInstruction",
        model_in_path=True,
        results_name_tools=True,
        wrap_result=_wrap_result,
        image_tokens=image_tokens,
    ),
    headers=HeaderRules(key="x-goog-api-key"),
    answer=AnswerShape(
        side_members=SIDE_MEMBERS,
        model_places=(("modelVersion",),),
        counts=frozenset(COUNTS) - {"cache_write_tokens", "cache_write_long_tokens"},
        is_call=lambda part: isinstance(part, dict) and "functionCall" in part,
        overflow_words=OVERFLOW_WORDS,
    ),
    stream=StreamShape(framing=EVENTS_OR_ARRAY, apart=b'{"error":', holds_calls=True, text_of_frame=text_of_frame),
    state=StateSlots(slot="thoughtSignature", call_slot="thoughtSignature"),
    upstream=UpstreamRules(demand=DEMAND),
    listing=LISTING,
    counting=COUNTING,
)
