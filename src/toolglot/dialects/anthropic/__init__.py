"""Anthropic Messages, and the servers that imitate it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from toolglot.manifest import Manifest, Route
from toolglot.state_fields import LENGTH, StateFields, is_length, is_text, is_true

MANIFEST = Manifest(
    name="anthropic",
    record="toolglot.dialects.anthropic.dialect:ANTHROPIC",
    marks="toolglot.dialects.anthropic.marks:MARKS",
    lint="toolglot.dialects.anthropic.lint:LINT",
    remedies="toolglot.dialects.anthropic.remedies:REMEDIES",
    # Claude Code sends its device and its session in `metadata`.
    volatile=("model", "metadata"),
    state=StateFields(
        thinking={"signature": is_text, "data": is_text, "$redacted": is_true, "$unsigned": is_true},
        texts={LENGTH: is_length},
        bound_to_model=True,
    ),
    aliases=("claude",),
    client="Anthropic  base_url = {url}",
    routes=(
        Route("POST", "/v1/messages", "generate"),
        Route("POST", "/v1/messages/count_tokens", "count"),
    ),
    path_prefixes=("anthropic",),
    unserved={"messages/batches": "batches"},
    client_headers=("anthropic-version",),
)

_DOCUMENTED = ("VERSIONS", "anthropic_capabilities")


def __getattr__(name: str) -> Any:
    if name in _DOCUMENTED:
        return getattr(import_module("toolglot.dialects.anthropic.dialect"), name)
    raise AttributeError(name)
