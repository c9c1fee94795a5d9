"""Strategies for the documents of each dialect, in its own words: legal ones, unknown fields and nulls included.

A dialect that is registered needs a module here; `test_every_dialect_has_documents` says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from hypothesis.strategies import SearchStrategy

from tests.documents import anthropic, gemini, ollama, openai_chat, openai_responses, warp
from tests.documents.shared import Documents, Spoken


class WireDocuments(NamedTuple):
    requests: Documents
    responses: Documents
    streams: SearchStrategy[str]
    write_stream: Callable[[list[Spoken]], str]


DOCUMENTS: dict[str, WireDocuments] = {
    module.__name__.rpartition(".")[2]: WireDocuments(
        module.requests, module.responses, module.streams, module.write_stream
    )
    for module in (openai_chat, openai_responses, anthropic, gemini, warp, ollama)
}


def wire(document: object) -> bytes:
    """A document as its sender writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
