"""`tools` / `tool_choice`, and the deprecated `functions` / `function_call`, <-> the IR."""

from __future__ import annotations

from typing import Any, Literal

from toolglot.dialects.openai_chat.blocks import control_of, take_control
from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of
from toolglot.receipt import Receipt
from toolglot.tools.remembered import MEMORY, written
from toolglot.wire.reader import Reader, expected, implied_type, keep, kept

_TYPED_BY = {"function": "function", "custom": "custom"}
"""The member of a tool, or of a choice, that tells its type where `type` is left out."""
_WORDS: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",  # Mistral's word
}


def decode_tools(body: Reader) -> tuple[Tool | Opaque, ...]:
    tools = [MEMORY.tool(NAME, tool, _decode_tool) for tool in body.objects("tools")]
    legacy = [_decode_function(function, {"legacy": True}) for function in body.objects("functions")]
    return (*tools, *legacy)


def _decode_tool(tool: Reader) -> Tool | Opaque:
    implied = implied_type(tool, _TYPED_BY)
    kind = implied or tool.peek("type")
    if kind == "function" and isinstance(tool.peek("function"), dict):
        tool.take("type")
        function = tool.object("function")
        assert function is not None
        return _decode_function(function, {"typeless": True if implied else None}, outer=tool.rest())
    if kind == "function" and isinstance(tool.peek("name"), str):  # the form of the Responses API
        tool.take("type")
        return _decode_function(tool, {"flat": True})
    if kind == "custom" and isinstance(tool.peek("custom"), dict):
        tool.take("type")
        custom = tool.object("custom")
        assert custom is not None
        name, description, format_ = custom.need_text("name"), custom.text("description"), custom.take("format")
        native = _native(keep(NAME, custom, typeless=True if implied else None), tool.rest())
        return Tool(name=name, kind="custom", description=description, format=_flat(format_), native=native)
    return Opaque(NAME, tool.rest())


def _decode_function(function: Reader, shape: dict[str, Any], outer: dict[str, Any] | None = None) -> Tool:
    name, description, strict = function.need_text("name"), function.text("description"), function.flag("strict")
    parameters = function.take("parameters")
    beside = Reader(outer or {})
    cache, control = take_control(beside)
    if cache is None:
        cache, inside = take_control(function)
        shape = {**shape, "control_inside": inside}
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        strict=strict,
        cache=cache,
        native=_native(keep(NAME, function, **shape, cache_control=control), beside.rest()),
    )


