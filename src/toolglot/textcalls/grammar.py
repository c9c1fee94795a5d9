"""The records that describe how a model writes its tool calls as text.

A `Format` is data: `engine.py` reads any of them. Its parts:

- a `CallSyntax` is one way to write a call: a `Header` that opens it and may name the tool, then a body of one kind;
- sections are marks around calls, dropped if a call follows them and kept as text otherwise;
- thinking marks separate reasoning from the answer; dropped marks have no meaning for a reader.

Body kinds:

    envelope   a JSON object (or an array of them) with both the name and the arguments
    json       the header names the tool, the body is the JSON object of its arguments
    tagged     the header names the tool, the body has one tag per parameter, its value as raw text
    python     a list of Python calls with literals: [f(a=1), g()]
    braces     the header names the tool, the body has unquoted keys and special marks around strings
    empty      the header is the whole call, which has no arguments: <now/>
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

BodyKind = Literal["envelope", "json", "tagged", "python", "braces", "empty"]
Spacing = Literal[
    "exact",  # the value is the text between the tags
    "lines",  # one line break on each side belongs to the markup
    "trim",  # white space on both sides belongs to the markup
    "cline",  # one line break on each side for `content`-like values, white space for all others
]
Untyped = Literal[
    "string",  # a value without a type in the schema is a string
    "json",  # it is JSON if it parses as JSON, else a string
]


class Header(Struct, frozen=True):
    """The start of a call or a parameter: one of `openers`, then text of the given `shape` up to one of `ends`.

    `shape` is a regular expression for all of that text, with the groups `name`, `id`, `key` or `type`. Text that is
    longer than `limit`, or has a character that `allowed` (a character class) does not match, is not a header.
    `keeps_end`: the end of the header belongs to what follows; `keeps_opener`: so does its opener.
    """

    openers: tuple[str, ...]
    ends: tuple[str, ...] = ()
    shape: str = ""
    allowed: str = r"[^\n]"
    limit: int = 300
    keeps_end: bool = False
    keeps_opener: bool = False


class Parameter(Struct, frozen=True):
    """A parameter of a tagged body.

    `closers` may contain `{key}`. `cdata`: a value may be wrapped in CDATA. `nested` is the tag prefix of a value that
    has child elements. `implied`: a parameter that begins on its own line ends the one before it, if the schema
    declares it. `json_values`: values are JSON, including strings. `declared_only`: the key is not a sure sign, so it
    counts only if the schema declares it (or declares none).
    """

    header: Header
    closers: tuple[str, ...]
    spacing: Spacing = "exact"
    untyped: Untyped = "string"
    cdata: bool = False
    nested: str = ""
    implied: bool = False
    json_values: bool = False
    declared_only: bool = False


class CallSyntax(Struct, frozen=True, kw_only=True):
    """One way to write a call.

    - `closers` end it; without any it ends where its JSON does. `stops` end text that has no end of its own, and are
      left to what follows.
    - `weak`: its opener is not a sure sign, so it counts only with the name of a declared tool. `line_start`: it counts
      only at the beginning of a line. `whole`: it counts only if nothing but white space and reasoning came before it
      in the answer. `first` are the characters that the body may begin with; empty: any.
    - `name_keys`, `argument_keys`, `id_keys` are the keys of an envelope; with one of `refused_keys` it is no call;
      `keyed`: it is `{name: arguments}`.
    - `tool_tags`: the tools' names are the tags, and `{name}` is replaced by them in the openers and closers.
    - `bare_string`: a body that is not JSON is the value of the tool's only string parameter.
    - `quotes` are the marks around the strings of a `braces` body.
    """

    header: Header
    body: BodyKind
    closers: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    weak: bool = False
    line_start: bool = False
    whole: bool = False
    first: str = "{[`"
    name_keys: tuple[str, ...] = ("name", "tool_name", "function", "tool")
    argument_keys: tuple[str, ...] = ("arguments", "parameters", "args", "input", "params", "kwargs")
    id_keys: tuple[str, ...] = ("id", "tool_call_id", "call_id")
    refused_keys: tuple[str, ...] = ()
    keyed: bool = False
    tool_tags: bool = False
    bare_string: bool = False
    parameter: Parameter | None = None
    quotes: tuple[str, ...] = ()


class MessageRoute(Struct, frozen=True):
    """The meaning of a message's header for its body: the first route whose `shape` is found in the header wins."""

    shape: str
    to: Literal["text", "reasoning", "call", "calls"]


class Messages(Struct, frozen=True):
    """An answer that consists of messages with headers, as gpt-oss writes them.

    A header begins with one of `openers`, or with the answer itself if that begins with one of `at_start`, and extends
    to one of `ends`. A body extends to one of `closers` or the next opener. A route to `call` has the group `name`; its
    body is read as the format's first call.
    """

    openers: tuple[str, ...]
    ends: tuple[str, ...]
    closers: tuple[str, ...]
    routes: tuple[MessageRoute, ...]
    at_start: tuple[str, ...] = ()


class Format(Struct, frozen=True, kw_only=True):
    """A way to write tool calls as text. `aliases` are other common names for it."""

    name: str
    title: str
    calls: tuple[CallSyntax, ...]
    sections: tuple[tuple[str, str], ...] = ()
    thinking: tuple[tuple[str, str], ...] = (("<think>", "</think>"),)
    dropped: tuple[str, ...] = ()
    messages: Messages | None = None
    aliases: tuple[str, ...] = ()
