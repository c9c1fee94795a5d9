"""OpenAI's Responses API: `POST /v1/responses`."""

from __future__ import annotations

from toolglot.manifest import Manifest, Route
from toolglot.state_fields import LENGTH, StateFields, is_length, is_list_of_texts, is_text

MANIFEST = Manifest(
    name="openai_responses",
    record="toolglot.dialects.openai_responses.dialect:OPENAI_RESPONSES",
    marks="toolglot.dialects.openai_responses.marks:MARKS",
    lint="toolglot.dialects.openai_responses.lint:LINT",
    remedies="toolglot.dialects.openai_responses.remedies:REMEDIES",
    # Codex sends its installation, session and turn in `client_metadata`.
    volatile=(
        "model",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "client_metadata",
    ),
    output_schema="output_schema",
    state=StateFields(
        thinking={
            "encrypted_content": is_text,
            "id": is_text,
            "summary": is_list_of_texts("summary_text"),
            "content": is_list_of_texts("reasoning_text"),
        },
        texts={"$phase": is_text, LENGTH: is_length},
        # "Reasoning input items can only be provided to a reasoning or computer use model."
        bound_to_model=True,
        # Another organization's key gets `invalid_encrypted_content`.
        bound_to_account=True,
        # "Item 'rs_…' of type 'reasoning' was provided without its required following item."
        needs_follower=True,
    ),
    aliases=("responses",),
    routes=(
        Route("POST", "/v1/responses", "generate"),
        Route("POST", "/v1/responses/input_tokens", "count"),
        Route("GET", "/v1/responses/{id}", "stored"),
        Route("DELETE", "/v1/responses/{id}", "stored"),
        Route("GET", "/v1/responses/{id}/input_items", "stored"),
        Route("POST", "/v1/responses/{id}/cancel", "stored"),
        Route("POST", "/v1/conversations", "stored"),
        Route("GET", "/v1/conversations/{id}", "stored"),
        Route("POST", "/v1/conversations/{id}", "stored"),
        Route("DELETE", "/v1/conversations/{id}", "stored"),
        Route("GET", "/v1/conversations/{id}/items", "stored"),
        Route("POST", "/v1/conversations/{id}/items", "stored"),
        Route("GET", "/v1/conversations/{id}/items/{item}", "stored"),
        Route("DELETE", "/v1/conversations/{id}/items/{item}", "stored"),
    ),
    unserved={"responses/compact": "compaction"},
)
