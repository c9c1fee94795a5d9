"""Content blocks of Messages <-> blocks of the IR, for requests and responses alike.

Server tools, MCP blocks, search results and whatever is new ride along as `Opaque`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from msgspec import Raw

from toolglot.dialects.anthropic.citations import decode_citations, encode_citations
from toolglot.dialects.anthropic.media import decode_media, encode_media
from toolglot.dialects.anthropic.native import (
    NAME,
    NO_INPUT,
    is_missing,
    missing,
    note,
    take_cache,
    take_empty,
    with_kept,
    without_missing,
    write_cache,
)
from toolglot.dialects.anthropic.plain import plain_block
from toolglot.ir import Block, Media, Opaque, Refusal, Text, Thinking, ToolCall, ToolResult, native_of
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.bad_arguments import describe_bad_arguments, show_bad_call
from toolglot.wire.reader import Reader, expected, keep
from toolglot.wire.repeated_keys import note_repeated_keys

_DIRECT = {"type": "direct"}
"""The caller of a call that the model itself makes, not code that it runs."""
_REQUIRED: dict[str, tuple[str, Any]] = {"text": ("citations", None), "tool_use": ("caller", _DIRECT)}
"""The member of an answer's block that the published schema requires, and its value where there is nothing to say."""


def with_required(wire: dict[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """A block of an answer with every member that the schema requires, except those in `without`."""
    entry = _entry(wire)
    if entry is not None and entry[0] not in without:
        wire.setdefault(*entry)
    return wire


def take_required(blocks: Sequence[Any]) -> list[str] | None:
    """Remove the members that `with_required` writes. Returns a note: those that some block does not have, which are
    left where they are and must not be added when writing."""
    held = [(block, *entry) for block in blocks if type(block) is dict and (entry := _entry(block)) is not None]
    missing = {member for block, member, _ in held if member not in block}
    for block, member, value in held:
        if member not in missing and block[member] == value:
            del block[member]
    return sorted(missing) or None


def _entry(block: Mapping[str, Any]) -> tuple[str, Any] | None:
    return _REQUIRED.get(str(block.get("type")))


def take_content(
    holder: Reader, key: str = "content", inputs: Sequence[Raw] = (), kinds: frozenset[str] | None = None
) -> tuple[tuple[Block, ...], str | None]:
    """The blocks under `key`, and a note on their shape where they do not tell it themselves.

    One plain text is written as a string unless noted `list`. `inputs` are the verbatim `input`s of the blocks, and
    `kinds` the types of blocks that have a meaning here.
    """
    value = holder.take(key)
    if value is None:
        return (), "absent"
    if isinstance(value, str):
        return ((Text(text=value),), None) if value else ((), "empty")
    if not isinstance(value, list):
        raise expected(holder.at(key), "a string or an array", value)
    where = holder.at(key)
    blocks = tuple(
        plain_block(item, raw, kinds) or decode_block(Reader(item, f"{where}[{index}]"), raw, kinds)
        for index, (item, raw) in enumerate(zip(value, chain(inputs, repeat(NO_INPUT))))  # noqa: B905
    )
    return blocks, "list" if not blocks or is_plain_text(blocks) else None


def is_plain_text(blocks: Sequence[Block]) -> bool:
    """Is this one text with nothing to it, that a string can say as well?"""
    if len(blocks) != 1:
        return False
    only = blocks[0]
    return isinstance(only, Text) and only.cache is None and not only.citations and NAME not in only.native


def decode_block(block: Reader, raw_input: Raw = NO_INPUT, kinds: frozenset[str] | None = None) -> Block:
    kind = block.peek("type")
    if not isinstance(kind, str) or (kinds is not None and kind not in kinds):
        return Opaque(NAME, block.rest())
    if kind == "tool_use":
        return _decode_call(block, raw_input)
    decode = _DECODERS.get(kind)
    return decode(block) if decode is not None else Opaque(NAME, block.rest())


def _decode_text(block: Reader) -> Block:
    if "text" not in block:
        return Opaque(NAME, block.rest())
    block.take("type")
    text, empty = block.need_text("text"), take_empty(block, "citations")
    citations, cache = decode_citations(block), take_cache(block)
    return Text(text=text, citations=citations, cache=cache, native=keep(NAME, block, empty=empty))


def _decode_thinking(block: Reader) -> Block:
    if "thinking" not in block:
        return Opaque(NAME, block.rest())
    block.take("type")
    unsigned = True if not isinstance(block.peek("signature"), str) else None
    return Thinking(text=block.need_text("thinking"), native=keep(NAME, block, unsigned=unsigned))


def _decode_redacted(block: Reader) -> Block:
    block.take("type")
    return Thinking(native=keep(NAME, block, redacted=True))


def _decode_call(block: Reader, raw_input: Raw) -> Block:
    if "name" not in block:
        return Opaque(NAME, block.rest())
    block.take("type")
    absent = missing(block, "id", "input")
    name, call_id, cache = block.need_text("name"), block.text("id") or "", take_cache(block)
    given = block.take("input")
    arguments = arguments_text(given, raw_input, block.at("input"))
    direct = True if block.peek("caller") == _DIRECT else None
    if direct:
        block.take("caller")
    native = keep(NAME, block, missing=absent, twice=True if isinstance(given, str) else None, direct=direct)
    return ToolCall(id=call_id, name=name, arguments=arguments, cache=cache, native=native)


def arguments_text(value: Any, raw_input: Raw, where: str) -> str:
    """The arguments of a call as they stood on the wire."""
    if value is None:
        return ""
    if isinstance(value, str):  # some compatible servers encode the object twice
        return value
    if not isinstance(value, dict):
        raise expected(where, "an object", value)
    return bytes(raw_input).decode() if raw_input is not NO_INPUT else json.encode_text(value)


_KINDS_IN_RESULT = frozenset({"text", "image", "document"})


def _decode_result(block: Reader) -> Block:
    if "tool_use_id" not in block:
        return Opaque(NAME, block.rest())
    block.take("type")
    call_id, is_error, cache = block.need_text("tool_use_id"), block.flag("is_error"), take_cache(block)
    content, shape = take_content(block, kinds=_KINDS_IN_RESULT)
    noted = shape if shape != "absent" else None
    return ToolResult(
        call_id=call_id, content=content, is_error=is_error, cache=cache, native=keep(NAME, block, content=noted)
    )


_DECODERS: dict[str, Callable[[Reader], Block]] = {
    "text": _decode_text,
    "image": decode_media,
    "document": decode_media,
    "thinking": _decode_thinking,
    "redacted_thinking": _decode_redacted,
    "tool_result": _decode_result,
}


def write_content(blocks: Sequence[Block], shape: str | None, where: str, receipt: Receipt) -> Any:
    """Content of a message or a result in a request: a string, a list, or None when there is nothing to write."""
    if not blocks:
        return {"empty": "", "list": []}.get(shape or "")
    first = blocks[0]
    if shape != "list" and isinstance(first, Text) and is_plain_text(blocks):
        return first.text
    return encode_blocks(blocks, where, receipt)


def encode_blocks(
    blocks: Sequence[Block], where: str, receipt: Receipt, *, reply: bool = False
) -> list[dict[str, Any]]:
    """The wire forms of the blocks that have one; `reply`: they are a response, not history in a request."""
    encoded = (encode_block(block, f"{where}[{index}]", receipt, reply) for index, block in enumerate(blocks))
    return [wire for wire in encoded if wire is not None]


def encode_block(block: Block, where: str, receipt: Receipt, reply: bool) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            wire: dict[str, Any] = {"type": "text", "text": text}
            if block.logprobs:
                receipt.loss(where, "log probabilities", NO_LOGPROBS)
            if citations := encode_citations(block.citations, f"{where}.citations", receipt, reply):
                wire["citations"] = citations
            return with_kept(write_cache(wire, block.cache), block)
        case ToolCall():
            return _encode_call(block, where, receipt, reply)
        case ToolResult() if not reply:
            return _encode_result(block, where, receipt)
        case Thinking():
            return _encode_thinking(block, where, receipt, reply)
        case Media() if not reply:
            return encode_media(block, where, receipt)
        case Refusal(text=text):
            if not reply:
                receipt.note(where, "refusal", "Messages has no refusal block; it is written as text")
            return {"type": "text", "text": text}
        case Opaque(dialect=dialect, value=value) if dialect == NAME:
            return dict(value)
        case _:
            receipt.loss(where, describe_block(block), "Messages has no block for it here")
            return None


NO_LOGPROBS = "Messages has no place for them"


def is_redacted(own: Mapping[str, Any]) -> bool:
    """Does this dialect keep reasoning here that it has not shown?"""
    return "$redacted" in own or ("data" in own and own.keys().isdisjoint({"signature", "$unsigned"}))


def _encode_thinking(block: Thinking, where: str, receipt: Receipt, reply: bool) -> dict[str, Any] | None:
    """Reasoning. In a request the API takes back only what it has signed, and refuses a forged signature (400)."""
    own = native_of(block, NAME)
    if is_redacted(own):
        return with_kept({"type": "redacted_thinking"}, block)
    if own.get("$unsigned"):  # an imitator's, which wants it back as it was
        return with_kept({"type": "thinking", "thinking": block.text}, block)
    if reply:
        if not block.text and "signature" not in own:
            return None  # the empty shell of another model's encrypted reasoning
        # The SDKs' type has a signature always.
        return with_kept({"type": "thinking", "thinking": block.text, "signature": own.get("signature", "")}, block)
    if not own.get("signature"):
        receipt.loss(where, "reasoning of another model", "the Messages API takes back only reasoning that it signed")
        return None
    if block.cache is not None:
        receipt.loss(f"{where}.cache", "cache breakpoint", "the Messages API has none on reasoning")
    return with_kept({"type": "thinking", "thinking": block.text}, block)


def _encode_call(call: ToolCall, where: str, receipt: Receipt, reply: bool) -> dict[str, Any]:
    notes = native_of(call, NAME)
    arguments: Any = call.arguments if notes.get("$twice") else json.object_of(call.arguments)
    if is_missing(call, "input") and not call.arguments:
        arguments = {}
    if arguments is None and reply:
        receipt.loss(where, f"call of {call.name}", f"{describe_bad_arguments(call.arguments)}; it is shown as text")
        return {"type": "text", "text": show_bad_call(call.name, call.arguments)}
    if reply and not call.complete and "$cut" not in notes:
        receipt.loss(where, f"call of {call.name}", "it was cut off and must not be run; it is shown as text")
        return {"type": "text", "text": show_bad_call(call.name, call.arguments)}
    if arguments is None:
        why = f"{describe_bad_arguments(call.arguments)}; Messages takes an object, so they stand in `_raw` as text"
        receipt.loss(f"{where}.arguments", "arguments", why)
        arguments = {"_raw": call.arguments}
    else:
        note_repeated_keys(call.arguments, f"{where}.arguments", receipt)
    if call.namespace is not None and not reply:
        receipt.loss(f"{where}.namespace", call.namespace, "Messages has no namespaces")
    wire: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
    if "$direct" in notes:
        wire["caller"] = dict(_DIRECT)
    return with_kept(without_missing(write_cache(wire, call.cache), call), call)


def _encode_result(result: ToolResult, where: str, receipt: Receipt) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    shape = note(native_of(result, NAME), "$content", str)
    content = write_content(result.content, shape, f"{where}.content", receipt)
    if content is not None:
        wire["content"] = content
    if result.is_error is not None:
        wire["is_error"] = result.is_error
    return with_kept(write_cache(wire, result.cache), result)
