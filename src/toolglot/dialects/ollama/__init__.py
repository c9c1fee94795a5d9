"""Ollama's native API: `POST /api/chat` and `/api/generate`, streams of JSON lines."""

from __future__ import annotations

from toolglot.manifest import Manifest, Route
from toolglot.state_fields import StateFields

_LISTING = "toolglot.dialects.ollama.listing"

MANIFEST = Manifest(
    name="ollama",
    record="toolglot.dialects.ollama.dialect:OLLAMA",
    marks="toolglot.dialects.ollama.marks:MARKS",
    lint="toolglot.dialects.ollama.lint:LINT",
    state=StateFields(words=True, bound_to_model=True),
    client="Ollama     host     = {url}",
    routes=(
        Route("POST", "/api/chat", "generate"),
        Route("POST", "/api/generate", "generate", operation="text_completion"),
        Route("GET", "/api/tags", "models"),
        Route("POST", "/api/show", "model"),
        Route("GET", "/api/version", "function", "ollama", function=f"{_LISTING}:encode_version"),
        Route("GET", "/api/ps", "function", "ollama", function=f"{_LISTING}:encode_running_models"),
    ),
    path_prefixes=("ollama",),
    unserved={
        "api/embed": "embeddings",
        "api/embeddings": "embeddings",
        **dict.fromkeys(
            ("api/pull", "api/push", "api/create", "api/copy", "api/delete", "api/blobs"), "management of models"
        ),
    },
)
