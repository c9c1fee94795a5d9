"""Readable forms of parts that only Gemini has: the tools that Google's servers run, and transcripts of audio."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Block, Text
from toolglot.readable import ReadableTypes, ReadBlock, hosted_text, take
from toolglot.wire.native import make_native


def _hosted_reader(kind: str, *members: str) -> ReadBlock:
    """Make a reader for parts of this kind. It reads these members of the part."""

    def read(part: dict[str, Any]) -> tuple[Block, ...] | None:
        data = part.pop(kind)
        rest = dict(data) if isinstance(data, dict) else {}
        values = take(rest, *members)
        if not values:
            return None
        take(rest, "id")
        if rest:
            part[kind] = rest
        text = values if len(values) > 1 else next(iter(values.values()))
        return (Text(text=hosted_text(kind, text).text, native=make_native(NAME, part)),)

    return read


READABLE: ReadableTypes = {
    "executableCode": _hosted_reader("executableCode", "language", "code"),
    "codeExecutionResult": _hosted_reader("codeExecutionResult", "outcome", "output"),
    "toolCall": _hosted_reader("toolCall", "toolType", "args"),
    "toolResponse": _hosted_reader("toolResponse", "toolType", "response"),
    "audioTranscription": _hosted_reader("audioTranscription", "speakerLabel", "text"),
}
