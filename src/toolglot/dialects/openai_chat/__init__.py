"""OpenAI Chat Completions, and every server that imitates it."""

from __future__ import annotations

from toolglot.manifest import Manifest, Route
from toolglot.state_fields import STATE_ID, StateFields, is_list_of_objects, is_object, is_one_of, is_text, is_true

MANIFEST = Manifest(
    name="openai_chat",
    record="toolglot.dialects.openai_chat.dialect:OPENAI_CHAT",
    marks="toolglot.dialects.openai_chat.marks:MARKS",
    lint="toolglot.dialects.openai_chat.lint:LINT",
    remedies="toolglot.dialects.openai_chat.remedies:REMEDIES",
    volatile=("model", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    state=StateFields(
        thinking={
            "$field": is_one_of("reasoning_content", "reasoning", "reasoning_text", "thinking_blocks"),
            "$part": is_true,
            "reasoning_details": is_list_of_objects,
            "thinking_blocks": is_list_of_objects,
            "reasoning_summary": is_list_of_objects,
            "reasoning_opaque": is_text,
            "extra_content": is_object,
            "provider_specific_fields": is_object,
        },
        calls={
            "extra_content": is_object,
            "provider_specific_fields": is_object,
            "$function_state": is_object,
            STATE_ID: is_text,
        },
        words=True,
        # One server may offer models of many vendors.
        bound_to_model=True,
    ),
    aliases=("chat",),
    client="OpenAI     base_url = {url}/v1",
    routes=(Route("POST", "/v1/chat/completions", "generate"),),
    path_prefixes=("openai",),
    unserved={
        "assistants": "assistants",
        "audio": "audio",
        "batches": "batches",
        "completions": "completions of a prompt, the API before chat",
        "embeddings": "embeddings",
        "fine_tuning": "fine-tuning",
        "images": "images",
        "moderations": "moderations",
        "realtime": "the realtime API",
        "threads": "threads",
        "uploads": "uploads",
        "vector_stores": "vector stores",
    },
)
