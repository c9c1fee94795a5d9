"""Parts of a request on their own: tool definitions without a conversation, a history without a request.

A fragment is wrapped into the smallest request that holds it, goes the way of every request (decode, passes, encode),
and is taken out again. What else the encoder had to write around it (a default limit, say) is not part of the answer.

Tool definitions may also be MCP's: `mcp` is a source and a target here, though it is no dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from toolglot.api import Translated
from toolglot.dialect import Capabilities, Dialect, capabilities
from toolglot.dialects import DIALECTS, find
from toolglot.errors import DecodeError, LossError, UnknownDialectError
from toolglot.ir import Message, Opaque, Request, Text, Tool, replace
from toolglot.passes import Context, textual
from toolglot.passes.pipeline import prepare
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import TextCalls
from toolglot.tools import mcp
from toolglot.wire import json
from toolglot.wire.reader import expected

__all__ = ["read_tools", "translate_messages", "translate_tools"]

Fragment = bytes | str | Sequence[Any] | Mapping[str, Any]

SOMEBODY_ASKS = Message(role="user", content=(Text(text="?"),))
"""The conversation around tools that come without one: some wires want it to begin with the user."""

_members = msgspec.json.Decoder(dict[str, Raw])


def translate_tools(
    data: Fragment, source: Dialect | str, target: Dialect | str, *, model: str = "", strict: bool = False
) -> Translated:
    """Tool definitions of the source, as an array of tool definitions of the target.

    Args:
        data: an array of tools, or an object with the member `tools` (a whole request will do). For MCP also a
            `tools/list` result or the JSON-RPC message around it.
        source: a dialect, or `mcp`.
        target: a dialect, or `mcp`.
        model: the target's model, where models of one dialect differ.
        strict: refuse instead of losing anything.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the data is not what the source allows.
        LossError: strict, and something would be lost.
    """
    receipt = Receipt()
    context = _context(source, target, model, receipt)
    tools = read_tools(_bytes(data), source, receipt)
    if source == target == mcp.NAME:  # no model, so nothing to fit
        return _translated(json.encode(mcp.encode_tools(tools, receipt)), receipt, strict)
    mcp.note_cosmetic(tools, receipt)
    tools = _offered(tools, context)
    sent = prepare(Request(model=model, messages=(SOMEBODY_ASKS,), tools=tools), context)
    if target == mcp.NAME:
        written = json.encode(mcp.encode_tools(sent.tools, receipt))
    else:
        written = bytes(_encode(sent, find(target), receipt).get("tools", Raw(b"[]")))
    return _translated(written, receipt, strict)


def translate_messages(
    data: Fragment,
    source: Dialect | str,
    target: Dialect | str,
    *,
    model: str = "",
    strict: bool = False,
    text_calls: TextCalls | None = None,
    history_format: str | None = None,
    tools: Sequence[Tool] = (),
) -> Translated:
    """A conversation of the source's dialect, as one of the target's.

    Args:
        data: an array of messages (items, contents), or an object with the dialect's own member for them and perhaps
            the one for system text (a whole request will do; its other members are left alone).
        source: a dialect.
        target: a dialect.
        model: the target's model, where models of one dialect differ.
        strict: refuse instead of losing anything.
        text_calls: write calls and results as text in this way.
        history_format: the text format in which calls and results stand in the data, when they do.
        tools: what may be called in it, where calls are text.

    Returns:
        An array; or, when the target keeps system text apart and there is some, an object with both members.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the data is not what the source allows.
        LossError: strict, and something would be lost.
    """
    source, target = find(source), find(target)
    receipt = Receipt()
    asked = replace(_read_messages(_bytes(data), source), model=model, tools=tuple(tools))
    context = _context(source, target, model, receipt)
    context.text_calls, context.history_format = text_calls, history_format
    context.can = textual.capabilities_of(context.can, text_calls)
    sent = prepare(asked, context)
    if sent.tools and not tools:
        receipt.loss("tools", "tools that the history brings", "a history alone has no place for their definitions")
    encoded = _encode(sent, target, receipt)
    history = encoded.get(target.history_key, Raw(b"[]"))
    system = encoded.get(target.system_key) if target.system_key else None
    if system is None:
        return _translated(bytes(history), receipt, strict)
    return _translated(json.encode({target.system_key: system, target.history_key: history}), receipt, strict)


def _encode(sent: Request, target: Dialect, receipt: Receipt) -> dict[str, Raw]:
    """The members of the request that holds the fragment. A limit is set so that no encoder speaks of a default."""
    return json.typed(target.encode_request(replace(sent, max_output_tokens=4096), receipt), _members)


def _bytes(data: Fragment) -> bytes:
    if isinstance(data, str):
        return data.encode("utf-8", "surrogatepass")
    return data if isinstance(data, bytes) else json.encode(data)


def _translated(written: bytes, receipt: Receipt, strict: bool) -> Translated:
    if strict and receipt.losses:
        raise LossError(receipt)
    return Translated(written, receipt)


def _context(source: Dialect | str, target: Dialect | str, model: str, receipt: Receipt) -> Context:
    (source_name, source_can), (target_name, target_can) = _side(source, ""), _side(target, model)
    if source_name == target_name != mcp.NAME and not model:
        target_can = _generous(find(target), target_can)
    # Nobody answers a fragment: a history may end with the assistant's turn, and no limit of output is needed.
    can = replace(target_can, prefill=True, default_output_tokens=None)
    return Context(source=source_name, target=target_name, can=can, receipt=receipt, cosmetic=source_can.cosmetic)


def _generous(dialect: Dialect, can: Capabilities) -> Capabilities:
    """What any model of the dialect takes: within one dialect, a fragment for an unknown model is left as it is."""
    allowed = {name for rule in dialect.models for name, value in rule.changes.items() if value is True}
    return replace(can, **dict.fromkeys(allowed, True))


def _side(side: Dialect | str, model: str) -> tuple[str, Capabilities]:
    if side == mcp.NAME:
        return mcp.NAME, mcp.CAN
    try:
        dialect = find(side)
    except UnknownDialectError as error:
        raise UnknownDialectError(error.name, (*DIALECTS, mcp.NAME)) from None
    return dialect.name, capabilities(dialect, model)


def _offered(tools: tuple[Tool | Opaque, ...], context: Context) -> tuple[Tool | Opaque, ...]:
    """Tools to be offered later are offered now where there is no later: nothing here can refer to them."""
    if context.can.deferred_tools:
        return tools
    offered: list[Tool | Opaque] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, Tool) and tool.deferred:
            context.receipt.loss(f"tools[{index}]", f"deferred loading of {tool.name}", "it is offered at once")
            tool = replace(tool, deferred=False)
        offered.append(tool)
    return tuple(offered)


def read_tools(data: bytes, source: Dialect | str, receipt: Receipt) -> tuple[Tool | Opaque, ...]:
    """Tool definitions of the source (a dialect, or `mcp`), in nobody's dialect; the data is as for `translate_tools`.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the data is not what the source allows.
    """
    if source == mcp.NAME:
        return mcp.decode_tools(data, receipt)
    source = find(source)
    value = json.decode(data)
    if isinstance(value, dict) and "tools" not in value:
        raise DecodeError("$.tools", "this array of tools is required")
    tools = Raw(data) if isinstance(value, list) else _member(data, value, "tools")
    return _decode(source, {"tools": tools, source.history_key: []}, "tools", value).tools


def _read_messages(data: bytes, source: Dialect) -> Request:
    value = json.decode(data)
    key = source.history_key
    if isinstance(value, list):
        return _decode(source, {key: Raw(data)}, key, value)
    wanted = {_plain(name): name for name in (key, source.system_key) if name}
    members = json.typed(data, _members) if isinstance(value, dict) else {}
    found = {wanted[_plain(name)]: raw for name, raw in members.items() if _plain(name) in wanted}
    if key not in found:
        _member(data, value, key)
    return _decode(source, found, key, value)


def _plain(name: str) -> str:
    """A member's name without its spelling: Gemini takes `systemInstruction` and `system_instruction`."""
    return name.replace("_", "").lower()


def _member(data: bytes, value: Any, key: str) -> Raw:
    if not isinstance(value, dict):
        raise expected("$", f"an array, or an object that has one as `{key}`", value)
    if key not in value:
        raise DecodeError(f"$.{key}", "this array is required")
    return json.typed(data, _members)[key]


def _decode(source: Dialect, body: Mapping[str, Any], key: str, value: Any) -> Request:
    """The wrapped fragment, decoded; paths of errors are those of what the caller gave."""
    try:
        return source.decode_request(json.encode(body))
    except DecodeError as error:
        if not isinstance(value, list):
            raise
        raise DecodeError(error.where.replace(f"$.{key}", "$", 1), error.what) from None
