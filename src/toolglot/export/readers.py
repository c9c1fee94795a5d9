"""Read the conversation from a request, messages, JSON lines of messages, or recorded exchanges."""

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
from toolglot.export.byte_lines import split_lines
from toolglot.export.conversation_branches import ExchangeTrail, last_exchanges
from toolglot.export.jsonl import read_messages
from toolglot.export.recognize import UNMARKED, dialect_of_body, dialect_of_message, dialect_of_messages
from toolglot.export.recorded_answer import read_answer
from toolglot.fragment_forms import form_of, members
from toolglot.ir import Block, Media, Message, Request, Text, Thinking, ToolCall, ToolResult, native_of
from toolglot.json_forms import JSON_FORMS
from toolglot.receipt import Loss, ReceiptLine
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.volatile_text import normalize_volatile
from toolglot.wire import json

MAX_RECOGNITION_BYTES = 1024 * 1024
"""Maximum bytes of lines to read in search of a mark of their dialect."""
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Bytes that no JSON document contains, and every protobuf request does: the tags and lengths of its members."""
_JSON_STARTS = (b"{", b"[", b" ", b"\t", b"\r")
"""First bytes of JSON, which such a request cannot have. Both may begin with a line feed."""
EXPECTED = "a request's body, an array of messages, JSON lines of messages or a recorded exchange are expected"
_INSTRUCTION_ROLES = ("system", "developer")
MAX_FIRST_WORDS = 400
"""Maximum characters to keep of each conversation."""
SERVER_STATE_MEMBERS = ("previous_response_id", "conversation")
"""Members of a request that say that the server keeps the earlier conversation."""


class ConversationSummary(Struct, frozen=True):
    """Data that distinguishes a conversation from others."""

    model: str
    messages: int
    begins: str
    """The user's first words."""


class SourceConversation(Struct, kw_only=True):
    """A conversation from a source. `messages` are read during iteration, so they can be iterated only once. `lines`
    describe the missing parts."""

    dialect: str
    messages: Iterable[Message]
    lines: list[ReceiptLine] = []
    name: str = ""
    """Name of the last exchange; empty unless the source is a recording."""
    all: tuple[str, ...] = ()
    """The last exchanges of all conversations among them, in chronological order. A branch counts as a conversation."""
    about: Mapping[str, ConversationSummary] = {}
    """Summaries of the conversations by their last exchange."""


def read_conversation(chunks: Iterable[bytes], dialect: str | None = None) -> SourceConversation:
    """Read the conversation in these bytes. A JSON document is read at once, JSON lines while they are iterated.

    Raises:
        DecodeError: the bytes hold no conversation in this dialect; may be raised while messages are iterated.
        UnknownDialectError, MissingExtraError: there is no such dialect, or a package is missing for it.
    """
    chunks = iter(chunks)
    head = next(chunks, b"")
    chunks = chain((head,), chunks)
    if not head.startswith(_JSON_STARTS) and _CONTROLS.search(head):
        return _read_binary(b"".join(_limit_size(chunks)), dialect)
    lines = (line for line in split_lines(chunks) if line.strip())
    first = next(lines, None)
    if first is None:
        raise DecodeError("$", "it is empty")
    if not _is_object(first):
        return _read_document(b"\n".join(_limit_size(chain((first,), lines))), dialect)
    if is_recording(first):
        if dialect is not None:
            raise DecodeError("$", "a recorded exchange states its dialect and cannot be read in another")
        return read_recordings([("", read_recording(chain((first,), lines)))])
    second = next(lines, None)
    if second is None:
        return _read_document(first, dialect)
    return _read_lines(chain((first, second), lines), dialect)


def _read_binary(data: bytes, dialect: str | None) -> SourceConversation:
    """Read a request of a dialect with a binary wire format."""
    if dialect is not None and dialect not in JSON_FORMS:
        raise DecodeError("$", f"this is not text, and {dialect} is JSON")
    problem = "this is not text"
    for name in JSON_FORMS if dialect is None else (dialect,):
        title = DIALECTS[name].title
        try:
            client = find(name)
            return SourceConversation(dialect=client.name, messages=client.decode_request(data).messages)
        except MissingExtraError as error:
            if dialect is not None:
                raise
            problem = f"this is not text; if it is a request of {title}: {error}"
        except DecodeError as error:
            problem = f"this is neither JSON nor a request of {title}: {error}"
    raise DecodeError("$", problem)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def is_recording(line: bytes) -> bool:
    """Return whether this is the first line of a recorded exchange."""
    value = json.decode_frame(line)
    return isinstance(value, dict) and value.get("type") == "exchange" and "version" in value


def _limit_size(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece) + 1
        if size > json.MAX_DOCUMENT_BYTES:
            why = f"the document has more than {json.MAX_DOCUMENT_BYTES} bytes; give a long conversation as JSON lines"
            raise DecodeError("$", why)
        yield piece


