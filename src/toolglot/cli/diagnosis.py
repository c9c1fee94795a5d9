"""Explain the problem with an input.

The core reports where a document violates its dialect's rules. A person at the command line has more often given the
wrong file: an empty one, a stream instead of a response, another API's request. That is detected here.
"""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from toolglot.dialects import DIALECTS
from toolglot.export.recognize import marks_by_dialect, marks_of
from toolglot.lint.report import visible
from toolglot.marks import marks_in, nearest
from toolglot.wire.framing import EVENTS, LINES, Framing

BYTE_ORDER_MARK = codecs.BOM_UTF8
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"{\0", b"\0{", b"[\0", b"\0[")
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
EMPTY = "the input is empty"
_SHOWN = 20
"""Characters of the beginning to show."""

_DEPTH = 4
"""Maximum depth of the search for marks."""

_MCP: dict[str, frozenset[str]] = {
    "tools": frozenset({"[].inputSchema", "tools[].inputSchema", "result.tools[].inputSchema", "jsonrpc"}),
    "result": frozenset({"jsonrpc", "structuredContent", "isError", "result.content", "content[].mimeType"}),
}
"""MCP is not a dialect; its tools and results occur where a dialect's are expected."""


def marks_of_kind(kind: str) -> dict[str, frozenset[str]]:
    """Return the marks of each dialect, and of MCP, for this kind of input."""
    mcp = {"mcp": _MCP[kind]} if kind in _MCP else {}
    return {**marks_by_dialect(kind), **mcp}


def not_a_document(data: bytes, kind: str) -> str | None:
    """Return why these bytes are not a JSON document, if the reason is visible without parsing the members."""
    if not data.strip():
        return EMPTY
    if data.startswith(_UTF_16):
        return "this is UTF-16; JSON must be UTF-8"
    if data.lstrip()[:1] in (b"{", b"[") or _is_json(data):
        return None
    told = f"not JSON: it begins with {_beginning(data)}"
    return f"{told}; is it a stream? --kind stream" if kind in ("request", "response") and is_stream(data) else told


def not_a_stream(head: bytes, dialect: str) -> str | None:
    """Return why these first bytes of an input are not a stream of events."""
    if not head.strip():
        return EMPTY
    if head.startswith(_UTF_16[:2]):
        return "this is UTF-16; a stream must be UTF-8"
    framing = DIALECTS[dialect].stream.framing
    is_array = framing.can_be_array and head.lstrip().startswith(b"[")
    if is_array or (framing.is_bare and head.lstrip().startswith(b"{")):
        return None
    if not framing.is_bare and any(line.startswith(b"data:") for line in head.splitlines()):
        return None
    return no_event(dialect)


def no_event(dialect: str) -> str:
    return f"no {DIALECTS[dialect].stream.framing.noun} in it"


def not_this_stream(head: bytes, dialect: str, *, spoilt: bool = False) -> str | None:
    """Describe an input that is not a stream of this dialect; None if it is one. A comment may precede the first event
    by far.
    """
    other = other_dialect(first_event(head, EVENTS if is_stream(head) else LINES), "stream", dialect)
    begins = is_stream(head) and not DIALECTS[dialect].stream.framing.is_bare
    if (spoilt or not begins) and (why := not_a_stream(head, dialect)):
        is_other = other is not None and (is_stream(head) or DIALECTS[other].stream.framing.is_bare)
        return f"this looks like {other}, not {dialect}" if is_other else why
    return f"this looks like {other}, not {dialect}" if other else None


def first_event(head: bytes, framing: Framing = EVENTS) -> Any:
    """Return the data of the first event in these bytes, as JSON; None if there is none."""
    end = framing.end_of_frames(bytearray(head), 0)
    for _, data in framing.documents(head[:end]):
        return json_or_none(data)
    return None


def other_dialect(value: Any, kind: str, dialect: str) -> str | None:
    """Return another dialect whose marks the document has, if it has none of the expected dialect's."""
    found = set(marks_in(value, _DEPTH))
    marks = marks_of_kind(kind)
    own = marks.get(dialect, frozenset()) | marks_of(dialect).shared.get(kind, frozenset())
    return None if found & own else nearest(found, marks)


def json_or_none(data: bytes) -> Any:
    """Return the value of a JSON document; None if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_json(data: bytes) -> bool:
    return data.strip() == b"null" or json_or_none(data) is not None


def is_stream(data: bytes) -> bool:
    """Return whether it begins like a stream of events."""
    return data.lstrip().startswith(_FIELDS)


def _beginning(data: bytes) -> str:
    line = data.lstrip().splitlines()[0].decode("utf-8", "backslashreplace").rstrip()
    return f"'{visible(line[:_SHOWN])}{'…' if len(line) > _SHOWN else ''}'"
