"""Anthropic Messages, and the servers that imitate it."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.dialect import (
    AnswerShape,
    Dialect,
    HeaderRules,
    RequestShape,
    StateSlots,
    StreamShape,
    UpstreamRules,
    capabilities,
)
from toolglot.dialects.anthropic.counting import COUNTING, image_tokens
from toolglot.dialects.anthropic.errors import OVERFLOW_WORDS, decode_error, encode_error, refuse_threads
from toolglot.dialects.anthropic.history_demand import DEMAND
from toolglot.dialects.anthropic.listing import LISTING
from toolglot.dialects.anthropic.models import CAPABILITIES, MODELS, VERSIONS, version_of
from toolglot.dialects.anthropic.native import NAME, SIDE_MEMBERS
from toolglot.dialects.anthropic.readable import READABLE
from toolglot.dialects.anthropic.request import decode_request, encode_request, path
from toolglot.dialects.anthropic.response import decode_response, encode_response
from toolglot.dialects.anthropic.served import SERVED
from toolglot.dialects.anthropic.stream_decoder import AnthropicStreamDecoder
from toolglot.dialects.anthropic.stream_encoder import MESSAGE_STOP, AnthropicStreamEncoder
from toolglot.dialects.anthropic.stream_frames import text_of_frame


def _wrap_result(value: Any, raw: Raw) -> Any:
    is_bare = isinstance(value, dict) and value.get("type") == "tool_result"
    return {"role": "user", "content": [raw]} if is_bare else raw


ANTHROPIC = Dialect(
    name=NAME,
    title="Anthropic Messages",
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=AnthropicStreamDecoder,
    stream_encoder=AnthropicStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=path,
    can=CAPABILITIES,
    models=MODELS,
    readable=READABLE,
    request=RequestShape(
        system_key="system", wrap_result=_wrap_result, refuse_elsewhere=refuse_threads, image_tokens=image_tokens
    ),
    headers=HeaderRules(
        key="x-api-key",
        sent={"anthropic-version": "2023-06-01"},
        request_headers=frozenset({"anthropic-version", "anthropic-beta", "idempotency-key"}),
        query=("beta",),
        answer_prefixes=("anthropic-", "request-id"),
        request_id="request-id",
    ),
    answer=AnswerShape(
        side_members=SIDE_MEMBERS,
        id_prefix="msg_",
        model_places=(("model",), ("message", "model")),
        is_call=lambda block: isinstance(block, dict) and block.get("type") == "tool_use",
        names_stop_sequence=True,
        usage_required=True,
        required_counts=frozenset({"input_tokens", "output_tokens"}),
        overflow_words=OVERFLOW_WORDS,
    ),
    stream=StreamShape(last_event=MESSAGE_STOP, broken="cut", text_of_frame=text_of_frame),
    state=StateSlots(slot="signature", ends_answers=False),
    upstream=UpstreamRules(demand=DEMAND),
    listing=LISTING,
    counting=COUNTING,
    served=SERVED,
)


def anthropic_capabilities(version: str, model: str) -> Capabilities:
    """Capabilities of this model in this version of the API (`anthropic-version`), for an exchange's `can`.

    Without it, an exchange uses the first version, which accepts more.
    """
    can, api = capabilities(ANTHROPIC, model), version_of(version)
    return change_capabilities(
        can, fields=can.parameters.fields - api.without, refuses=can.limits.refused_content | api.refuses
    )


__all__ = ["ANTHROPIC", "NAME", "VERSIONS", "anthropic_capabilities"]
