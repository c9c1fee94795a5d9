"""Read opaque blocks into blocks that every dialect has.

An `Opaque` block is sent verbatim to its own dialect. Many contain text that the model needs: a search result, the
output of a hosted tool, a call that the client ran itself. A dialect lists these in a table, type -> reader. If another
dialect is the target, `passes/opaque.py` replaces the block with the blocks that the reader returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from toolglot.ir import Block, Text
from toolglot.wire import json
from toolglot.wire.typed import ValueReader, W

ReadBlock: TypeAlias = Callable[[dict[str, Any]], tuple[Block, ...] | None]
"""Reads the members of an opaque block, and may remove them from the dictionary; None if they have no content that can
be carried. Members that it does not use belong in `native` of a returned block, so that the receipt names them."""

ReadableTypes: TypeAlias = Mapping[str, ReadBlock]


def typed(kind: type[W], read: Callable[[W], tuple[Block, ...] | None]) -> ReadBlock:
    """Create a reader of blocks of this type."""
    values = ValueReader(kind)
    return lambda members: read(values.read_value(members, "$"))


def take(members: dict[str, Any], *names: str) -> dict[str, Any]:
    """Remove and return members. A null counts as absent and stays."""
    return {name: members.pop(name) for name in names if members.get(name) is not None}


def hosted_text(kind: str, said: Any) -> Text:
    """Render a call that the vendor's server ran, or its output, as text for a model without that tool."""
    text = said if isinstance(said, str) else json.encode_text(said)
    return Text(text=f"[{kind}]\n{text}" if text else f"[{kind}: nothing]")
