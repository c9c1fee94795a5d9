"""Render a conversation's calls and results as text: calls in the assistant's turn, the results of a turn in one user
message.

Media are in that user message as well, after the results, and each result says which of them belong to it. An
unreadable call is described in words, because a written call would be an example for the model. The same applies to a
call that the format cannot express, because it would be read as a different call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import is_

from toolglot.ir import (
    Block,
    Cache,
    Media,
    Message,
    Opaque,
    Refusal,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    replace,
)
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place
from toolglot.receipt import Receipt
from toolglot.textcalls.prompts.records import Result
from toolglot.textcalls.prompts.render import escape_marks, results_text, unwritable_reason, write_calls_with_notes
from toolglot.textcalls.prompts.safe_tools import rewrite_texts
from toolglot.textcalls.unescape import DOT, MAX_LENGTH, Escapes
from toolglot.wire import json

UNREADABLE = "it cannot be read"
ESCAPED = "marks of the text format are escaped"


class TurnRenderer:
    """Renders the messages of one request, from the first to the last, because some formats number all calls. `tools`
    are those that may be called: in some formats their names make a call. `escapes` records the escaped marks."""

    def __init__(
        self, format_name: str, receipt: Receipt, tools: Sequence[Tool] = (), escapes: Escapes | None = None
    ) -> None:
        self._format = format_name
        self._receipt = receipt
        self._tools = tools
        self._escapes = Escapes() if escapes is None else escapes
        self._numbers: dict[str, int] = {}  # of the calls by their ids
        self._called = 0

    def render(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        rendered: list[Message] = []
        for spoken, group in groupby(enumerate(messages), key=lambda pair: pair[1].role == "assistant"):
            run = list(group)
            rendered += self._assistant(run) if spoken else self._others(run)
        return tuple(rendered)

    def _assistant(self, run: list[tuple[int, Message]]) -> list[Message]:
        """Return the messages unchanged except for marks; or one message if they contain calls. Text in pieces becomes
        one text again: clients keep the pieces of a stream as parts."""
        safe = self._separate_marks([(number, self._safe(message, number)) for number, message in run])
        whole = [block for message in safe for block in message.content]
        if not any(isinstance(block, ToolCall) for block in whole):
            return [_merge_texts(message) for message in safe]
        content: list[tuple[str, Block]] = []
        for why, group in groupby(whole, key=self._reason_for_words):
            blocks = list(group)
            calls = [block for block in blocks if isinstance(block, ToolCall)]
            if why is None:
                content += zip(("\n", *[""] * (len(blocks) - 1)), blocks, strict=True)
            elif not why:
                content.append(("\n", self._calls(calls, run[0][0])))
            else:
                content.append(("\n", self._in_words(calls, why, run[0][0])))
        return [replace(safe[0], content=_join_neighbors(content))]

    def _calls(self, calls: Sequence[ToolCall], number: int) -> Text:
        text, notes = write_calls_with_notes(self._format, calls, self._called)
        for note in notes:
            self._receipt.loss(str(Place(number)), "a call", f"as text it is not exact: {note}")
        self._count(calls)
        return Text(text=text, cache=_last_cache(calls))

    def _reason_for_words(self, block: Block) -> str | None:
        """Return the reason why a call must be described in words; empty if it can be written, None if the block is not
        a call.
        """
        if not isinstance(block, ToolCall):
            return None
        given = block.kind != "function" or not block.arguments.strip() or json.object_of(block.arguments) is not None
        if not block.complete or not given:
            return UNREADABLE
        return unwritable_reason(self._format, block, self._tools)

    def _in_words(self, calls: Sequence[ToolCall], why: str, number: int) -> Text:
        for call in calls:
            if why == UNREADABLE:
                self._receipt.note(
                    str(Place(number)), f"call of {call.name}", "it cannot be read and is described in words"
                )
            else:
                told = f"the format cannot hold it, and it is described in words: {why}"
                self._receipt.loss(str(Place(number)), f"call of {call.name}", told)
        self._count(calls)
        how = "that could not be read" if why == UNREADABLE else "with these arguments"
        text = "\n".join(f"[a call of {call.name} {how}: {call.arguments}]" for call in calls)
        return Text(text=self._escaped(text), cache=_last_cache(calls))

    def _count(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            self._numbers[call.id] = self._called
            self._called += 1

    def _others(self, run: list[tuple[int, Message]]) -> list[Message]:
        """Return one user message with the results first and the user's text directly after them."""
        media: list[Block] = []
        results = self._results(run, media)
        rest = self._separate_marks((number, self._safe(message, number)) for number, message in _other_content(run))
        if results is None:
            return rest
        said = rest.pop(0).content if rest and rest[0].role == "user" else ()
        return [
            Message(role="user", content=_join_neighbors(("\n\n", block) for block in (results, *media, *said))),
            *rest,
        ]

    def _results(self, run: list[tuple[int, Message]], media: list[Block]) -> Text | None:
        """Return the results in these messages, if any; their parts that are not text are added to `media`."""
        found = [
            (block, Place(number, index))
            for number, message in run
            for index, block in enumerate(message.content)
            if isinstance(block, ToolResult)
        ]
        if not found:
            return None
        broken = self._escapes.count
        results = [self._result(block, place, media) for block, place in found]
        told = results_text(self._format, results, self._tools, self._escapes)
        if self._escapes.count > broken:
            self._receipt.note(str(Place(found[0][1].message)), "results", ESCAPED)
        return Text(text=told, cache=_last_cache([block for block, _ in found]))

    def _result(self, result: ToolResult, place: Place, media: list[Block]) -> Result:
        """Return the result as text only; its media follow all results."""
        parts: list[str] = []
        shown = 0
        name = result.name or "call"
        for inner, part in enumerate(result.content):
            match part:
                case Text(text=text) | Refusal(text=text):
                    parts.append(text)
                case Media(source=source) if source.kind == "text":
                    parts.append(f"{part.name}:\n{source.data}" if part.name else source.data)
                case Media():
                    shown += 1
                    label = f"{part.kind} {shown}"
                    parts.append(f"[{label} of this result follows the results]")
                    heading = self._escaped(f"[{label} of the result of {name} {result.call_id}:]")
                    media += [Text(text=heading), self._safe_block(part)]
                case _:
                    where = str(Place(place.message, place.block, inner))
                    self._receipt.loss(where, "a part of a result", "it has no form as text")
        return Result(
            name=name,
            text="\n".join(parts),
            id=result.call_id,
            is_error=result.is_error is True,
            index=self._numbers.get(result.call_id, self._called),
        )

    def _escaped(self, text: str, *, again: bool = False) -> str:
        return escape_marks(self._format, text, self._tools, self._escapes, again=again)

    def _safe(self, message: Message, number: int) -> Message:
        """Escape every mark of the format in the message, also one that spans two adjacent texts."""
        content: list[Block] = []
        for plain, group in groupby(message.content, key=lambda block: isinstance(block, Text)):
            blocks = list(group)
            if plain:  # the system prompt is the client's own
                content += blocks if message.role in INSTRUCTION_ROLES else self._safe_texts(blocks)
            else:
                content += map(self._safe_block, blocks)
        native = rewrite_texts(message.native, self._escaped)
        same = len(content) == len(message.content) and all(map(is_, content, message.content))
        if same and native == message.native:
            return message
        self._receipt.note(str(Place(number)), f"{message.role} text", ESCAPED)
        return replace(message, content=tuple(content), native=native)

    def _safe_texts(self, group: Sequence[Block]) -> list[Block]:
        texts = [block for block in group if isinstance(block, Text)]
        safe = [_prepend_text(text, self._escaped(text.text)) for text in texts]
        joined = "".join(text.text for text in safe)
        whole = self._escaped(joined, again=True) if len(safe) > 1 else joined
        return list(safe) if whole == joined else [replace(safe[0], text=whole, cache=_last_cache(safe))]

    def _safe_block(self, block: Block) -> Block:
        match block:
            case Refusal(text=text):
                safe = self._escaped(text)
                return block if safe == text else replace(block, text=safe)
            case Media(source=source):
                source = replace(
                    source,
                    data=self._escaped(source.data) if source.kind == "text" else source.data,
                    media_type=source.media_type and self._escaped(source.media_type),
                )
                name, native = block.name and self._escaped(block.name), rewrite_texts(block.native, self._escaped)
                safe_media = replace(block, source=source, name=name, native=native)
                return block if safe_media == block else safe_media
            case Opaque(value=value):
                told = rewrite_texts(value, self._escaped)
                return block if told == value else Opaque(block.dialect, told)
        return block

    def _separate_marks(self, run: Iterable[tuple[int, Message]]) -> list[Message]:
        """Separate the messages of one side, which may be joined into one turn: no mark may arise between two of
        them."""
        apart: list[Message] = []
        for number, message in run:
            before = apart[-1].content[-1] if apart and apart[-1].content else None
            first = message.content[0] if message.content else None
            if (
                isinstance(before, Text)
                and isinstance(first, Text)
                and message.role not in INSTRUCTION_ROLES
                and self._would_form_mark(before.text[-MAX_LENGTH:], first.text[:MAX_LENGTH])
            ):
                first = replace(first, text=f"{DOT}{first.text}")
                message = replace(message, content=(first, *message.content[1:]))
                self._receipt.note(str(Place(number)), f"{message.role} text", ESCAPED)
            apart.append(message)
        return apart

    def _would_form_mark(self, end: str, beginning: str) -> bool:
        """Return whether a mark would arise between two adjacent texts. Marks inside one of the texts (the system
        prompt may have some) do not count."""
        alone, also_alone, joined = (
            escape_marks(self._format, text, self._tools, again=True) for text in (end, beginning, f"{end}{beginning}")
        )
        return joined != f"{alone}{also_alone}"


