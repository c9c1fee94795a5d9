"""The conversation in what somebody has: a request, messages, JSON lines of messages, recorded exchanges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw, Struct

from toolglot.dialect import Dialect
from toolglot.dialects import DIALECTS, STORED, find
from toolglot.errors import DecodeError, MissingExtraError, UnknownDialectError
from toolglot.export.answers import answer_in
from toolglot.export.jsonl import message_of
from toolglot.export.lines import lines_of
from toolglot.export.recognise import UNMARKED, dialect_of_body, dialect_of_message, dialect_of_messages
from toolglot.export.trails import Trail, last_of
from toolglot.fragment_forms import form_of, members
from toolglot.ir import Block, Media, Message, Request, Text, Thinking, ToolCall, ToolResult, native_of
from toolglot.json_forms import JSON_FORMS
from toolglot.receipt import Loss
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.volatile_text import normalize_volatile
from toolglot.wire import json

LOOKED_AT = 1024 * 1024
"""Bytes of lines that are read in search of a mark of their dialect."""
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Bytes that no JSON document has, and every request in protobuf: the tags and the lengths of its members."""
_TEXTUAL = (b"{", b"[", b" ", b"\t", b"\r")
"""How JSON begins and such a request does not: both may begin with a line feed."""
EXPECTED = "a request's body, an array of messages, JSON lines of messages or a recorded exchange are expected"
_INSTRUCTING = ("system", "developer")
FIRST_WORDS = 400
"""Characters that are kept of those of each conversation."""
HELD_ELSEWHERE = ("previous_response_id", "conversation")
"""Members of a request that say: what went before is kept by the server."""


class About(Struct, frozen=True):
    """What tells a conversation from others."""

    model: str
    messages: int
    begins: str
    """The first words of whoever asked."""


class Conversation(Struct, kw_only=True):
    """`messages` are read while they are used, so they can be used once. `lines` are about what is not in them."""

    dialect: str
    messages: Iterable[Message]
    lines: list[Loss] = []
    name: str = ""
    """Of recordings: its last exchange."""
    all: tuple[str, ...] = ()
    """The last exchanges of all conversations among them, in the order of time. A branch is a conversation."""
    about: Mapping[str, About] = {}
    """What is told of the conversation that ends with an exchange."""


def read_conversation(chunks: Iterable[bytes], dialect: str | None = None) -> Conversation:
    """The conversation in these bytes. A JSON document is read whole, JSON lines are read as they are used.

    Raises:
        DecodeError: there is none in it, or it is not in the dialect; also while messages are used.
        UnknownDialectError, MissingExtraError: there is no such dialect, or a package is missing for it.
    """
    chunks = iter(chunks)
    head = next(chunks, b"")
    chunks = chain((head,), chunks)
    if not head.startswith(_TEXTUAL) and _CONTROLS.search(head):
        return _binary(b"".join(_bounded(chunks)), dialect)
    lines = (line for line in lines_of(chunks) if line.strip())
    first = next(lines, None)
    if first is None:
        raise DecodeError("$", "there is nothing in it")
    if not _is_object(first):
        return _document(b"\n".join(_bounded(chain((first,), lines))), dialect)
    if is_recording(first):
        if dialect is not None:
            raise DecodeError("$", "a recorded exchange tells its dialect itself, and cannot be read in another")
        return conversation_of([("", read_recording(chain((first,), lines)))])
    second = next(lines, None)
    if second is None:
        return _document(first, dialect)
    return _lines(chain((first, second), lines), dialect)


def _binary(data: bytes, dialect: str | None) -> Conversation:
    """A request of a dialect whose wire is no text."""
    if dialect is not None and dialect not in JSON_FORMS:
        raise DecodeError("$", f"this is no text, and {dialect} is JSON")
    problem = "this is no text"
    for name in JSON_FORMS if dialect is None else (dialect,):
        title = DIALECTS[name].title
        try:
            client = find(name)
            return Conversation(dialect=client.name, messages=client.decode_request(data).messages)
        except MissingExtraError as error:
            if dialect is not None:
                raise
            problem = f"this is no text; if it is a request of {title}: {error}"
        except DecodeError as error:
            problem = f"this is neither JSON nor a request of {title}: {error}"
    raise DecodeError("$", problem)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def is_recording(line: bytes) -> bool:
    """Is this the first line of a recorded exchange?"""
    value = json.decode_frame(line)
    return isinstance(value, dict) and value.get("type") == "exchange" and "version" in value


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece) + 1
        if size > json.MAX_DOCUMENT_BYTES:
            why = f"the document has more than {json.MAX_DOCUMENT_BYTES} bytes; give a long conversation as JSON lines"
            raise DecodeError("$", why)
        yield piece


