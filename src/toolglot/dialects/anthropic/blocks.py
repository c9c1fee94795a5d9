"""Content blocks of Messages <-> blocks of the IR, for requests and responses alike.

Server tools, MCP blocks, search results and unknown blocks are kept as `Opaque`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from toolglot.dialects.anthropic.citations import decode_citation, encode_citations
from toolglot.dialects.anthropic.media import decode_document, decode_image, decode_text_document, encode_media
from toolglot.dialects.anthropic.native import (
    NAME,
    decode_cache,
    is_missing,
    keep,
    read_note,
    restore_members,
    take_empty,
    without_missing,
    write_cache,
)
from toolglot.dialects.anthropic.wire import (
    AnyBlock,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from toolglot.ir import Block, Citation, Media, Opaque, Refusal, Text, Thinking, ToolCall, ToolResult, native_of
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.bad_arguments import describe_bad_arguments, note_repeated_keys, show_bad_call
from toolglot.wire.structs import Unknown, as_json, members_without
from toolglot.wire.typed import sound_text

DIRECT = {"type": "direct"}
"""The caller of a call that the model itself makes, not code that it runs."""
_REQUIRED: dict[str, tuple[str, Any]] = {"text": ("citations", None), "tool_use": ("caller", DIRECT)}
"""The member that the published schema requires in a block of an answer, and its default value."""


def add_required_members(wire: dict[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """Add the members that the schema requires in a block of an answer, except those in `without`."""
    entry = _REQUIRED.get(str(wire.get("type")))
    if entry is not None and entry[0] not in without:
        wire.setdefault(*entry)
    return wire


def remove_required_members(blocks: Sequence[AnyBlock]) -> list[str] | None:
    """Remove the members that `add_required_members` adds, if every block that needs them has them.

    Returns the names of required members that some block lacks. They stay in the other blocks, and the encoder must
    not add them.
    """
    missing: set[str] = set()
    found = []
    for block in blocks:
        entry = _TYPED_REQUIRED.get(type(block)) or _REQUIRED.get(_type_of(block))
        if entry is not None:
            found.append((block, *entry))
            if getattr(block, entry[0], UNSET) is UNSET and not _has_member(block, entry[0]):
                missing.add(entry[0])
    for block, member, value in found:
        if member not in missing:
            _remove_member(block, member, value)
    return sorted(missing) if missing else None


_TYPED_REQUIRED = {TextBlock: _REQUIRED["text"], ToolUseBlock: _REQUIRED["tool_use"]}


def _type_of(block: AnyBlock) -> str:
    return str(block.verbatim.value.get("type") if isinstance(block, Unknown) else block.__struct_config__.tag)


def _has_member(block: AnyBlock, member: str) -> bool:
    if isinstance(block, Unknown):
        return member in block.verbatim.value
    return getattr(block, member) is not UNSET or member in (block.rest or ())


def _remove_member(block: AnyBlock, member: str, value: Any) -> None:
    if type(block) is Unknown:
        if block.verbatim.value[member] == value:
            del block.verbatim.value[member]
        return
    came = getattr(block, member)
    if came is value or as_json(came) == value:
        setattr(block, member, UNSET)


def decode_content(value: str | Sequence[AnyBlock] | UnsetType) -> tuple[tuple[Block, ...], str | None]:
    """Decode content to blocks, and a note on its shape if the blocks do not imply it.

    The encoder writes a single plain text as a string unless the note is `list`. Raises `UnsoundError`.
    """
    if isinstance(value, str):
        return ((Text(text=value),), None) if value else ((), "empty")
    if value is UNSET:
        return (), "absent"
    blocks = decode_blocks(value)
    return blocks, "list" if not blocks or is_plain_text(blocks) else None


def decode_blocks(value: Sequence[AnyBlock]) -> tuple[Block, ...]:
    return tuple([_DECODERS[type(block)](block) for block in value])


def is_plain_text(blocks: Sequence[Block]) -> bool:
    """Return whether this is a single text without citations, cache mark or native members. A string can replace it."""
    if len(blocks) != 1:
        return False
    only = blocks[0]
    return isinstance(only, Text) and only.cache is None and not only.citations and NAME not in only.native


def decode_block(block: AnyBlock, read_text: Callable[[Raw], str] = sound_text) -> Block:
    """Decode a single block. `read_text` returns the text of a call's `input`."""
    if isinstance(block, ToolUseBlock):
        return _decode_call(block, read_text)
    return _DECODERS[type(block)](block)


