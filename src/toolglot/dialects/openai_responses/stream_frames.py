"""Recognizes stream events that only extend an open block."""

from __future__ import annotations

from toolglot.dialects.openai_responses.stream_state import read_frame
from toolglot.errors import DecodeError

_DELTAS = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning.delta",
        "response.function_call_arguments.delta",
    }
)


def text_of_frame(payload: bytes) -> str | None:
    """Return the text, reasoning or arguments of an event that has nothing else."""
    try:
        frame = read_frame(payload)
    except DecodeError:
        return None
    return frame.delta if frame.type in _DELTAS and type(frame.delta) is str and not frame.logprobs else None
