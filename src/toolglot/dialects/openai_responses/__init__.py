"""OpenAI's Responses API: `POST /v1/responses`."""

from __future__ import annotations

from toolglot.dialect import Capabilities, Dialect
from toolglot.dialects.openai_responses.errors import decode_error, encode_error
from toolglot.dialects.openai_responses.parts import NAME
from toolglot.dialects.openai_responses.request import decode_request, encode_request, path
from toolglot.dialects.openai_responses.response import decode_response, encode_response
from toolglot.dialects.openai_responses.stream import stream_decoder, stream_encoder

CAPABILITIES = Capabilities(
    fields=frozenset(
        {
            "tool_choice",
            "parallel_tool_calls",
            "max_output_tokens",
            "temperature",
            "top_p",
            "response_format",
            "reasoning",
            "verbosity",
            "user",
            "metadata",
            "service_tier",
        }
    ),
    name_length=128,
    id_length=64,
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    strict_all_required=True,
    schema="object",
    parameters_optional=True,
    arguments="text",
    system="anywhere",
    developer_role=True,
    calls_in_one_message=False,
    results_role="tool",
    media_in_user=frozenset({"image", "document"}),
    media_in_result=frozenset({"image", "document"}),
    citations=True,
    thinking="owned",
    refusals=True,
    cache_lifetimes=(1800, 43200),
    cache_breakpoints=4,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    max_stop_sequences=0,
    min_output_tokens=16,
    # Identities and states of items and responses, hints that only this API's servers act on, and what stands beside a
    # field of the IR that says the same (`summary` and `content` of reasoning are its text).
    needs_message=True,
    max_tools=128,
    cosmetic=frozenset(
        {
            "additional_tools",
            "billing",
            "client_metadata",
            "completed_at",
            "content",
            "context",
            "created_at",
            "error",
            "id",
            "include",
            "incomplete_details",
            "namespace",
            "object",
            "parsed",
            "parsed_arguments",
            "phase",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "status",
            "store",
            "stream_options",
            "summary",
            "tool_search_output",
            "truncation",
        }
    ),
)

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
    can=CAPABILITIES,
    state_slot="encrypted_content",
    history_key="input",
    system_key="instructions",
)

__all__ = ["OPENAI_RESPONSES"]
