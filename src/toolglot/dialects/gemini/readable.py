"""What parts of Gemini say that other dialects have no block for: the tools that Google's server runs,
and what was said in audio."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Block, Text
from toolglot.readable import ReadableTypes, ReadBlock, hosted_text
from toolglot.wire.reader import Reader, keep


def _hosted(kind: str, *members: str) -> ReadBlock:
    """A part of this kind: these members of it."""

    def read(part: Reader) -> tuple[Block, ...] | None:
        held = part.object(kind)
        said: dict[str, Any] = {key: held.take(key) for key in members if key in held} if held is not None else {}
        if held is None or not said:
            return None
        held.take("id")
        if held.rest():
            part.rest()[kind] = held.rest()
        text = said if len(said) > 1 else next(iter(said.values()))
        return (Text(text=hosted_text(kind, text).text, native=keep(NAME, part)),)

    return read


READABLE: ReadableTypes = {
    "executableCode": _hosted("executableCode", "language", "code"),
    "codeExecutionResult": _hosted("codeExecutionResult", "outcome", "output"),
    "toolCall": _hosted("toolCall", "toolType", "args"),
    "toolResponse": _hosted("toolResponse", "toolType", "response"),
    "audioTranscription": _hosted("audioTranscription", "speakerLabel", "text"),
}
