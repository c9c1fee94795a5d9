"""OpenAI Chat Completions, and every server that imitates it."""

from __future__ import annotations

from toolglot.dialect import AnswerShape, Dialect, HeaderRules, RequestShape, StateSlots, StreamShape, UpstreamRules
from toolglot.dialects.openai_chat.blocks import is_blank_entry
from toolglot.dialects.openai_chat.counting import image_tokens
from toolglot.dialects.openai_chat.errors import decode_error, encode_error
from toolglot.dialects.openai_chat.listing import LISTING
from toolglot.dialects.openai_chat.models import CAPABILITIES, MODELS
from toolglot.dialects.openai_chat.native import NAME, SIDE_MEMBERS
from toolglot.dialects.openai_chat.other_forms import OTHER_FORMS
from toolglot.dialects.openai_chat.reasoning_details import REASONING_DETAILS
from toolglot.dialects.openai_chat.request import decode_request, encode_request, is_legacy, path
from toolglot.dialects.openai_chat.response import decode_response, encode_response
from toolglot.dialects.openai_chat.stream_decoder import ChatStreamDecoder
from toolglot.dialects.openai_chat.stream_encoder import DONE, ChatStreamEncoder
from toolglot.dialects.openai_chat.stream_frames import text_of_frame
from toolglot.ir import COUNTS
from toolglot.wire import openai_fields

OPENAI_CHAT = Dialect(
    name=NAME,
    title="OpenAI Chat Completions",
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=ChatStreamDecoder,
    stream_encoder=ChatStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=path,
    can=CAPABILITIES,
    models=MODELS,
    request=RequestShape(image_tokens=image_tokens),
    headers=HeaderRules(request_headers=openai_fields.REQUEST_HEADERS, answer_prefixes=openai_fields.RESPONSE_HEADERS),
    answer=AnswerShape(
        side_members=SIDE_MEMBERS,
        id_prefix="chatcmpl-",
        counts=frozenset(COUNTS) - {"cache_write_long_tokens"},
        omits_call_ids=is_legacy,
        is_call=is_blank_entry,
        required_counts=frozenset({"input_tokens", "output_tokens"}),
    ),
    stream=StreamShape(last_event=DONE, broken="cut", text_of_frame=text_of_frame, changing_members=("obfuscation",)),
    state=StateSlots(details_slot=REASONING_DETAILS),
    upstream=UpstreamRules(other_forms=OTHER_FORMS),
    listing=LISTING,
)
