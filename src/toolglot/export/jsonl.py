"""Write a conversation as JSON lines of a dialect, one message (item, content) per line, and read it back.

System text that a dialect keeps separate is a line of its own with its member: `{"system": …}`. Warp keeps a
conversation as one document, which is the only line.

The output is what the dialect's API accepts as a history. The passes that fit a history to a target need to see only a
turn and its tool results, so a conversation is processed in such pieces, regardless of its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec
from msgspec import Raw

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.dialect import Dialect, capabilities
from toolglot.dialects import find
from toolglot.errors import DecodeError
from toolglot.export.loss_report import ReportLoss, report_losses
from toolglot.fragment_forms import elements, form_of
from toolglot.ir import Message, Native, Request, ToolCall, ToolResult, replace
from toolglot.passes import (
    Context,
    RequestPass,
    cache,
    carry,
    content,
    custom,
    foreign,
    ids,
    media,
    names,
    opaque,
    reasoning,
    refused,
    system,
    turns,
)
from toolglot.passes.blocks import INSTRUCTION_ROLES, has_results, with_messages
from toolglot.plan import run_passes
from toolglot.receipt import Note, Receipt
from toolglot.wire import json

BEFORE_NAMES: tuple[RequestPass, ...] = (carry.open_envelopes, opaque.translate, foreign.report)
AFTER_NAMES: tuple[RequestPass, ...] = (
    custom.wrap,
    ids.shorten,
    reasoning.settle,
    foreign.remove,
    system.fit,
    content.fit,
    media.fit,
    cache.fit,
    turns.group,
    refused.fit,
)
"""The passes that apply to a history. A call without a result stays unchanged: no result is invented for it, unlike in
a request to a model.
"""

MAX_PIECE = 5_000
"""Maximum messages that are processed together."""
MAX_DOCUMENT_MESSAGES = 20_000
"""Maximum messages of a conversation that has to be one document."""
TOO_LONG = "the conversation is too long for a dialect that keeps it as one document"
OUTPUT_LIMIT = 4096
"""Output limit: no output is requested, but encoders report their default if there is none."""


def write_jsonl(
    messages: Iterable[Message], source: Dialect | str, target: Dialect | str, tell: ReportLoss, *, model: str = ""
) -> Iterator[bytes]:
    """Yield the lines, with line ends. `source` is the dialect that the messages were read from.

    Raises:
        UnknownDialectError, MissingExtraError: there is no such dialect, or a package is missing for it.
        DecodeError: a conversation is too long for a single document.
    """
    writer = _JsonlWriter(find(source), find(target), tell, model)
    if writer.same:
        yield from writer.write(messages)
    else:
        yield from writer.write(ids.Pairing(_note_function(tell)).over(messages))


class _JsonlWriter:
    def __init__(self, source: Dialect, target: Dialect, tell: ReportLoss, model: str) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._model = model
        self._form = form_of(target)
        self._names = ConsistentNames()
        self.same = source.name == target.name
        self._is_whole = self._form.history[0] != target.request.history_key
        """The conversation is one document."""
        self._native = self._own_fields() if self.same and not self._is_whole else {}
        self._first = _history_capabilities(capabilities(target, model))
        # Only the beginning of a conversation has special rules.
        self._later = change_capabilities(self._first, starts_with_user=False, needs_message=False)

    def _own_fields(self) -> Native:
        """Return the fields of a request in the dialect itself. Encoders use them to detect that the history is their
        own.
        """
        empty = self._target.decode_request(json.encode({self._target.request.history_key: []}))
        return empty.native

    def write(self, messages: Iterable[Message]) -> Iterator[bytes]:
        count = 0
        for piece in [_limit_messages(messages)] if self._is_whole else split_history(messages):
            yield from self._lines(piece, count)
            count += len(piece)

    def _lines(self, piece: tuple[Message, ...], before: int) -> Iterator[bytes]:
        receipt = Receipt()
        context = Context(
            source=self._source.name,
            target=self._target.name,
            can=self._later if before else self._first,
            receipt=receipt,
            source_can=self._source.can,
            readable=self._source.readable,
        )
        sent = Request(model=self._model, messages=piece, native=self._native)
        # A conversation that stays in its dialect stays unchanged.
        passes = (*BEFORE_NAMES, self._names.shorten, *AFTER_NAMES) if not self.same else ()
        sent, _ = run_passes(sent, passes, context)
        limit = OUTPUT_LIMIT if "max_output_tokens" in self._target.can.parameters.fields else None
        encoded = self._target.encode_request(replace(sent, max_output_tokens=limit), receipt)
        found = self._form.read(encoded)
        report_losses(receipt, self._tell, before)
        if self._is_whole:
            if len(encoded) > json.MAX_DOCUMENT_BYTES:
                raise DecodeError("$", TOO_LONG)
            yield _encode_line({name: found[name] for name in self._form.history if name in found})
            return
        history, *apart = self._form.history
        yield from (_encode_line({name: found[name]}) for name in apart if name in found)
        for item in json.decode_typed(bytes(found.get(history, Raw(b"[]"))), elements):
            yield _encode_line(item)


class ConsistentNames:
    """The pass that makes names legal, for a conversation in pieces: a tool has the same unique name in all of them.
    The earlier calls are repeated to it, one for each tool."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, str], ToolCall] = {}
        self._renamed = False

    def shorten(self, request: Request, context: Context) -> Request:
        blocks = [block for message in request.messages for block in message.content]
        here = {(block.namespace, block.name): block for block in blocks if isinstance(block, ToolCall)}
        if not self._renamed and here.keys() <= self._known.keys():
            return request
        before = Message(role="assistant", content=tuple(self._known.values()))
        own = Receipt()
        shown = replace(request, messages=(before, *request.messages))
        made = names.shorten(shown, replace(context, receipt=own)).messages[1:]
        report_losses(
            (line for line in own if not line.where.startswith("messages[0]")), _report_function(context.receipt), -1
        )
        self._renamed = self._renamed or any(new is not old for new, old in zip(made, request.messages, strict=True))
        self._known.update({key: call for key, call in here.items() if key not in self._known})
        return with_messages(request, made)