def _decode_text(block: TextBlock) -> Block:
    cache = block.cache_control
    if block.rest is UNSET and block.citations is UNSET:
        if cache is UNSET:
            return Text(text=block.text)
        return Text(text=block.text, cache=decode_cache(cache))
    others = members_without(block, "text", "cache_control")
    empty = take_empty(others, "citations")
    citations: tuple[Citation, ...] = ()
    if block.citations:
        del others["citations"]
        citations = tuple([decode_citation(citation) for citation in block.citations])
    native = keep(others, empty=empty)
    return Text(text=block.text, citations=citations, cache=decode_cache(cache), native=native)


def _decode_thinking(block: ThinkingBlock) -> Block:
    unsigned = True if not isinstance(block.signature, str) else None
    return Thinking(text=block.thinking, native=keep(members_without(block, "thinking"), unsigned=unsigned))


def _decode_redacted_thinking(block: RedactedThinkingBlock) -> Block:
    return Thinking(native=keep(members_without(block), redacted=True))


def _decode_call(block: ToolUseBlock, read_text: Callable[[Raw], str] = sound_text) -> Block:
    arguments, given, call_id = "", block.input, block.id
    if given is not UNSET:
        arguments = read_text(given)
        if call_id is not UNSET and arguments[0] == "{" and block.caller is UNSET and block.rest is UNSET:
            return ToolCall(id=call_id, name=block.name, arguments=arguments, cache=decode_cache(block.cache_control))
    others = members_without(block, "name", "id", "input", "caller", "cache_control")
    twice = value = None
    is_null = False
    if given is not UNSET and arguments[0] == '"':  # some encode it twice
        arguments, twice = json.decode_frame(arguments.encode()), True
    elif given is not UNSET and arguments[0] == "n":
        arguments, is_null = "", True
        others = members_without(block, "name", "id", "caller", "cache_control")
    elif given is not UNSET and arguments[0] != "{":
        # A model's call with other arguments, which Claude Code sends back in its history.
        value = True
    absent = [name for name, lacks in (("id", call_id is UNSET), ("input", given is UNSET or is_null)) if lacks]
    direct = None if block.caller is UNSET else True
    native = keep(others, missing=absent or None, twice=twice, value=value, direct=direct)
    return ToolCall(
        id="" if call_id is UNSET else call_id,
        name=block.name,
        arguments=arguments,
        cache=decode_cache(block.cache_control),
        native=native,
    )


def _decode_result(block: ToolResultBlock) -> Block:
    content, shape = decode_content(block.content)
    if shape == "absent":
        shape = None
    rest = block.rest
    return ToolResult(
        call_id=block.tool_use_id,
        content=content,
        is_error=None if block.is_error is UNSET else block.is_error,
        cache=decode_cache(block.cache_control),
        native={} if shape is None and rest is UNSET else keep({} if rest is UNSET else dict(rest), content=shape),
    )


def _decode_tool_reference(block: ToolReferenceBlock) -> Block:
    return Opaque(NAME, {"type": block.__struct_config__.tag, **members_without(block)})


def _decode_unknown(block: Unknown) -> Block:
    return decode_text_document(block) or Opaque(NAME, block.verbatim.value)


_DECODERS: dict[type, Callable[[Any], Block]] = {
    TextBlock: _decode_text,
    ImageBlock: decode_image,
    DocumentBlock: decode_document,
    ThinkingBlock: _decode_thinking,
    RedactedThinkingBlock: _decode_redacted_thinking,
    ToolUseBlock: _decode_call,
    ToolResultBlock: _decode_result,
    ToolReferenceBlock: _decode_tool_reference,
    Unknown: _decode_unknown,
}


def encode_content(blocks: Sequence[Block], shape: str | None, where: str, receipt: Receipt) -> Any:
    """Encode the content of a message or a result in a request: a string, a list, or None without content."""
    if not blocks:
        return {"empty": "", "list": []}.get(shape or "")
    first = blocks[0]
    if shape != "list" and isinstance(first, Text) and is_plain_text(blocks):
        return first.text
    return encode_blocks(blocks, where, receipt)


