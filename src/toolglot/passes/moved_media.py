"""Move media that `media.fit` took out of a result back into it, for results that are translated further."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolglot.ir import Block, Media, Text, ToolResult, replace

_LEFT = re.compile(r"\[((?:image|document|audio|video) [0-9]{1,6}) of this result follows in the next user message\]")
_MOVED = re.compile(r"\[((?:image|document|audio|video) [0-9]{1,6}) of the result of .{0,200} (\S{1,300}):\]")


def restore_moved_media(result: ToolResult, beside: Sequence[Block]) -> tuple[ToolResult, tuple[Block, ...]]:
    """Put media back into a result. Returns the result and the remaining blocks of `beside`."""
    moved: dict[str, Media] = {}
    left: list[Block] = []
    label = ""
    for block in beside:
        found = _MOVED.fullmatch(block.text) if isinstance(block, Text) else None
        if found and found[2] == result.call_id:
            label = found[1]
        elif label and isinstance(block, Media):
            moved[label], label = block, ""
        else:
            left.append(block)
    content = tuple(_restore_media(block, moved) for block in result.content)
    return replace(result, content=content), (*left, *moved.values())


def _restore_media(block: Block, moved: dict[str, Media]) -> Block:
    found = _LEFT.fullmatch(block.text) if isinstance(block, Text) else None
    return moved.pop(found[1], block) if found else block