def _document(data: bytes, dialect: str | None) -> Conversation:
    """A request's body, an array of messages, or one message."""
    if not data.lstrip().startswith((b"{", b"[")):
        raise DecodeError("$", f"this is no JSON object or array; {EXPECTED}")
    value = json.decode(data)
    if isinstance(value, list):
        client = find(dialect or dialect_of_messages(value) or _unmarked(*value[:1]))
        return Conversation(
            dialect=client.name, messages=_decoded(client, {client.request.history_key: Raw(data)}).messages
        )
    dialect = dialect or dialect_of_body(value) or dialect_of_message(value)
    client = find(dialect or (UNMARKED if form_of(find(UNMARKED)).history[0] in value else _unmarked(value)))
    form = form_of(client)
    if not value.keys() & {*form.history, *HELD_ELSEWHERE}:
        return Conversation(dialect=client.name, messages=message_of(data, 1, client))
    asked = _decoded(client, _conversational(data, client))
    return Conversation(dialect=client.name, messages=asked.messages, lines=_before(asked))


def _unmarked(*first: Any) -> str:
    """The dialect of messages in which nothing tells it, of which this is the first one."""
    if not all(isinstance(message, dict) and "role" in message for message in first):
        raise DecodeError("$", f"this is no conversation in any dialect that is known; {EXPECTED}")
    return UNMARKED


def _conversational(data: bytes, client: Dialect) -> dict[str, Raw]:
    """The members of a body that hold the conversation; its settings are no part of it."""
    given = json.typed(data, members)
    plain = {name.replace("_", "").lower(): name for name in (*form_of(client).history, *HELD_ELSEWHERE)}
    found = {known: raw for name, raw in given.items() if (known := plain.get(name.replace("_", "").lower()))}
    return found if form_of(client).history[0] in found else {**found, **_no_history(client, found)}


def _no_history(client: Dialect, found: dict[str, Raw]) -> dict[str, Raw]:
    needs = client.request.history_key == form_of(client).history[0] and not found.keys() & {*HELD_ELSEWHERE}
    return {client.request.history_key: Raw(b"[]")} if needs else {}


def _decoded(client: Dialect, body: dict[str, Any]) -> Request:
    try:
        return client.decode_request(form_of(client).write(body))
    except RecursionError:
        raise DecodeError("$", json.TOO_DEEP) from None


def _before(asked: Request) -> list[Loss]:
    held = [name for name in HELD_ELSEWHERE if native_of(asked, STORED).get(name)]
    return [Loss(name, "what was said before", "the request names it, and its server keeps it") for name in held]


def _lines(lines: Iterator[bytes], dialect: str | None) -> Conversation:
    begun: list[bytes] = []
    if dialect is None:
        dialect, begun = _recognised(lines)
    client = find(dialect)
    return Conversation(dialect=client.name, messages=_each(chain(begun, lines), client))


def _recognised(lines: Iterator[bytes]) -> tuple[str, list[bytes]]:
    """The dialect of the lines, and those that had to be read to know it."""
    begun: list[bytes] = []
    size = 0
    for line in lines:
        begun.append(line)
        size += len(line)
        if (found := dialect_of_message(_value(line))) is not None:
            return found, begun
        if size > LOOKED_AT:
            break
    return _unmarked(_value(begun[0])), begun


def _value(line: bytes) -> Any:
    try:
        return json.decode_frame(line)
    except DecodeError:
        return None  # it will be told where the line is read


def _each(lines: Iterable[bytes], client: Dialect) -> Iterator[Message]:
    form = form_of(client)
    for number, line in enumerate(lines, 1):
        if form.history[0] != client.request.history_key:  # a whole conversation
            yield from _decoded(client, _conversational(line, client)).messages
        else:
            yield from message_of(line, number, client)


def conversation_of(recordings: Iterable[tuple[str, Recording]], wanted: str | None = None) -> Conversation:
    """The longest conversation in these recordings (name and value, in the order of time), or the one whose exchange
    `wanted` names: the request and the answer to it.

    Raises:
        DecodeError: there is none that can be read.
    """
    best: _Told | None = None
    trails: list[Trail] = []
    about: dict[str, About] = {}
    answered: dict[str, tuple[Message, ...]] = {}
    unread: list[Loss] = []
    for name, recording in recordings:
        try:
            told = _told(recording, answered)
        except (DecodeError, UnknownDialectError) as error:
            cut = recording.end.cut if recording.end is not None and not recording.attempts else None
            why = f"its request cannot be read: {error}" if cut is None else f"the recording is cut: {cut}"
            unread.append(Loss(name or "$", "a recorded exchange", why))
            continue
        trails.append(Trail(len(trails), name, told.asked, told.marks, told.system, told.whole))
        about[name] = _about(recording.head.model, told.messages)
        if name == wanted if wanted is not None else best is None or told.extent >= best.extent:
            best, told.name = told, name
    if best is None:
        raise DecodeError("$", unread[0].why if unread else "there is no recorded exchange in it")
    return Conversation(
        dialect=best.dialect,
        messages=best.messages,
        lines=best.lines + unread,
        name=best.name,
        all=last_of(trails),
        about=about,
    )


