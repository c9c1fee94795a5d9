"""Strategies for the documents of each dialect, in its own words: legal ones, unknown fields and nulls included.

Each registered dialect needs a module of its name here. Without it, no law can be imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

from tests.documents.shared import Documents, Spoken
from toolglot.dialects import DIALECTS


class WireDocuments(NamedTuple):
    requests: Documents
    responses: Documents
    streams: SearchStrategy[str]
    write_stream: Callable[[list[Spoken]], str]


def _documents(module: Any) -> WireDocuments:
    return WireDocuments(module.requests, module.responses, module.streams, module.write_stream)


DOCUMENTS: dict[str, WireDocuments] = {name: _documents(import_module(f"{__name__}.{name}")) for name in DIALECTS}


def wire(document: object) -> bytes:
    """A document as its sender writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