def encode_usual_content(blocks: Sequence[Block]) -> str | list[dict[str, Any]] | None:
    """Encode content of another API that has only plain texts, calls with an object, and results of one text.

    This is the fast path for nearly all messages. None if a block is of another form, or needs a line in the receipt.
    """
    encoded: list[dict[str, Any]] = []
    for block in blocks:
        if type(block) is Text:
            if block.cache is not None or block.citations or block.logprobs or NAME in block.native:
                return None
            if len(blocks) == 1:
                return block.text
            encoded.append({"type": "text", "text": block.text})
        elif type(block) is ToolCall:
            if block.cache is not None or block.namespace is not None or NAME in block.native:
                return None
            if (arguments := json.plain_object(block.arguments)) is None:
                return None
            encoded.append({"type": "tool_use", "id": block.id, "name": block.name, "input": arguments})
        elif type(block) is ToolResult and len(block.content) == 1 and block.cache is None:
            only = block.content[0]
            if NAME in block.native or type(only) is not Text or not is_plain_text(block.content):
                return None
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.call_id, "content": only.text}
            if block.is_error is not None:
                result["is_error"] = block.is_error
            encoded.append(result)
        else:
            return None
    return encoded or None


def encode_blocks(
    blocks: Sequence[Block], where: str, receipt: Receipt, *, reply: bool = False
) -> list[dict[str, Any]]:
    """Encode the blocks that have a wire form. `reply`: they belong to a response, not to a request's history."""
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
            return restore_members(write_cache(wire, block.cache), block)
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
    """Return whether this is a block of redacted thinking."""
    return "$redacted" in own or ("data" in own and own.keys().isdisjoint({"signature", "$unsigned"}))


def _encode_thinking(block: Thinking, where: str, receipt: Receipt, reply: bool) -> dict[str, Any] | None:
    """Encode reasoning. In a request, the API accepts only reasoning that it signed; a forged signature is a 400."""
    own = native_of(block, NAME)
    if is_redacted(own):
        return restore_members({"type": "redacted_thinking"}, block)
    if own.get("$unsigned"):  # from an imitator, which expects it back unchanged
        return restore_members({"type": "thinking", "thinking": block.text}, block)
    if reply:
        if not block.text and "signature" not in own:
            return None  # the empty shell of another model's encrypted reasoning
        # The SDKs' type always has a signature.
        return restore_members(
            {"type": "thinking", "thinking": block.text, "signature": own.get("signature", "")}, block
        )
    if not own.get("signature"):
        receipt.loss(where, "reasoning of another model", "the Messages API accepts only reasoning that it signed")
        return None
    if block.cache is not None:
        receipt.loss(f"{where}.cache", "cache breakpoint", "the Messages API has none on reasoning")
    return restore_members({"type": "thinking", "thinking": block.text}, block)


def _encode_call(call: ToolCall, where: str, receipt: Receipt, reply: bool) -> dict[str, Any]:
    notes = native_of(call, NAME)
    arguments: Any = call.arguments if notes.get("$twice") else json.object_of(call.arguments, is_request=not reply)
    if notes.get("$value"):
        arguments = Raw(call.arguments.encode())
    if is_missing(call, "input") and not call.arguments:
        arguments = {}
    if arguments is None and reply:
        receipt.loss(where, f"call of {call.name}", f"{describe_bad_arguments(call.arguments)}; it is shown as text")
        return {"type": "text", "text": show_bad_call(call.name, call.arguments)}
    if reply and not call.complete and "$cut" not in notes:
        receipt.loss(where, f"call of {call.name}", "it was cut off and must not be run; it is shown as text")
        return {"type": "text", "text": show_bad_call(call.name, call.arguments)}
    if arguments is None:
        why = f"{describe_bad_arguments(call.arguments)}; Messages takes an object, so they are in `_raw` as text"
        receipt.loss(f"{where}.arguments", "arguments", why)
        arguments = {"_raw": call.arguments}
    else:
        note_repeated_keys(call.arguments, f"{where}.arguments", receipt)
    if call.namespace is not None and not reply:
        receipt.loss(f"{where}.namespace", call.namespace, "Messages has no namespaces")
    wire: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
    if "$direct" in notes:
        wire["caller"] = dict(DIRECT)
    return restore_members(without_missing(write_cache(wire, call.cache), call), call)


def _encode_result(result: ToolResult, where: str, receipt: Receipt) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    shape = read_note(native_of(result, NAME), "$content", str)
    content = encode_content(result.content, shape, f"{where}.content", receipt)
    if content is not None:
        wire["content"] = content
    if result.is_error is not None:
        wire["is_error"] = result.is_error
    return restore_members(write_cache(wire, result.cache), result)