def _other_content(run: list[tuple[int, Message]]) -> Iterator[tuple[int, Message]]:
    """Yield the other content of these messages."""
    for number, message in run:
        others = tuple(block for block in message.content if not isinstance(block, ToolResult))
        if others or not message.content:
            role = "user" if message.role == "tool" else message.role
            same = len(others) == len(message.content) and role == message.role
            yield number, message if same else replace(message, role=role, content=others)


def _prepend_text(text: Text, safe: str) -> Text:
    return text if safe == text.text else replace(text, text=safe)


def _last_cache(nodes: Sequence[ToolCall | ToolResult | Text]) -> Cache | None:
    return next((node.cache for node in reversed(nodes) if node.cache is not None), None)


def _merge_texts(message: Message) -> Message:
    content = _join_neighbors(("", block) for block in message.content)
    return message if len(content) >= len(message.content) else replace(message, content=content)


def _join_neighbors(content: Iterable[tuple[str, Block]]) -> tuple[Block, ...]:
    """Join adjacent texts if nothing depends on their border: simple servers handle one text best.

    A separator precedes each block after the first. Pieces of reasoning are joined as well, without a separator.
    """
    joined: list[Block] = []
    pieces: list[str] = []  # of the last block
    for gap, block in content:
        before = joined[-1] if joined else None
        if isinstance(block, (Text, Thinking)) and isinstance(before, (Text, Thinking)) and _can_join(before, block):
            if block.text:
                ended = isinstance(block, Thinking) or pieces[-1].endswith("\n")
                pieces += [block.text] if ended else [gap, block.text]
            joined[-1] = replace(before, cache=block.cache)
        elif not isinstance(block, Text) or block.text or not _is_plain(block):
            _finish_block(joined, pieces)
            joined.append(block)
            pieces = [block.text] if isinstance(block, (Text, Thinking)) else []
    _finish_block(joined, pieces)
    return tuple(joined)


def _finish_block(joined: list[Block], pieces: Sequence[str]) -> None:
    """Replace the last block with one that has all of its pieces."""
    if len(pieces) > 1 and isinstance(last := joined[-1], (Text, Thinking)):
        joined[-1] = replace(last, text="".join(pieces))


def _can_join(before: Text | Thinking, block: Text | Thinking) -> bool:
    return type(before) is type(block) and before.cache is None and _is_plain(before) and _is_plain(block)


def _is_plain(block: Text | Thinking) -> bool:
    """Return whether a block is only text. Reasoning may be bound to a signature that its note does not show."""
    if isinstance(block, Thinking):
        return bool(block.text) and not any(fields.keys() - {"$field", "$twice"} for fields in block.native.values())
    return not block.citations and all(key.startswith("$") for fields in block.native.values() for key in fields)