def _about(model: str, messages: Iterable[Message]) -> About:
    said = [message for message in messages if message.role not in _INSTRUCTING]
    texts = (block.text for message in said for block in message.content if isinstance(block, Text))
    return About(model, len(said), " ".join(next(texts, "")[:FIRST_WORDS].split()))


class _Told(Struct, kw_only=True):
    """What one recording tells: all that was said, and short marks of it to compare by."""

    name: str = ""
    dialect: str
    messages: tuple[Message, ...]
    marks: tuple[bytes, ...]
    asked: tuple[bytes, ...]
    """The marks of what the client sent."""
    system: bytes = b""
    """A mark of the instructions, but for dates and the like."""
    whole: bytes = b""
    """A mark of all of it, what the others leave out too."""
    size: int = 0
    """Characters of that."""
    lines: list[Loss]

    @property
    def extent(self) -> tuple[int, int]:
        """Of two that tell the same, the richer one is taken."""
        return len(self.marks), self.size


def _told(recording: Recording, answered: dict[str, tuple[Message, ...]]) -> _Told:
    client = find(recording.head.client)
    try:
        asked = client.decode_request(recording.request.data)
    except RecursionError:
        raise DecodeError("$", json.TOO_DEEP) from None
    lines = _before(asked)
    messages = asked.messages
    before = native_of(asked, STORED).get("previous_response_id")
    if isinstance(before, str) and before in answered:
        messages, lines = (*answered[before], *_without_instructions(messages)), []
    answer = answer_in(recording, client, asked)
    if answer.missing is not None:
        lines.append(Loss("answer", "the answer is not whole" if answer.response else "no answer", answer.missing))
    marks = tuple(_marks(messages))
    if answer.response is not None:
        messages = (*messages, Message(role="assistant", content=answer.response.content))
        if answer.response.id and client.request.history_key == "input":
            answered[answer.response.id] = messages
    whole, size = _whole(messages)
    told = tuple(_marks(messages))
    return _Told(
        dialect=client.name,
        messages=messages,
        marks=told,
        asked=marks,
        system=_instructions(messages),
        whole=whole,
        size=size,
        lines=lines,
    )


def _instructions(messages: Iterable[Message]) -> bytes:
    system = [message.content for message in messages if message.role in _INSTRUCTING]
    texts = [block.text for content in system for block in content if isinstance(block, Text)]
    return blake2b(normalize_volatile(repr(texts).encode("utf-8", "surrogatepass")), digest_size=8).digest()


def _whole(messages: Iterable[Message]) -> tuple[bytes, int]:
    """A mark of everything, and how much it is."""
    mark, size = blake2b(), 0
    for message in messages:
        for block in message.content:
            said = ("reasoning", block.text) if isinstance(block, Thinking) else _said(block)
            written = repr((message.role, said)).encode("utf-8", "surrogatepass")
            mark.update(written)
            size += len(written) if said is not None else 0
    return mark.digest(), size


def _without_instructions(messages: tuple[Message, ...]) -> Iterable[Message]:
    """What a request adds to a conversation that its server keeps, whose instructions stand at its beginning."""
    return (message for message in messages if "$from" not in native_of(message, STORED))


def _marks(messages: Iterable[Message]) -> Iterator[bytes]:
    """What was said, however a client groups it: it tells an answer back in other pieces than it got it in. System text
    may change from turn to turn, and reasoning stays away where a client does not keep it."""
    for message in messages:
        for block in message.content if message.role not in _INSTRUCTING else ():
            if (said := _said(block)) is not None:
                yield blake2b(repr(said).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _said(block: Block) -> tuple[object, ...] | None:
    match block:
        case Text(text=text):
            return ("text", text) if text.strip() else None
        case ToolCall(name=name, arguments=arguments):
            return "call", name, _plain(arguments)
        case ToolResult(content=content):
            return "result", *(_said(inner) for inner in content)
        case Media(source=source):
            return "media", source.data
    return None


def _plain(arguments: str) -> object:
    try:
        return json.encode(json.decode_frame(arguments.encode("utf-8", "surrogatepass")))
    except DecodeError:
        return arguments