def _note_function(tell: ReportLoss) -> Callable[[str, str, str], None]:
    return lambda where, what, why: tell(Note(where, what, why))


def _report_function(receipt: Receipt) -> ReportLoss:
    return lambda line: receipt.add((line,))


def _limit_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return all messages, for a dialect whose history is one document."""
    found = tuple(islice(messages, MAX_DOCUMENT_MESSAGES + 1))
    if len(found) > MAX_DOCUMENT_MESSAGES:
        raise DecodeError("$", TOO_LONG)
    return found


def _history_capabilities(can: Capabilities) -> Capabilities:
    """Return the rules for a history that is not answered: it may end with the assistant's turn."""
    changes = {
        "prefill": True,
        "default_output_tokens": None,
        "refuses": can.limits.refused_content - {"spaces_at_the_end"},
    }
    return change_capabilities(can, **changes)


def _encode_line(value: object) -> bytes:
    written = bytes(value) if isinstance(value, Raw) else json.encode(value)
    if b"\n" in written or b"\r" in written:
        written = msgspec.json.format(written, indent=-1)
    return written + b"\n"


def split_history(messages: Iterable[Message]) -> Iterator[tuple[Message, ...]]:
    """Split a conversation into pieces that can be processed alone: between them no turn is split, and no call is
    separated from its result, unless the user has continued without it.
    """
    piece: list[Message] = []
    waiting: set[str] = set()
    for message in messages:
        if piece and _starts_new_piece(message, piece[-1], bool(waiting)) and _has_content(piece):
            yield tuple(piece)
            piece = []
        elif len(piece) >= MAX_PIECE and message.role != piece[-1].role:
            yield tuple(piece)
            piece, waiting = [], set()
        piece.append(message)
        for block in message.content:
            if isinstance(block, ToolCall):
                waiting.add(block.id)
            elif isinstance(block, ToolResult):
                waiting.discard(block.call_id)
        if message.role == "user" and not has_results(message):
            waiting.clear()
    if piece:
        yield tuple(piece)


def _starts_new_piece(message: Message, before: Message, is_waiting: bool) -> bool:
    if message.role == "assistant":
        return before.role not in ("assistant", *INSTRUCTION_ROLES) and not is_waiting
    return message.role == "user" and before.role == "assistant" and not is_waiting and not has_results(message)


def _has_content(piece: Iterable[Message]) -> bool:
    return any(message.role not in INSTRUCTION_ROLES for message in piece)


def read_messages(line: bytes, number: int, dialect: Dialect) -> tuple[Message, ...]:
    """Read the messages of a line, usually one.

    Raises:
        DecodeError: it is not a message of this dialect.
    """
    key = dialect.request.history_key
    try:
        json.decode_typed(line, _value)
    except DecodeError as error:
        raise DecodeError(f"line {number}", error.what) from None
    if is_system_line(line, dialect):
        data, prefix = b'{"%b":[],%b' % (key.encode(), line.lstrip()[1:]), "$"
    else:
        data, prefix = b'{"%b":[%b]}' % (key.encode(), line), f"$.{key}[0]"
    try:
        return dialect.decode_request(data).messages
    except DecodeError as error:
        where = error.where.removeprefix(prefix) if error.where.startswith(prefix) else ""
        raise DecodeError(f"line {number}: ${where}" if where else f"line {number}", error.what) from None
    except RecursionError:
        raise DecodeError(f"line {number}", json.TOO_DEEP) from None


def is_system_line(line: bytes, dialect: Dialect) -> bool:
    """Return whether this is a line of system text that is separate from the messages."""
    key = dialect.request.system_key
    if key is None or len(line) > json.MAX_DOCUMENT_BYTES or not line.lstrip().startswith(b'{"%b"' % key.encode()):
        return False
    return json.decode_typed(line, _members).keys() == {key}


_members: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_value: msgspec.json.Decoder[Raw] = msgspec.json.Decoder(Raw)