def _read_document(data: bytes, dialect: str | None) -> SourceConversation:
    """Read a request's body, an array of messages, or one message."""
    if not data.lstrip().startswith((b"{", b"[")):
        raise DecodeError("$", f"this is not a JSON object or array; {EXPECTED}")
    value = json.decode(data)
    if isinstance(value, list):
        client = find(dialect or dialect_of_messages(value) or _dialect_unknown(*value[:1]))
        return SourceConversation(
            dialect=client.name, messages=_decode_request(client, {client.request.history_key: Raw(data)}).messages
        )
    dialect = dialect or dialect_of_body(value) or dialect_of_message(value)
    client = find(dialect or (UNMARKED if form_of(find(UNMARKED)).history[0] in value else _dialect_unknown(value)))
    form = form_of(client)
    if not value.keys() & {*form.history, *SERVER_STATE_MEMBERS}:
        return SourceConversation(dialect=client.name, messages=read_messages(data, 1, client))
    asked = _decode_request(client, _conversation_members(data, client))
    return SourceConversation(dialect=client.name, messages=asked.messages, lines=_server_state_losses(asked))


def _dialect_unknown(*first: Any) -> str:
    """Return the error or default for messages without marks of a dialect. `messages` are the first ones."""
    if not all(isinstance(message, dict) and "role" in message for message in first):
        raise DecodeError("$", f"this is not a conversation in any known dialect; {EXPECTED}")
    return UNMARKED


def _conversation_members(data: bytes, client: Dialect) -> dict[str, Raw]:
    """Return the members of a body that contain the conversation, without its settings."""
    given = json.decode_typed(data, members)
    plain = {name.replace("_", "").lower(): name for name in (*form_of(client).history, *SERVER_STATE_MEMBERS)}
    found = {known: raw for name, raw in given.items() if (known := plain.get(name.replace("_", "").lower()))}
    return found if form_of(client).history[0] in found else {**found, **_no_history(client, found)}


def _no_history(client: Dialect, found: dict[str, Raw]) -> dict[str, Raw]:
    needs = client.request.history_key == form_of(client).history[0] and not found.keys() & {*SERVER_STATE_MEMBERS}
    return {client.request.history_key: Raw(b"[]")} if needs else {}


def _decode_request(client: Dialect, body: dict[str, Any]) -> Request:
    try:
        return client.decode_request(form_of(client).write(body))
    except RecursionError:
        raise DecodeError("$", json.TOO_DEEP) from None


def _server_state_losses(asked: Request) -> list[ReceiptLine]:
    held = [name for name in SERVER_STATE_MEMBERS if native_of(asked, STORED).get(name)]
    return [Loss(name, "what was said before", "the request names it, and its server keeps it") for name in held]


def _read_lines(lines: Iterator[bytes], dialect: str | None) -> SourceConversation:
    begun: list[bytes] = []
    if dialect is None:
        dialect, begun = _recognize_lines(lines)
    client = find(dialect)
    return SourceConversation(dialect=client.name, messages=_read_each(chain(begun, lines), client))


def _recognize_lines(lines: Iterator[bytes]) -> tuple[str, list[bytes]]:
    """Return the dialect of the lines, and those that had to be read to determine it."""
    begun: list[bytes] = []
    size = 0
    for line in lines:
        begun.append(line)
        size += len(line)
        if (found := dialect_of_message(_parse_line(line))) is not None:
            return found, begun
        if size > MAX_RECOGNITION_BYTES:
            break
    return _dialect_unknown(_parse_line(begun[0])), begun


def _parse_line(line: bytes) -> Any:
    try:
        return json.decode_frame(line)
    except DecodeError:
        return None  # reported where the line is read


def _read_each(lines: Iterable[bytes], client: Dialect) -> Iterator[Message]:
    form = form_of(client)
    for number, line in enumerate(lines, 1):
        if form.history[0] != client.request.history_key:  # a whole conversation
            yield from _decode_request(client, _conversation_members(line, client)).messages
        else:
            yield from read_messages(line, number, client)


def read_recordings(recordings: Iterable[tuple[str, Recording]], wanted: str | None = None) -> SourceConversation:
    """Read the longest conversation in these recordings (name and value, in chronological order), or the one whose
    exchange `wanted` names: the request and its answer.

    Raises:
        DecodeError: no conversation can be read.
    """
    best: _RecordedTurns | None = None
    trails: list[ExchangeTrail] = []
    about: dict[str, ConversationSummary] = {}
    answered: dict[str, tuple[Message, ...]] = {}
    unread: list[ReceiptLine] = []
    for name, recording in recordings:
        try:
            told = _read_turns(recording, answered)
        except (DecodeError, UnknownDialectError) as error:
            cut = recording.end.cut if recording.end is not None and not recording.attempts else None
            why = f"its request cannot be read: {error}" if cut is None else f"the recording is cut: {cut}"
            unread.append(Loss(name or "$", "a recorded exchange", why))
            continue
        trails.append(ExchangeTrail(len(trails), name, told.asked, told.marks, told.system, told.whole))
        about[name] = _summarize(recording.head.model, told.messages)
        if name == wanted if wanted is not None else best is None or told.extent >= best.extent:
            best, told.name = told, name
    if best is None:
        raise DecodeError("$", unread[0].why if unread else "it contains no recorded exchange")
    return SourceConversation(
        dialect=best.dialect,
        messages=best.messages,
        lines=best.lines + unread,
        name=best.name,
        all=last_exchanges(trails),
        about=about,
    )


