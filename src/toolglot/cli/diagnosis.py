"""What is wrong with an input, in the words of whoever gave it.

The core tells where a document breaks its dialect's rules. A person at the command line has more often given another
file than they meant: an empty one, a stream where a response should be, another API's request. That is told here.
"""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from toolglot.export.recognise import Marks, marks_in, nearest
from toolglot.lint.report import visible
from toolglot.wire.sse import SseReader

BYTE_ORDER_MARK = codecs.BOM_UTF8
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"{\0", b"\0{", b"[\0", b"\0[")
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
EMPTY = "the input is empty"
NO_EVENT = "no server-sent event in it"
_SHOWN = 20
"""Characters of the beginning that are shown."""

_DEPTH = 4
"""Objects one in the other: so deep do marks go."""

# Members that one dialect has and the others do not.
_REQUEST: Marks = {
    "openai_chat": frozenset(
        {
            "messages[].tool_calls",
            "messages[].tool_call_id",
            "messages[].function_call",
            "messages[].role=system",
            "messages[].role=developer",
            "messages[].role=tool",
            "messages[].content[].image_url",
            "tools[].function",
            "functions",
            "max_completion_tokens",
            "response_format",
            "stream_options",
        }
    ),
    "openai_responses": frozenset({"input", "instructions", "previous_response_id", "tools[].parameters"}),
    "anthropic": frozenset(
        {
            "system",
            "stop_sequences",
            "tools[].input_schema",
            "messages[].content[].type=tool_use",
            "messages[].content[].type=tool_result",
            "messages[].content[].source",
        }
    ),
    "gemini": frozenset(
        {
            "contents",
            "systemInstruction",
            "system_instruction",
            "generationConfig",
            "generation_config",
            "tools[].functionDeclarations",
            "tools[].function_declarations",
        }
    ),
}
_RESPONSE: Marks = {
    "openai_chat": frozenset({"choices", "object=chat.completion"}),
    "openai_responses": frozenset({"output", "object=response"}),
    "anthropic": frozenset({"stop_reason", "type=message", "content[].type=tool_use"}),
    "gemini": frozenset({"candidates", "promptFeedback", "usageMetadata"}),
}
_TOOLS: Marks = {
    "openai_chat": frozenset({"[].function", "tools[].function"}),
    "openai_responses": frozenset({"[].parameters", "tools[].parameters"}),
    "anthropic": frozenset({"[].input_schema", "tools[].input_schema"}),
    "gemini": frozenset(
        {
            "[].functionDeclarations",
            "[].function_declarations",
            "tools[].functionDeclarations",
            "tools[].function_declarations",
        }
    ),
    "mcp": frozenset({"[].inputSchema", "tools[].inputSchema", "result.tools[].inputSchema", "jsonrpc"}),
}
_MESSAGES: Marks = {
    # System messages are no mark: Responses and Anthropic's later models have them in the history too.
    "openai_chat": frozenset(
        {"[].tool_calls", "[].tool_call_id", "[].function_call", "[].role=tool", "[].content[].image_url.url"}
        | {mark for mark in _REQUEST["openai_chat"] if mark.startswith("messages")} - {"messages[].role=system"}
    ),
    "openai_responses": frozenset({"input", "[].call_id", "[].content[].type=input_text", "[].type=message"}),
    "anthropic": frozenset(
        {"system", "[].content[].type=tool_use", "[].content[].type=tool_result", "[].content[].source"}
        | {mark for mark in _REQUEST["anthropic"] if mark.startswith("messages")}
    ),
    "gemini": frozenset({"contents", "[].parts"}),
}
_RESULT: Marks = {
    "openai_chat": frozenset({"tool_call_id", "[].tool_call_id", "role=tool", "[].role=tool", "messages[].role=tool"}),
    "openai_responses": frozenset({"type=function_call_output", "[].type=function_call_output", "input[].call_id"}),
    "anthropic": frozenset(
        {
            "type=tool_result",
            "[].type=tool_result",
            "content[].type=tool_result",
            "[].content[].type=tool_result",
            "messages[].content[].type=tool_result",
        }
    ),
    "gemini": frozenset({"parts", "[].parts", "functionResponse", "[].functionResponse", "contents"}),
    "mcp": frozenset({"jsonrpc", "structuredContent", "isError", "result.content", "content[].mimeType"}),
}
_ERROR: Marks = {
    "openai_chat": frozenset({"error.param"}),
    "openai_responses": frozenset({"error.param"}),
    "anthropic": frozenset({"type=error"}),
    "gemini": frozenset({"error.status"}),
}
_EVENT: Marks = {
    "openai_chat": frozenset({"choices", "object=chat.completion.chunk"}),
    "openai_responses": frozenset({"sequence_number", "response.object=response"}),
    "anthropic": frozenset({"type=message_start", "message.type=message"}),
    "gemini": frozenset({"candidates", "usageMetadata"}),
}

