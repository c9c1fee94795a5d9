"""How much a peer can make us hold: every limit of the core, written down a second time."""

from __future__ import annotations

import pytest

from toolglot.dialects.gemini import metadata, openapi, partial_arguments
from toolglot.dialects.gemini import schema as gemini_schema
from toolglot.dialects.gemini import stream_decoder as gemini_stream
from toolglot.passes import effort, sequence
from toolglot.wire import json, openai_fields, sse, stream_budget, timestamps

MEGABYTE = 1024 * 1024
LIMITS: list[tuple[object, str, int]] = [
    (partial_arguments, "MAX_OPEN_CALLS", 10_000),
    (partial_arguments, "MAX_HELD_NAMES", 32 * MEGABYTE),
    (metadata, "MAX_HELD_BYTES", 32 * MEGABYTE),
    (gemini_stream, "_MAX_MEMBERS", 10_000),
    (gemini_schema, "_MAX_NODES", 4000),
    (gemini_schema, "_MAX_DEPTH", 60),
    (gemini_schema, "_MAX_COUNT", 9_223_372_036_854_775_807),
    (timestamps, "LAST_YEAR", 253_402_300_799),
    (openapi, "_MAX_DIGITS", 18),
    (sequence, "MAX_WAITING_CHARACTERS", 32 * MEGABYTE),
    (sequence, "MAX_WAITING_BLOCKS", 10_000),
    (sequence, "EVENT_SIZE", 64),
    (effort, "ROOM_FOR_ANSWER", 4096),
    (stream_budget, "MAX_HELD_CHARACTERS", 32 * MEGABYTE),
    (stream_budget, "MAX_BLOCKS", 10_000),
    (sse, "MAX_EVENT_BYTES", 32 * MEGABYTE),
    (json, "MAX_DOCUMENT_BYTES", 64 * MEGABYTE),
    (openai_fields, "MAX_IDENTIFIER", 64),
]


@pytest.mark.parametrize(("module", "name", "value"), LIMITS, ids=[row[1] for row in LIMITS])
def test_a_limit_is_changed_on_purpose(module: object, name: str, value: int) -> None:
    assert getattr(module, name) == value