def _summarize(model: str, messages: Iterable[Message]) -> ConversationSummary:
    said = [message for message in messages if message.role not in _INSTRUCTION_ROLES]
    texts = (block.text for message in said for block in message.content if isinstance(block, Text))
    return ConversationSummary(model, len(said), " ".join(next(texts, "")[:MAX_FIRST_WORDS].split()))


class _RecordedTurns(Struct, kw_only=True):
    """The content of one recording: all messages, and short hashes of them to compare."""

    name: str = ""
    dialect: str
    messages: tuple[Message, ...]
    marks: tuple[bytes, ...]
    asked: tuple[bytes, ...]
    """Hashes of the content that the client sent."""
    system: bytes = b""
    """A hash of the instructions, without dates and the like."""
    whole: bytes = b""
    """A hash of everything, including the parts that the others omit."""
    size: int = 0
    """Characters of the hashed content."""
    lines: list[ReceiptLine]

    @property
    def extent(self) -> tuple[int, int]:
        """Orders recordings with the same content by richness."""
        return len(self.marks), self.size


def _read_turns(recording: Recording, answered: dict[str, tuple[Message, ...]]) -> _RecordedTurns:
    client = find(recording.head.client)
    try:
        asked = client.decode_request(recording.request.data)
    except RecursionError:
        raise DecodeError("$", json.TOO_DEEP) from None
    lines = _server_state_losses(asked)
    messages = asked.messages
    before = native_of(asked, STORED).get("previous_response_id")
    if isinstance(before, str) and before in answered:
        messages, lines = (*answered[before], *_without_instructions(messages)), []
    answer = read_answer(recording, client, asked)
    if answer.missing is not None:
        lines.append(Loss("answer", "the answer is incomplete" if answer.response else "no answer", answer.missing))
    marks = tuple(_content_hashes(messages))
    if answer.response is not None:
        messages = (*messages, Message(role="assistant", content=answer.response.content))
        if answer.response.id and client.request.history_key == "input":
            answered[answer.response.id] = messages
    whole, size = _hash_all(messages)
    told = tuple(_content_hashes(messages))
    return _RecordedTurns(
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
    system = [message.content for message in messages if message.role in _INSTRUCTION_ROLES]
    texts = [block.text for content in system for block in content if isinstance(block, Text)]
    return blake2b(normalize_volatile(repr(texts).encode("utf-8", "surrogatepass")), digest_size=8).digest()


def _hash_all(messages: Iterable[Message]) -> tuple[bytes, int]:
    """Return a hash of everything, and its size."""
    mark, size = blake2b(), 0
    for message in messages:
        for block in message.content:
            said = ("reasoning", block.text) if isinstance(block, Thinking) else _block_content(block)
            written = repr((message.role, said)).encode("utf-8", "surrogatepass")
            mark.update(written)
            size += len(written) if said is not None else 0
    return mark.digest(), size


def _without_instructions(messages: tuple[Message, ...]) -> Iterable[Message]:
    """Yield the messages that a request adds to a conversation that its server stores, without the instructions."""
    return (message for message in messages if "$from" not in native_of(message, STORED))


def _content_hashes(messages: Iterable[Message]) -> Iterator[bytes]:
    """Hash the content independent of how a client groups it: clients may return an answer in different pieces than
    they received. System text may change between turns, and reasoning is missing if a client does not keep it."""
    for message in messages:
        for block in message.content if message.role not in _INSTRUCTION_ROLES else ():
            if (said := _block_content(block)) is not None:
                yield blake2b(repr(said).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _block_content(block: Block) -> tuple[object, ...] | None:
    match block:
        case Text(text=text):
            return ("text", text) if text.strip() else None
        case ToolCall(name=name, arguments=arguments):
            return "call", name, _plain_arguments(arguments)
        case ToolResult(content=content):
            return "result", *(_block_content(inner) for inner in content)
        case Media(source=source):
            return "media", source.data
    return None


def _plain_arguments(arguments: str) -> object:
    try:
        return json.encode(json.decode_frame(arguments.encode("utf-8", "surrogatepass")))
    except DecodeError:
        return arguments
