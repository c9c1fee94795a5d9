"""What parts of Gemini say that other dialects have no block for: the tools that Google's server runs,
and what was said in audio."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Block, Text
from toolglot.readable import ReadableTypes, ReadBlock, hosted_text, take
from toolglot.wire.native import make_native


def _hosted(kind: str, *members: str) -> ReadBlock:
    """A part of this kind: these members of it."""

    def read(part: dict[str, Any]) -> tuple[Block, ...] | None:
        held = part.pop(kind)
        rest = dict(held) if isinstance(held, dict) else {}
        said = take(rest, *members)
        if not said:
            return None
        take(rest, "id")
        if rest:
            part[kind] = rest
        text = said if len(said) > 1 else next(iter(said.values()))
        return (Text(text=hosted_text(kind, text).text, native=make_native(NAME, part)),)

    return read


READABLE: ReadableTypes = {
    "executableCode": _hosted("executableCode", "language", "code"),
    "codeExecutionResult": _hosted("codeExecutionResult", "outcome", "output"),
    "toolCall": _hosted("toolCall", "toolType", "args"),
    "toolResponse": _hosted("toolResponse", "toolType", "response"),
    "audioTranscription": _hosted("audioTranscription", "speakerLabel", "text"),
}
