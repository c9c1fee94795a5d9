"""Google Gemini: `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

from toolglot.manifest import Manifest, Route
from toolglot.state_fields import LENGTH, StateFields, is_length, is_text, is_true

_SIGNED_APART = "$signed_apart"  # `native.SIGNED_APART`; a manifest imports no other module of its dialect
_OPERATION = "generate_content"

MANIFEST = Manifest(
    name="gemini",
    record="toolglot.dialects.gemini.dialect:GEMINI",
    marks="toolglot.dialects.gemini.marks:MARKS",
    lint="toolglot.dialects.gemini.lint:LINT",
    remedies="toolglot.dialects.gemini.remedies:REMEDIES",
    volatile=("model", "labels"),
    output_schema="responseJsonSchema",
    state=StateFields(
        thinking={"thoughtSignature": is_text, "thought": is_true, _SIGNED_APART: is_true},
        calls={"thoughtSignature": is_text},
        texts={"thoughtSignature": is_text, _SIGNED_APART: is_true, LENGTH: is_length},
        in_extra_content=True,
    ),
    aliases=("google",),
    client="Gemini     base_url = {url}",
    routes=(
        Route("POST", "/v1beta/models/{model}:generateContent", "generate", streams=False, operation=_OPERATION),
        Route("POST", "/v1beta/models/{model}:streamGenerateContent", "generate", streams=True, operation=_OPERATION),
        Route("POST", "/v1beta/models/{model}:countTokens", "count"),
    ),
    path_prefixes=("gemini", "google"),
    owns_versions=True,
    unserved={":batchEmbedContents": "embeddings", ":embedContent": "embeddings", ":predict": "images"},
    client_headers=("x-goog-api-key", "x-goog-api-client"),
)