MARKS: dict[str, Marks] = {
    "request": _REQUEST,
    "response": _RESPONSE,
    "tools": _TOOLS,
    "messages": _MESSAGES,
    "result": _RESULT,
    "error": _ERROR,
    "stream": _EVENT,
}
"""For each kind of input the telling marks of each dialect."""
_SHARED: dict[str, Marks] = {"tools": {"warp": _TOOLS["anthropic"]}, "result": {"warp": _RESULT["openai_chat"]}}
"""Marks of a dialect that are no proof of it: another one has them too."""


def not_a_document(data: bytes, kind: str) -> str | None:
    """Why these bytes are no JSON document at all, when one need not look at its members to see that."""
    if not data.strip():
        return EMPTY
    if data.startswith(_UTF_16):
        return "this is UTF-16; JSON must be UTF-8"
    if data.lstrip()[:1] in (b"{", b"[") or _is_json(data):
        return None
    told = f"not JSON: it begins with {_beginning(data)}"
    return f"{told}; is it a stream? --kind stream" if kind in ("request", "response") and is_stream(data) else told


def not_a_stream(head: bytes, dialect: str) -> str | None:
    """Why these first bytes of an input are no stream of events."""
    if not head.strip():
        return EMPTY
    if head.startswith(_UTF_16[:2]):
        return "this is UTF-16; a stream must be UTF-8"
    array = dialect == "gemini" and head.lstrip().startswith(b"[")  # its other way to stream
    if array or any(line.startswith(b"data:") for line in head.splitlines()):
        return None
    return NO_EVENT


def not_this_stream(head: bytes, dialect: str, *, spoilt: bool = False) -> str | None:
    """What an input is, when it is not a stream of this dialect. A comment may come long before the first event."""
    if (spoilt or not is_stream(head)) and (why := not_a_stream(head, dialect)):
        return why
    other = other_dialect(first_event(head), "stream", dialect)
    return f"this looks like {other}, not {dialect}" if other else None


def first_event(head: bytes) -> Any:
    """The data of the first event in these bytes, as JSON; None when there is none."""
    for _, data in SseReader().feed(head):
        return json_or_none(data)
    return None


def other_dialect(value: Any, kind: str, dialect: str) -> str | None:
    """The dialect that this document seems to be of, when it bears that one's marks and none of its own."""
    found = set(marks_in(value, _DEPTH))
    own = MARKS[kind].get(dialect, frozenset()) | _SHARED.get(kind, {}).get(dialect, frozenset())
    return None if found & own else nearest(found, MARKS[kind])


def json_or_none(data: bytes) -> Any:
    """The value of a JSON document, however strange; None when it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_json(data: bytes) -> bool:
    return data.strip() == b"null" or json_or_none(data) is not None


def is_stream(data: bytes) -> bool:
    """Does it begin as a stream of events does?"""
    return data.lstrip().startswith(_FIELDS)


def _beginning(data: bytes) -> str:
    line = data.lstrip().splitlines()[0].decode("utf-8", "backslashreplace").rstrip()
    return f"'{visible(line[:_SHOWN])}{'…' if len(line) > _SHOWN else ''}'"
