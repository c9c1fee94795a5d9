"""What only another dialect understands: told when it stays behind, taken out where it would be in the way.

Encoders read their own `native` and no other, so foreign fields need no removing, only telling. That pass runs first,
while the paths are still those of the client's request. Keys that start with `$` are notes on shape and mean nothing;
the source's `cosmetic` keys mean nothing to anybody else; reasoning state is told by `reasoning.settle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolglot.dialect import Capabilities
from toolglot.events import Close, Delta, Event, Finish, Open, Start
from toolglot.ir import Block, Json, Opaque, Request, Text, Thinking, Tool, replace
from toolglot.ir import Native as NativeFields
from toolglot.passes import Context
from toolglot.passes.blocks import Place, blocks, rewrite_blocks
from toolglot.passes.reasoning import STATE
from toolglot.receipt import Receipt


def report(request: Request, context: Context) -> Request:
    """Tells every native field that the target's encoder will not read. Changes nothing."""
    for where, native in _natives(request):
        for owner, fields in native.items():
            if owner == context.target:
                continue
            for path, key in missed(fields, context.cosmetic, context.containers):
                context.receipt.loss(f"{where}.{path}" if where else path, key, f"only {owner} understands it")
    return request


def missed(
    fields: Mapping[str, Json], cosmetic: frozenset[str], containers: frozenset[str], path: str = ""
) -> Iterator[tuple[str, str]]:
    """The native fields that their owner would miss, as (path, key). Containers are told by what they contain.

    Nobody misses nulls, empty things, flags that are off, notes on shape and cosmetic keys.
    """
    for key, value in fields.items():
        if _says_nothing(value) or key.startswith("$") or key in STATE or key in cosmetic:
            continue
        if key in containers and isinstance(value, dict):
            yield from missed(value, cosmetic, containers, f"{path}{key}.")
        else:
            yield f"{path}{key}", key


def _says_nothing(value: Json) -> bool:
    return value is None or value is False or value in ("", [], {})


class Reporter:
    """The same for a response on its way to the client, as an event pass that changes nothing."""

    __slots__ = ("_client", "_receipt", "_thinking", "_upstream")

    def __init__(self, client: str, upstream: Capabilities, receipt: Receipt) -> None:
        self._client = client
        self._upstream = upstream
        self._receipt = receipt
        self._thinking: set[int] = set()  # what these hold, the pass that carries it tells

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta():
                pass
            case Open(index=index, block=Thinking()):
                self._thinking.add(index)
            case Open(index=index, block=block):
                self._report(f"content[{index}].", block.native)
                if isinstance(block, Text):
                    self._report_state(index, block.native)
            case Close(index=index, native=native):
                if index not in self._thinking:
                    self._report(f"content[{index}].", native)
                    self._report_state(index, native)
            case Start(native=native) | Finish(native=native):
                self._report("", native)
            case _:
                pass
        return (event,)

    def _report(self, where: str, native: NativeFields) -> None:
        for owner, fields in native.items():
            if owner != self._client:
                for path, key in missed(fields, self._upstream.cosmetic, self._upstream.containers):
                    self._receipt.loss(f"{where}{path}", key, f"only {owner} understands it")

    def _report_state(self, index: int, native: NativeFields) -> None:
        """Gemini signs its text as well, and does not miss the signature there."""
        if any(owner != self._client and not STATE.isdisjoint(fields) for owner, fields in native.items()):
            self._receipt.note(f"content[{index}]", "reasoning state", "its owner does not demand it back with text")


def _natives(request: Request) -> Iterator[tuple[str, NativeFields]]:
    if request.native:
        yield "", request.native
    for name in ("response_format", "reasoning", "tool_choice"):
        node = getattr(request, name)
        # A choice that only its dialect understands is told as a whole by `choice.fit`.
        if node is not None and node.native and getattr(node, "mode", None) != "opaque":
            yield name, node.native
    for index, tool in enumerate(request.tools):
        if tool.native:
            yield f"tools[{index}]", tool.native
    for number, message in enumerate(request.messages):
        if message.native:
            yield str(Place(number)), message.native
    for block, place in blocks(request):
        if block.native and not isinstance(block, Thinking):
            yield str(place), block.native
        if isinstance(block, Text):
            for index, citation in enumerate(block.citations):
                if citation.native:
                    yield f"{place}.citations[{index}]", citation.native


def remove(request: Request, context: Context) -> Request:
    """Takes out blocks and tools that are opaque to the target, each with a loss that names its type."""

    def keep(block: Block, place: Place) -> tuple[Block, ...]:
        if not isinstance(block, Opaque) or block.dialect == context.target:
            return (block,)
        kind = _type(block.value)
        # A cosmetic item's content is carried some other way: the tools that it brings stand among the tools.
        tell = context.receipt.note if kind in context.cosmetic else context.receipt.loss
        tell(str(place), kind, _strange(block.dialect))
        return ()

    request = rewrite_blocks(request, keep)
    tools: list[Tool | Opaque] = []
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Opaque) and tool.dialect != context.target:
            context.receipt.loss(f"tools[{index}]", _type(tool.value), _strange(tool.dialect))
        else:
            tools.append(tool)
    return request if len(tools) == len(request.tools) else replace(request, tools=tuple(tools))


def _strange(owner: str) -> str:
    return f"it has no meaning that is known outside {owner}"


def _type(value: Json) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str):
        return kind
    return ", ".join(map(str, value)) if isinstance(value, dict) and value else type(value).__name__
