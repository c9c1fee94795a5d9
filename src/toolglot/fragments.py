"""Translate parts of a request: tool definitions without a conversation, a history without a request, or the result of
one call.

A fragment is wrapped into the smallest request that contains it, translated like any request (decode, passes, encode),
and extracted again. Other members that the encoder writes (a default limit, for example) are dropped.

Tool definitions and results may also be MCP's: `mcp` is a source and a target here, though it is not a dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Raw

from toolglot.api import Translated
from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.dialect import Dialect, capabilities
from toolglot.dialects import AnyDialect, find
from toolglot.errors import DecodeError, LossError, UnknownDialectError, expected
from toolglot.fragment_forms import around, elements, form_of, inside, members
from toolglot.ir import Message, Opaque, Request, Text, Tool, ToolCall, ToolResult, replace
from toolglot.passes import Context, TextCallContext, textual
from toolglot.passes.blocks import Place
from toolglot.passes.moved_media import restore_moved_media
from toolglot.passes.pipeline import prepare
from toolglot.receipt import Receipt, ReceiptLine, describe_block
from toolglot.textcalls.settings import TextCalls, to_text_calls
from toolglot.tools import mcp
from toolglot.wire import json
from toolglot.wire.json import Document

__all__ = ["read_result", "read_tools", "translate_messages", "translate_result", "translate_tools"]

Fragment: TypeAlias = Document | Sequence[Any]
"""Part of a document, in any supported form. Arrays may contain objects of an SDK."""

SOMEBODY_ASKS = Message(role="user", content=(Text(text="?"),))
"""The conversation for a fragment without one: some APIs require a user message first."""
CALL, RESULT = str(Place(1, 0)), str(Place(2, 0))
"""Paths of the call and its result after that message."""
NOTHING = Text(text="")


def translate_tools(
    data: Fragment, source: AnyDialect, target: AnyDialect, *, model: str = "", strict: bool = False
) -> Translated:
    """Translate tool definitions. Returns an array of tool definitions of the target.

    Args:
        data: an array of tools, or an object with the member `tools` (a whole request is accepted). For MCP also a
            `tools/list` result or the JSON-RPC message around it.
        source: a dialect, or `mcp`.
        target: a dialect, or `mcp`.
        model: the target's model, if models of one dialect differ.
        strict: refuse instead of losing anything.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the source does not allow this data.
        LossError: strict, and something would be lost.
    """
    receipt = Receipt()
    context = _context(source, target, model, receipt)
    tools = read_tools(json.to_bytes(data), source, receipt)
    if source == target == mcp.NAME:  # no model, so nothing to fit
        return _translated(json.encode(mcp.encode_tools(tools, receipt)), receipt, strict)
    mcp.note_cosmetic(tools, receipt)
    tools = _offer_deferred(mcp.carry_output_schemas(tools, context.target), context)
    sent = prepare(Request(model=model, messages=(SOMEBODY_ASKS,), tools=tools), context)
    if target == mcp.NAME:
        return _translated(json.encode(mcp.encode_tools(sent.tools, receipt)), receipt, strict)
    target = find(target)
    written = inside(_encode(sent, target, receipt), form_of(target).tools)
    return _translated(written or b"[]", receipt, strict)


def translate_result(
    data: Fragment,
    source: AnyDialect,
    target: AnyDialect,
    *,
    call_id: str | None = None,
    name: str | None = None,
    model: str = "",
    strict: bool = False,
) -> Translated:
    """Translate the result of one tool call.

    Args:
        data: for MCP, a `tools/call` result or the JSON-RPC message around it. For a dialect, the message (item,
            content, input) that contains the result, alone or in an array; or the bare result, if it is part of one.
        source: a dialect, or `mcp`.
        target: a dialect, or `mcp`.
        call_id: the id of the call. MCP results do not have it, nor do some of Gemini's. If the data has several
            results, it selects one.
        name: the tool's name. Gemini requires it, and other dialects do not have it.
        model: the target's model, if models of one dialect differ.
        strict: refuse instead of losing anything.

    Returns:
        For MCP, an object. For a dialect, an array of messages to insert after the call: usually one, and a second one
        with the images if the API's results cannot contain any.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the source does not allow this data, or lacks something that the target requires.
        LossError: strict, and something would be lost.
    """
    receipt, own = Receipt(), Receipt()
    context = _context(source, target, model, own)
    context.source = ""  # also within one dialect: media have been put back into the result
    result = read_result(json.to_bytes(data), source, call_id=call_id, name=name, receipt=receipt)
    if source == target == mcp.NAME:
        return _translated(json.encode(mcp.encode_result(result, receipt)), receipt, strict)
    if context.target != mcp.NAME:
        _check_call(result, find(target))
    mcp.note_meta(result, receipt)
    call = ToolCall(id=result.call_id, name=result.name or "tool", arguments="{}", kind=result.kind)
    answered = (
        Message(role="assistant", content=(call,)),
        Message(role=context.can.calls.results_role, content=(result,)),
    )
    sent = prepare(Request(model=model, messages=(SOMEBODY_ASKS, *answered)), context)
    written = _encode_result(sent, target, own)
    receipt.add(replace(line, where=_path_in_result(line.where)) for line in own if _is_of_result(line))
    return _translated(written, receipt, strict)


def translate_messages(
    data: Fragment,
    source: AnyDialect,
    target: AnyDialect,
    *,
    model: str = "",
    strict: bool = False,
    text_calls: TextCalls | str | None = None,
    history_format: str | None = None,
    tools: Sequence[Tool] = (),
) -> Translated:
    """Translate a conversation.

    Args:
        data: an array of messages (items, contents), or an object with the dialect's member for them and optionally
            the one for system text (a whole request is accepted; its other members are ignored).
        source: a dialect.
        target: a dialect.
        model: the target's model, if models of one dialect differ.
        strict: refuse instead of losing anything.
        text_calls: write calls and results as text in this format: its name, or settings.
        history_format: the text format of calls and results in the data, if they are text.
        tools: the tools that it may call, if calls are text.

    Returns:
        An array; or, if the target has a separate member for system text and there is some, an object with both.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the source does not allow this data.
        LossError: strict, and something would be lost.
    """
    source, target = find(source), find(target)
    receipt = Receipt()
    asked = replace(_read_messages(json.to_bytes(data), source), model=model, tools=tuple(tools))
    context = _context(source, target, model, receipt)
    settings = to_text_calls(text_calls)
    if settings is not None or history_format is not None:
        context.text = TextCallContext(calls=settings, history_format=history_format)
    context.can = textual.capabilities_of(context.can, settings)
    sent = prepare(asked, context)
    if sent.tools and not tools:
        receipt.loss("tools", "tools defined in the history", "a history alone has no place for their definitions")
    encoded, form = _encode(sent, target, receipt), form_of(target)
    found = {name: encoded[name] for name in reversed(form.history) if name in encoded}
    history = form.history[0]
    if form.tools == ("tools",) and not found.keys() - {history}:
        return _translated(bytes(found.get(history, Raw(b"[]"))), receipt, strict)
    return _translated(json.encode(found), receipt, strict)


def _encode(sent: Request, target: Dialect, receipt: Receipt) -> dict[str, Raw]:
    """Encode the request around the fragment. An output limit is set, so that no encoder reports a default."""
    limit = 4096 if "max_output_tokens" in target.can.parameters.fields else None
    return form_of(target).read(target.encode_request(replace(sent, max_output_tokens=limit), receipt))


def _translated(written: bytes, receipt: Receipt, strict: bool) -> Translated:
    if strict and receipt.losses:
        raise LossError(receipt)
    return Translated(written, receipt)


def _context(source: AnyDialect, target: AnyDialect, model: str, receipt: Receipt) -> Context:
    (source_name, source_can), (target_name, target_can) = _side(source, ""), _side(target, model)
    if source_name == target_name != mcp.NAME and not model:
        target_can = _capabilities_of_any_model(find(target), target_can)
    # A fragment has no answer, so a history may end with the assistant's turn and needs no output limit.
    can = change_capabilities(target_can, prefill=True, default_output_tokens=None)
    return Context(
        source=source_name,
        target=target_name,
        can=can,
        receipt=receipt,
        source_can=source_can,
        readable={} if source_name == mcp.NAME else find(source).readable,
    )


def _capabilities_of_any_model(dialect: Dialect, can: Capabilities) -> Capabilities:
    """Return the union of the capabilities of all models of the dialect, so that a fragment for an unknown model stays
    unchanged within one dialect.
    """
    allowed = {name for rule in dialect.models for name, value in rule.changes.items() if value is True}
    return change_capabilities(can, **dict.fromkeys(allowed, True))


def _side(side: AnyDialect, model: str) -> tuple[str, Capabilities]:
    if side == mcp.NAME:
        return mcp.NAME, mcp.CAN
    try:
        dialect = find(side)
    except UnknownDialectError as error:
        raise UnknownDialectError(error.name, (*error.known, mcp.NAME), error.suggestions) from None
    return dialect.name, capabilities(dialect, model)


def _offer_deferred(tools: tuple[Tool | Opaque, ...], context: Context) -> tuple[Tool | Opaque, ...]:
    """Offer deferred tools at once if the target has no deferred tools: nothing in a fragment can refer to them."""
    if context.can.tools.deferred:
        return tools
    offered: list[Tool | Opaque] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, Tool) and tool.deferred:
            context.receipt.loss(f"tools[{index}]", f"deferred loading of {tool.name}", "it is offered at once")
            tool = replace(tool, deferred=False)
        offered.append(tool)
    return tuple(offered)


def read_tools(data: bytes, source: AnyDialect, receipt: Receipt) -> tuple[Tool | Opaque, ...]:
    """Decode tool definitions of the source (a dialect, or `mcp`) to the IR; the data is as for `translate_tools`.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the source does not allow this data.
    """
    if source == mcp.NAME:
        return mcp.decode_tools(data, receipt)
    source = find(source)
    path = form_of(source).tools
    value = json.decode(data)
    if isinstance(value, list):
        return _decode(source, around(Raw(data), path), path).tools
    if isinstance(value, dict) and path[0] not in value:
        if not path[1:] or not value.keys() & {path[-1], "servers"}:
            raise DecodeError(f"$.{path[0]}", "this array of tools is required")
        return _decode(source, around(Raw(data), path[:-1]), path[:-1]).tools
    return _decode(source, {path[0]: _member(data, value, path[0])}).tools


def read_result(
    data: bytes,
    source: AnyDialect,
    *,
    call_id: str | None = None,
    name: str | None = None,
    receipt: Receipt,
) -> ToolResult:
    """Decode a result of the source (a dialect, or `mcp`) to the IR; arguments are as for `translate_result`.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the source does not allow this data.
    """
    if source == mcp.NAME:
        return mcp.decode_result(data, call_id or "", name)
    messages, is_whole = _read_answer(data, find(source))
    blocks = [block for message in messages for block in message.content]
    results = [block for block in blocks if isinstance(block, ToolResult)]
    meant = [result for result in results if call_id is None or result.call_id in (call_id, "")]
    if len(meant) != 1:
        raise DecodeError("$", _describe_ambiguity(results, call_id))
    result, left = restore_moved_media(meant[0], [block for block in blocks if not isinstance(block, ToolResult)])
    for block in left if not is_whole else ():
        receipt.loss("messages", describe_block(block), "it is next to the result, not part of it")
    content = tuple(block for block in result.content if block != NOTHING)  # Gemini's form of a result without text
    return replace(result, call_id=result.call_id or call_id or "", name=result.name or name, content=content)


def _describe_ambiguity(results: Sequence[ToolResult], call_id: str | None) -> str:
    """Explain why no single result is selected."""
    if not results:
        return "there is no result of a tool in it"
    ids = ", ".join(result.call_id or "one without an id" for result in results[:20])
    if call_id is None:
        return f"there are results of {ids}: which is meant?"
    return f"there is no result of {call_id}, but of {ids}"


def _read_answer(data: bytes, source: Dialect) -> tuple[tuple[Message, ...], bool]:
    """Decode the messages that contain a result. Also returns whether they are those of a whole request."""
    form, value = form_of(source), json.decode(data)
    if isinstance(value, dict) and form.results[0] in value:
        return _decode(source, {form.results[0]: _member(data, value, form.results[0])}).messages, True
    items = (
        [Raw(data)]
        if isinstance(value, dict)
        else json.decode_typed(data, elements)
        if isinstance(value, list)
        else None
    )
    if items is None:
        raise expected("$", "a message with a result, or an array of them", value)
    values = value if isinstance(value, list) else [value]
    wrapped = [form.bare(one, item) for one, item in zip(values, items, strict=True)]
    return _decode(source, around(wrapped, form.results), form.results, single=isinstance(value, dict)).messages, False


def _check_call(result: ToolResult, target: Dialect) -> None:
    """Check that the result names its call (and tool, if required): APIs pair results with calls."""
    if not result.call_id:
        raise DecodeError("call_id", "the result does not say which call it answers; give the id of the call")
    if not result.name and target.request.results_name_tools:
        raise DecodeError("name", f"results of {target.title} name their tool, and this one does not; give its name")


def _encode_result(sent: Request, target: AnyDialect, receipt: Receipt) -> bytes:
    if target == mcp.NAME:
        (result,) = (block for message in sent.messages for block in message.content if isinstance(block, ToolResult))
        return json.encode(mcp.encode_result(result, receipt))
    target = find(target)
    form = form_of(target)
    listed = inside(_encode(sent, target, receipt), form.results) or b"[]"
    return json.encode(json.decode_typed(listed, elements)[form.before :])


def _is_of_result(line: ReceiptLine) -> bool:
    """Return whether a line is about the result, and not about the synthesized call."""
    of_call = line.where.startswith(CALL) or line.what == "of calls"
    return not of_call or line.what.startswith(("call id", "tool name"))


def _path_in_result(where: str) -> str:
    """Map a path in the request around a result to a path in the result."""
    if where.startswith(CALL):
        return f"call{where.removeprefix(CALL)}"
    return where.removeprefix(RESULT).removeprefix(".") or "result"


def _read_messages(data: bytes, source: Dialect) -> Request:
    value = json.decode(data)
    needed, *others = form_of(source).history
    if isinstance(value, list) and needed == source.request.history_key:
        return _decode(source, {needed: Raw(data)}, (needed,))
    wanted = {_normalize(name): name for name in (needed, *others)}
    given = json.decode_typed(data, members) if isinstance(value, dict) else {}
    found = {wanted[_normalize(name)]: raw for name, raw in given.items() if _normalize(name) in wanted}
    if needed not in found and not (found and needed != source.request.history_key):
        _member(data, value, needed)
    return _decode(source, found)


def _normalize(name: str) -> str:
    """Normalize a member's name: Gemini accepts `systemInstruction` and `system_instruction`."""
    return name.replace("_", "").lower()


def _member(data: bytes, value: Any, key: str) -> Raw:
    if not isinstance(value, dict):
        raise expected("$", f"an array, or an object that has one as `{key}`", value)
    if key not in value:
        raise DecodeError(f"$.{key}", "this array is required")
    return json.decode_typed(data, members)[key]


def _decode(source: Dialect, body: Mapping[str, Any], path: Sequence[str] = (), *, single: bool = False) -> Request:
    """Decode the wrapped fragment. Errors have paths in the caller's data, which is at `path`, or is the single element
    of the list there."""
    form = form_of(source)
    if form.history[0] == source.request.history_key:
        body = {source.request.history_key: [], **body}
    try:
        return source.decode_request(form.write(body))
    except DecodeError as error:
        prefix = ".".join(("$", *path)) + ("[0]" if single else "")
        if not path or not error.where.startswith(prefix):
            raise
        raise DecodeError("$" + error.where.removeprefix(prefix), error.what) from None
