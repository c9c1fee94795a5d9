"""Token counts at the end of an answer <-> `Usage`. The IR does not have the durations next to them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.wire import OllamaAnswer
from toolglot.ir import Usage
from toolglot.wire.usage import CountNames, UsageReader, read_plain, unchanged_original, with_original

INPUT, OUTPUT = "prompt_eval_count", "eval_count"


def decode_usage(answer: OllamaAnswer) -> Usage | None:
    """Decode the counts of an answer. None if it has none."""
    found = {INPUT: answer.prompt_eval_count, OUTPUT: answer.eval_count}
    if UNSET not in found.values():
        return _read_counts(found)
    counts = {name: value for name, value in found.items() if value is not UNSET}
    return _read_counts(counts) if counts else None


def _read_counts(counts: dict[str, Any]) -> Usage:
    if (plain := read_plain(counts, _PLAIN)) is not None:
        tokens, output = plain[0].get(INPUT), plain[0].get(OUTPUT)
    else:
        reader = UsageReader(counts, "$")
        tokens, output = reader.count((INPUT,)), reader.count((OUTPUT,))
    return Usage(input_tokens=tokens, output_tokens=output, native=with_original(NAME, counts, {}))


_PLAIN: CountNames = {INPUT: INPUT, OUTPUT: OUTPUT}


def encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    came = unchanged_original(usage, NAME, _read_counts)
    if came is not None:
        return came
    counts = {INPUT: usage.input_tokens, OUTPUT: usage.output_tokens}
    return {name: count for name, count in counts.items() if count is not None}
