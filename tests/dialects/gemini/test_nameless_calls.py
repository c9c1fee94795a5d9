"""A call without a name is an error in whole answers and in streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.errors import UpstreamDecodeError, UpstreamError


def document(*calls: dict[str, Any]) -> bytes:
    parts = [{"functionCall": call} for call in calls]
    return json.dumps({"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}]}).encode()


@pytest.mark.parametrize("call", [{"zz": 1}, {}, {"args": {}}, {"id": "c", "zz": 1}], ids=str)
def test_a_nameless_call_is_reported_whole_and_streamed(call: dict[str, Any]) -> None:
    with pytest.raises((UpstreamError, UpstreamDecodeError)):
        Exchange("anthropic", "gemini").response(document(call))
    translation = Exchange("anthropic", "gemini").stream()
    translation.feed(b"data: %b\n\n" % document(call))
    translation.close()
    assert translation.fault is not None


def test_the_end_of_a_call_that_has_ended_needs_no_name() -> None:
    translation = Exchange("anthropic", "gemini").stream()
    written = translation.feed(b"data: %b\n\n" % document({"name": "f", "args": {"a": 1}}, {})) + translation.close()
    assert translation.fault is None
    assert b'"stop_reason":"tool_use"' in written
