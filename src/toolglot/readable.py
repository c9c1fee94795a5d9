"""What an opaque block says, in blocks that every dialect has.

An `Opaque` block is verbatim to its own dialect. Many hold text that the model needs: a search result, the output of a
hosted tool, a call that the client ran itself. A dialect lists these in a table, type -> reader, and
`passes/opaque.py` puts the reading in the place of the block where another dialect is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from toolglot.ir import Block, Text
from toolglot.wire import json
from toolglot.wire.typed import ValueReader, W

ReadBlock: TypeAlias = Callable[[dict[str, Any]], tuple[Block, ...] | None]
"""Reads the members of an opaque block, which it may take out of the dictionary; None where they say nothing that can
be carried. Members that it leaves behind belong into `native` of a block that it returns, so that the receipt names
them."""

ReadableTypes: TypeAlias = Mapping[str, ReadBlock]


def typed(kind: type[W], read: Callable[[W], tuple[Block, ...] | None]) -> ReadBlock:
    """Reads blocks of this type."""
    values = ValueReader(kind)
    return lambda members: read(values.read_value(members, "$"))


def take(members: dict[str, Any], *names: str) -> dict[str, Any]:
    """Take members out. A null counts as absent and stays."""
    return {name: members.pop(name) for name in names if members.get(name) is not None}


def hosted_text(kind: str, said: Any) -> Text:
    """A call that the vendor's server ran, or its output, as text for a model that has no such tool."""
    text = said if isinstance(said, str) else json.encode_text(said)
    return Text(text=f"[{kind}]\n{text}" if text else f"[{kind}: nothing]")