def _native(inner: dict[str, dict[str, Any]], outer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Unknown fields beside `function` are kept apart from those inside it."""
    if outer:
        inner.setdefault(NAME, {})["beside"] = outer
    return inner


# A grammar stands one level deeper here than in the IR, which has it flat: {"type", "syntax", "definition"}.


def _flat(value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "grammar" and isinstance(value.get("grammar"), dict):
        return {**{key: item for key, item in value.items() if key != "grammar"}, **value["grammar"]}
    return value


def _nested(value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "grammar":
        return {"type": "grammar", "grammar": {key: item for key, item in value.items() if key != "type"}}
    return value


def encode_tools(request: Request, receipt: Receipt) -> dict[str, Any]:
    """The members `tools` and `functions`, as far as there are any."""
    tools: list[dict[str, Any]] = []
    functions: list[dict[str, Any]] = []
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Opaque):
            if tool.dialect == NAME:
                tools.append(tool.value)
            else:
                receipt.loss(f"tools[{index}]", "tool of another API", "Chat Completions does not know its type")
        elif native_of(tool, NAME).get("$legacy"):
            functions.append(_encode_function(tool))
        else:
            tools.append(_encode_tool(tool))
    members: dict[str, Any] = {}
    if tools or native_of(request, NAME).get("$no_tools"):
        members["tools"] = tools
    if functions:
        members["functions"] = functions
    return members


def _encode_tool(tool: Tool) -> dict[str, Any]:
    notes = native_of(tool, NAME)
    beside = notes.get("beside", {})
    typed = {} if notes.get("$typeless") else {"type": tool.kind}
    if tool.kind == "custom":
        custom = {"name": tool.name, **_present(description=tool.description, format=_nested(tool.format))}
        return {**typed, "custom": {**custom, **_inside(tool)}, **beside}
    if notes.get("$flat"):
        return {**typed, **_encode_function(tool)}
    return {**typed, "function": _encode_function(tool), **beside, **control_of(tool)}


def _encode_function(tool: Tool) -> dict[str, Any]:
    fields = _present(description=tool.description, parameters=written(tool.parameters), strict=tool.strict)
    control = native_of(tool, NAME).get("$control_inside")
    return {"name": tool.name, **fields, **_inside(tool), **({"cache_control": control} if control else {})}


def _inside(tool: Tool) -> dict[str, Any]:
    return {key: value for key, value in kept(native_of(tool, NAME)).items() if key != "beside"}


def _present(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def decode_choice(body: Reader) -> ToolChoice | None:
    value = body.take("tool_choice")
    if value is not None:
        return _decode_choice(value, body.at("tool_choice"))
    legacy = body.take("function_call")
    if legacy is None:
        return None
    if isinstance(legacy, dict) and isinstance(legacy.get("name"), str):
        return ToolChoice(mode="required", names=(legacy["name"],), native={NAME: {"$legacy": True}})
    if legacy in ("auto", "none"):
        return ToolChoice(mode=legacy, native={NAME: {"$legacy": True}})
    raise expected(body.at("function_call"), '"auto", "none" or an object with a name', legacy)


def _decode_choice(value: Any, where: str) -> ToolChoice:
    if isinstance(value, str):
        mode = _WORDS.get(value)
        if mode is None:
            return ToolChoice(mode="opaque", native={NAME: {"choice": value}})
        return ToolChoice(mode=mode, native={NAME: {"$choice": value}} if value != mode else {})
    if not isinstance(value, dict):
        raise expected(where, "a string or an object", value)
    kind = value.get("type") or implied_type(Reader(value, where), _TYPED_BY)
    inner = value.get(kind) if isinstance(kind, str) else None
    if kind == "function" and inner is None:  # the form of the Responses API
        inner = value
    if kind in ("function", "custom") and isinstance(inner, dict) and isinstance(inner.get("name"), str):
        return ToolChoice(mode="required", names=(inner["name"],), native={NAME: {"$choice": value}})
    if kind == "allowed_tools" and isinstance(inner, dict) and inner.get("mode") in ("auto", "required"):
        names = _allowed_names(inner.get("tools"))
        if names is not None:
            return ToolChoice(mode=inner["mode"], names=names, native={NAME: {"$choice": value}})
    return ToolChoice(mode="opaque", native={NAME: {"choice": value}})


def _allowed_names(tools: Any) -> tuple[str, ...] | None:
    """The names in an allowed subset; None when an entry is not a plain function or custom tool."""
    names: list[str] = []
    for tool in tools if isinstance(tools, list) else ():
        inner = tool.get(tool.get("type")) if isinstance(tool, dict) and isinstance(tool.get("type"), str) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            return None
        names.append(inner["name"])
    return tuple(names) if names else None


def encode_choice(request: Request, receipt: Receipt) -> dict[str, Any]:
    choice = request.tool_choice
    if choice is None:
        return {}
    own = native_of(choice, NAME)
    if own.get("$legacy"):
        return {"function_call": {"name": choice.names[0]} if choice.names else choice.mode}
    if choice.mode == "opaque":
        if "choice" in own:
            return {"tool_choice": own["choice"]}
        receipt.loss("tool_choice", "a hosted tool", "Chat Completions cannot choose it")
        return {}
    # The wire form that came is written again only while it still says the same.
    if "$choice" in own and _says_the_same(_decode_choice(own["$choice"], ""), choice):
        return {"tool_choice": own["$choice"]}
    if not choice.names:
        return {"tool_choice": choice.mode}
    custom = {tool.name for tool in request.tools if isinstance(tool, Tool) and tool.kind == "custom"}
    named = [_named("custom" if name in custom else "function", name) for name in choice.names]
    if choice.mode == "required" and len(named) == 1:
        return {"tool_choice": named[0]}
    return {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}}


def _says_the_same(first: ToolChoice, second: ToolChoice) -> bool:
    return (first.mode, first.names) == (second.mode, second.names)


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, kind: {"name": name}}
