"""OpenAI Chat Completions, and every server that imitates it."""

from __future__ import annotations

from toolglot.manifest import Manifest, Route

MANIFEST = Manifest(
    name="openai_chat",
    record="toolglot.dialects.openai_chat.dialect:OPENAI_CHAT",
    marks="toolglot.dialects.openai_chat.marks:MARKS",
    lint="toolglot.dialects.openai_chat.lint:LINT",
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
