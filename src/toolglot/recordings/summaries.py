"""Summaries of events and requests in one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from toolglot.dialects import find
from toolglot.errors import DecodeError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Media, Opaque, Request, Text, Thinking, ToolCall, ToolResult, Usage
from toolglot.lint.report import visible
from toolglot.recordings.frame_cells import MAX_VALUE_CHARS, Cell
from toolglot.wire import json

MAX_RESULTS = 20
"""Maximum results to list one by one; more are counted."""
_INSTRUCTION_ROLES = ("system", "developer")
"""Roles whose texts are not part of the conversation."""


def event_cell(event: Event) -> Cell:
    is_bad = isinstance(event, Fault) or (isinstance(event, Close) and not event.complete)
    told = _event_text(event)
    if isinstance(event, Delta):
        return Cell(visible(told), told, "delta", text=event.text)
    return Cell(visible(told), told, "error" if is_bad else "")


def _event_text(event: Event) -> str:
    match event:
        case Delta(index=index, text=text):
            return f"{index} + {json.encode_text(text)}"
        case Open(index=index, block=block):
            return f"start {index}: {_block_text(block)}"
        case Close(index=index, complete=complete):
            return f"end {index}" if complete else f"end {index}, cut off"
        case Start(id=identity, model=model):
            return " ".join(filter(None, ("start of answer", identity, model)))
        case Finish(stop=stop, usage=usage):
            return ", ".join(filter(None, (f"end of answer: {stop.reason}", usage_text(usage))))
        case Fault(error=error):
            return f"error {error.kind}: {error.message}"


def _block_text(block: Block) -> str:
    match block:
        case ToolCall():
            return f"call {block.name} {block.id}".rstrip()
        case Text() | Thinking():
            return type(block).__name__.lower()
        case ToolResult(call_id=call_id):
            return f"result of {call_id}"
        case Media(kind=kind):
            return kind
        case Opaque(dialect=dialect, value=value):
            own = value.get("type") if isinstance(value, dict) else None
            return f"{dialect}'s {own}" if own else f"{dialect}'s own"
    return type(block).__name__.lower()


def usage_text(usage: Usage | None) -> str:
    if usage is None:
        return ""
    tokens, output = ("?" if count is None else count for count in (usage.input_tokens, usage.output_tokens))
    told = [f"{tokens} tokens in", f"{output} out"]
    if usage.cached_tokens:
        told.append(f"{usage.cached_tokens} cached")
    if usage.reasoning_tokens:
        told.append(f"{usage.reasoning_tokens} of reasoning")
    return ", ".join(told)


def count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def decode_request(dialect: str, data: bytes) -> Request | None:
    """Decode a request; None if it cannot be read."""
    try:
        return find(dialect).decode_request(data)
    except (DecodeError, RecursionError):
        return None


def request_text(request: Request | None, size: int) -> str:
    """Summarize the size of a request."""
    told: Sequence[str] = ()
    if request is not None:
        tools = [count_noun(len(request.tools), "tool")] if request.tools else []
        said = [message for message in request.messages if message.role not in _INSTRUCTION_ROLES]
        system = " and system text" if len(said) < len(request.messages) else ""
        told = (f"{count_noun(len(said), 'message')}{system}", *tools)
    return ", ".join((*told, count_noun(size, "byte")))


def result_cells(request: Request | None) -> tuple[Cell, ...]:
    """Return the new tool results of a request: those after the model's last message."""
    if request is None:
        return ()
    blocks = [(message, block) for message in request.messages for block in message.content]
    names = {block.id: block.name for _, block in blocks if isinstance(block, ToolCall)}
    results = [block for _, block in blocks if isinstance(block, ToolResult)]
    behind = takewhile(lambda each: each[0].role != "assistant", reversed(blocks))
    new = [block for _, block in behind if isinstance(block, ToolResult)][::-1]
    told = [_result_cell(result, names) for result in new[:MAX_RESULTS]]
    if len(new) > MAX_RESULTS:
        told.append(Cell(f"… and {count_noun(len(new) - MAX_RESULTS, 'more result')}"))
    if len(results) > len(new):
        told.append(Cell(f"{count_noun(len(results) - len(new), 'result')} of earlier turns"))
    return tuple(told)


def _result_cell(result: ToolResult, names: Mapping[str, str]) -> Cell:
    what = f"{'error' if result.is_error else 'result'} of {result.name or names.get(result.call_id) or result.call_id}"
    said = ", ".join(map(_content_text, result.content)) or "nothing"
    whole = "\n".join(block.text if isinstance(block, Text) else _content_text(block) for block in result.content)
    return Cell(visible(f"{what}: {said}"), f"{what}:\n{whole}", "error" if result.is_error else "")


def _content_text(block: Block) -> str:
    match block:
        case Text(text=text) if len(text) > MAX_VALUE_CHARS:
            return f"{len(text)} characters, {json.encode_text(text[:MAX_VALUE_CHARS] + '…')}"
        case Text(text=text):
            return json.encode_text(text)
        case Media(kind=kind, source=source):
            size = f"{len(source.data.rstrip('=')) * 3 // 4} bytes" if source.kind == "base64" else source.kind
            return f"{kind} ({', '.join(filter(None, (source.media_type, size)))})"
    return _block_text(block)
