"""What is plain: a conversation of texts, calls and results, and an answer of text and calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct, UnsetType

from toolglot.ir import StopReason, Usage
from toolglot.receipt import Loss

T = TypeVar("T")

Words: TypeAlias = str | list[str]
"""One text, or several that stand beside each other."""


class PlainCall(Struct, gc=False):
    """`arguments` is the JSON text of an object, as it stood on the wire."""

    id: str
    name: str
    arguments: str


class Thought(Struct, gc=False):
    """Reasoning before an assistant's words and calls. `signature` is what its client keeps for its vendor; `state` is
    what we have put there for the upstream, None where it is not from us."""

    text: str
    signature: str
    state: Mapping[str, Any] | None = None


class Turn(Struct, gc=False):
    """A user's words, an assistant's words and calls, or (`tool`) the result of one call; `system` and `developer`
    stand before them all, or where their client has put them. `number` and `block` tell where it stands in the client's
    request."""

    role: str
    words: Words
    number: int = 0
    calls: Sequence[PlainCall] = ()
    thought: Thought | None = None
    breakpoints: Mapping[int, int | None] | None = None
    """The texts that have a breakpoint of the prompt cache, each with its lifetime in seconds if that is told."""
    call_id: str = ""
    block: int = 0
    failed: bool = False
    """A result that is an error."""
    cached: bool = False
    """A result that has a breakpoint."""
    configured: bool = False
    """System text that has settings beside it."""
    moved: bool = False
    """The first of results that did not stand in the order of their calls."""


class PlainRequest(Struct, gc=False):
    """A request, read. `settings` are all of its other members as they stood there, in the order of the dialect's own
    list of them, empty where there is none. No member of it stands twice, but for what is inside of a setting."""

    model: str
    stream: bool | UnsetType
    settings: tuple[Raw, ...]
    turns: list[Turn]
    system: list[Turn]
    """What stands before the user's first words."""
    own: bool = False
    """It holds more than this record tells, and only an upstream of its own dialect can have it, as it stands."""


class PlainAnswer(Struct, gc=False):
    """A whole answer, read."""

    id: str
    model: str
    created: int | None
    text: str
    calls: Sequence[PlainCall]
    stop: StopReason
    usage: Usage | None
    whole: bool = True
    """False: it holds more than this record tells, and only its own dialect's clients can have it, as it stands."""
    service_tier: str | None = None
    """The tier that served the request."""
    members: tuple[str, ...] = ()
    """The names of other members, which no other dialect has."""
    lines: tuple[Loss, ...] = ()
    """What the receipt says of it."""


class Way(Struct, frozen=True):
    """How a conversation is written, where models of one dialect differ."""

    reasoning: str = ""
    """How reasoning is given back; empty for not at all."""
    developer: bool = False
    """There are developer messages beside those of the system."""
    cached: bool = False
    """There are breakpoints of the prompt cache, on texts."""


class Direct(Struct, frozen=True, kw_only=True):
    """The direct way of one dialect, both sides of it. The readers give None for what is not plain."""

    settings: tuple[str, ...]
    """The members of a request that are settings."""
    read_request: Callable[[bytes], PlainRequest | None] | None = None
    """None: its clients go the general way."""
    read_messages: Callable[[bytes, PlainRequest], PlainRequest | None] | None = None
    """Reads the bytes of a request's messages; all else is as in this one."""
    write_conversation: Callable[[Sequence[Turn], Sequence[Turn], Way], tuple[bytes, ...]]
    """The members of a request that hold the system's turns and the others, in their order on the wire."""
    ways: tuple[Way, ...] = (Way(),)
    """The ways of its models."""
    as_client: Way = Way()
    """The way of its clients."""
    read_answer: Callable[[bytes], PlainAnswer | None]
    write_answer: Callable[[PlainAnswer], bytes] | None = None


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""What reading bytes may raise, and writing again what was read."""
NESTED = 300
"""So many brackets may be nested deeper than the general way can read from where it is called."""


_ESCAPE = re.compile(rb"\\u003[aA]")


def has_all(written: bytes, data: bytes) -> bool:
    """Does what was read of a document, written again, have every member of it? One that stands there twice is read
    once. Most servers write documents as we do; of others the colons are counted."""
    return written == data or _has_colons(written, data)


def texts_of(decode: Callable[[bytes], T], data: bytes) -> T | None:
    """What is read of a document of texts, and of values that are kept as they stand there; None if it cannot be, or if
    that does not have every member. Nobody writes these shorter than we do (but numbers: 1e9), so where no byte is
    missing no member is, in whatever order they stand."""
    try:
        value = decode(data)
        written = _encode(value)
    except UNREADABLE:
        return None
    return value if len(written) == len(data) or _has_colons(written, data) else None


def _has_colons(written: bytes, data: bytes) -> bool:
    if b"\\" in data and _ESCAPE.search(data) is not None:
        return False  # a colon that is written as an escape would be counted in one of them
    return _colons(written) == _colons(data)


def _colons(data: bytes) -> int:
    """How many there are: twice as fast as `count`."""
    return len(data) - len(data.replace(b":", b""))


def object_text(raw: Raw | bytes) -> str | None:
    """The text of a JSON object as it is written; None if it is none, or if a member may stand in it twice."""
    data = bytes(raw)
    try:
        value: Any = _decode(data)
        written = _encode(value)
    except UNREADABLE:
        return None
    if type(value) is not dict or not has_all(written, data):
        return None
    return data.decode() if len(data) < NESTED or _is_flat(data) else None


def is_object(text: str) -> bool:
    """Is this the JSON text of an object that has no key twice?"""
    try:
        value = _decode(text)
        found = type(value) is dict and text.count(":") == _encode(value).count(b":")
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False
    return found and (len(text) < NESTED or _is_flat(text.encode()))


def _is_flat(data: bytes) -> bool:
    """Is this nested less deep than would matter? Few objects have so many brackets, in their texts or around them."""
    if len(data) < NESTED or data.count(b"{") + data.count(b"[") < NESTED:
        return True
    try:
        _decode(b"[" * NESTED + data + b"]" * NESTED)
    except RecursionError:
        return False
    return True


def spliced(arguments: str) -> Raw:
    """The text of an object as a part of a document, on one line."""
    if "\n" in arguments or "\r" in arguments:
        return Raw(msgspec.json.format(arguments, indent=-1))
    return Raw(arguments)


_ERROR = "Error: "


def marked(words: Words) -> Words:
    """A result that is an error, where the wire has no field for it: its first text says so."""
    if isinstance(words, str):
        return words if words.startswith(_ERROR) else _ERROR + words if words else _ERROR.strip()
    return words if words[0].startswith(_ERROR) else [_ERROR + words[0], *words[1:]]


def is_blank(words: Words) -> bool:
    """Is a text of these empty, or nothing but spaces? Not every upstream takes that."""
    if type(words) is str:
        return not words or words.isspace()
    return not words or any(not text or text.isspace() for text in words)


def with_settings(body: type[Struct], names: Sequence[str]) -> type[Struct]:
    """The type of a request with these members too, each kept as it stands there."""
    fields: list[tuple[str, type, Raw]] = [(name, Raw, Raw(b"")) for name in names]
    return msgspec.defstruct(
        f"{body.__name__}WithSettings", fields, bases=(body,), forbid_unknown_fields=True, omit_defaults=True, gc=False
    )
