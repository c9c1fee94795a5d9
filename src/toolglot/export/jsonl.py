"""A conversation as JSON lines of a dialect, one message (item, content) a line, and back.

System text that a dialect keeps apart is a line of its own with the member it has there: `{"system": …}`. Warp keeps a
conversation as one document, which is the only line.

What is written is what the dialect's API takes as a history. The passes that fit a history to a target need to see no
more of it than a turn and its tool results, so a conversation goes by in such pieces, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec
from msgspec import Raw

from toolglot.dialect import Capabilities, Dialect, capabilities
from toolglot.dialects import find
from toolglot.errors import DecodeError
from toolglot.export.ledger import Tell, pass_on
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
from toolglot.receipt import Loss, Receipt
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
"""Of the usual ones those that are about a history. A call that waits for its result is left waiting: nothing is made
up for it, as it would have to be for a model."""

LONGEST_PIECE = 5_000
"""Messages that are looked at together, at most."""
LONGEST_WHOLE = 20_000
"""Messages of a conversation that has to be one document."""
TOO_LONG = "the conversation is too long for a dialect that keeps it as one document"
LIMIT = 4096
"""Of output: nobody asks for any, and encoders speak of their default where there is none."""


def jsonl_of(
    messages: Iterable[Message], source: Dialect | str, target: Dialect | str, tell: Tell, *, model: str = ""
) -> Iterator[bytes]:
    """The lines, each with its end. `source` is the dialect that the messages were read from.

    Raises:
        UnknownDialectError, MissingExtraError: there is no such dialect, or a package is missing for it.
        DecodeError: a conversation is too long for the one document that it has to be.
    """
    writer = _Writer(find(source), find(target), tell, model)
    if writer.same:
        yield from writer.written(messages)
    else:
        yield from writer.written(ids.Pairing(_noting(tell)).over(messages))


class _Writer:
    def __init__(self, source: Dialect, target: Dialect, tell: Tell, model: str) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._model = model
        self._form = form_of(target)
        self._names = Names()
        self.same = source.name == target.name
        self._is_whole = self._form.history[0] != target.request.history_key
        """The conversation is one document."""
        self._native = self._own() if self.same and not self._is_whole else {}
        self._first = _as_history(capabilities(target, model))
        # Only the beginning of a conversation has rules of its own.
        self._later = replace(self._first, starts_with_user=False, needs_message=False)

    def _own(self) -> Native:
        """What a request in the dialect itself has: encoders look there whether the history is their own."""
        empty = self._target.decode_request(json.encode({self._target.request.history_key: []}))
        return empty.native

    def written(self, messages: Iterable[Message]) -> Iterator[bytes]:
        count = 0
        for piece in [_bounded(messages)] if self._is_whole else pieces(messages):
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
        # A conversation that stays in its dialect stays as it is.
        passes = (*BEFORE_NAMES, self._names.shorten, *AFTER_NAMES) if not self.same else ()
        sent, _ = run_passes(sent, passes, context)
        limit = LIMIT if "max_output_tokens" in self._target.can.fields else None
        encoded = self._target.encode_request(replace(sent, max_output_tokens=limit), receipt)
        found = self._form.read(encoded)
        pass_on(receipt, self._tell, before)
        if self._is_whole:
            if len(encoded) > json.MAX_DOCUMENT_BYTES:
                raise DecodeError("$", TOO_LONG)
            yield _line({name: found[name] for name in self._form.history if name in found})
            return
        history, *apart = self._form.history
        yield from (_line({name: found[name]}) for name in apart if name in found)
        for item in json.typed(bytes(found.get(history, Raw(b"[]"))), elements):
            yield _line(item)


class Names:
    """The pass that makes names legal, over a conversation in pieces: a tool has the same name in all of them, and no
    other has it. The calls that went before are shown to it once more, one for each tool."""

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
        pass_on((line for line in own if not line.where.startswith("messages[0]")), _teller(context.receipt), -1)
        self._renamed = self._renamed or any(new is not old for new, old in zip(made, request.messages, strict=True))
        self._known.update({key: call for key, call in here.items() if key not in self._known})
        return with_messages(request, made)


def _noting(tell: Tell) -> Callable[[str, str, str], None]:
    return lambda where, what, why: tell(Loss(where, what, why, "note"))


def _teller(receipt: Receipt) -> Tell:
    return lambda line: receipt.add((line,))


def _bounded(messages: Iterable[Message]) -> tuple[Message, ...]:
    """All of them, for a dialect that has no other way."""
    found = tuple(islice(messages, LONGEST_WHOLE + 1))
    if len(found) > LONGEST_WHOLE:
        raise DecodeError("$", TOO_LONG)
    return found


def _as_history(can: Capabilities) -> Capabilities:
    """What a history may be where nobody answers it: it may end with the assistant's turn."""
    changes = {"prefill": True, "default_output_tokens": None, "refuses": can.refuses - {"spaces_at_the_end"}}
    return replace(can, **changes)


def _line(value: object) -> bytes:
    written = bytes(value) if isinstance(value, Raw) else json.encode(value)
    if b"\n" in written or b"\r" in written:
        written = msgspec.json.format(written, indent=-1)
    return written + b"\n"


def pieces(messages: Iterable[Message]) -> Iterator[tuple[Message, ...]]:
    """Stretches of a conversation that can be looked at alone: between them nobody's turn is torn, and no call waits
    for its result, unless the user has gone on without it."""
    piece: list[Message] = []
    waiting: set[str] = set()
    for message in messages:
        if piece and _begins_anew(message, piece[-1], bool(waiting)) and _says_something(piece):
            yield tuple(piece)
            piece = []
        elif len(piece) >= LONGEST_PIECE and message.role != piece[-1].role:
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


def _begins_anew(message: Message, before: Message, is_waiting: bool) -> bool:
    if message.role == "assistant":
        return before.role not in ("assistant", *INSTRUCTION_ROLES) and not is_waiting
    return message.role == "user" and before.role == "assistant" and not is_waiting and not has_results(message)


def _says_something(piece: Iterable[Message]) -> bool:
    return any(message.role not in INSTRUCTION_ROLES for message in piece)


def message_of(line: bytes, number: int, dialect: Dialect) -> tuple[Message, ...]:
    """The messages of a line: mostly one.

    Raises:
        DecodeError: it is no message of this dialect.
    """
    key = dialect.request.history_key
    try:
        json.typed(line, _value)
    except DecodeError as error:
        raise DecodeError(f"line {number}", error.what) from None
    if is_apart(line, dialect):
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


def is_apart(line: bytes, dialect: Dialect) -> bool:
    """Is this a line of system text that stands apart from the messages?"""
    key = dialect.request.system_key
    if key is None or len(line) > json.MAX_DOCUMENT_BYTES or not line.lstrip().startswith(b'{"%b"' % key.encode()):
        return False
    return json.typed(line, _members).keys() == {key}


_members: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_value: msgspec.json.Decoder[Raw] = msgspec.json.Decoder(Raw)
