"""The record of Ollama's native API."""

from __future__ import annotations

from toolglot.dialect import AnswerShape, Dialect, RequestShape, StreamShape
from toolglot.dialects.ollama.errors import OVERFLOW_WORDS, decode_error, encode_error
from toolglot.dialects.ollama.listing import LISTING
from toolglot.dialects.ollama.models import CAPABILITIES, MODELS
from toolglot.dialects.ollama.native import NAME, SIDE_MEMBERS
from toolglot.dialects.ollama.request import answer_without_model, decode_request, encode_request, path
from toolglot.dialects.ollama.response import decode_response, encode_response
from toolglot.dialects.ollama.stream_decoder import OllamaStreamDecoder
from toolglot.dialects.ollama.stream_encoder import OllamaStreamEncoder
from toolglot.dialects.ollama.stream_frames import text_of_frame
from toolglot.wire.framing import LINES

OLLAMA = Dialect(
    name=NAME,
    title="Ollama",
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=OllamaStreamDecoder,
    stream_encoder=OllamaStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=path,
    can=CAPABILITIES,
    models=MODELS,
    request=RequestShape(answer_without_model=answer_without_model),
    answer=AnswerShape(
        counts=frozenset({"input_tokens", "output_tokens"}),
        overflow_words=OVERFLOW_WORDS,
        side_members=SIDE_MEMBERS,
    ),
    stream=StreamShape(framing=LINES, text_of_frame=text_of_frame, changing_members=("created_at",)),
    listing=LISTING,
)
