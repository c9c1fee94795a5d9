"""Convert calls written as text in a conversation's history to native calls and results.

Clients that prompt for calls as text store them as text: the assistant's turn has the calls, and the next user turn has
the results. Both become blocks, paired by id if the text has ids, otherwise by name and order. Nothing else changes:
user text is read only directly after a turn with calls, and only for results at its beginning. Without a result, no
call was run, and the turn stays text.

`auto` reads calls in any format. Their results are then read in a format in which the turn has exactly the same calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from operator import is_
from typing import Any, Final

from msgspec import Struct

from toolglot.ir import Block, Media, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult, replace
from toolglot.passes.blocks import Place, with_messages
from toolglot.passes.digest import digest
from toolglot.passes.history import INTERRUPTED
from toolglot.receipt import Receipt
from toolglot.textcalls import AUTO, Engine, Format, find_format
from toolglot.textcalls.call_records import CallRecord, split_records
from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.formats import AUTO_FORMAT, READ_BY_AUTO
from toolglot.textcalls.prompts.escaping import needs_names
from toolglot.textcalls.result_forms import ReadResult, read_results

ENDLESS_RESULT = "the format has no mark for its end: if the user wrote something after it, that is now part of it"

NATIVE_RESULTS: Final = None
"""Used instead of a format for native results."""


def native_history(request: Request, format_name: str, receipt: Receipt | None = None) -> Request:
    """Return the request with the calls and results of its history as blocks."""
    past = _HistoryReader(request, format_name, receipt if receipt is not None else Receipt())
    messages: list[Message] = []
    at = 0
    while at < len(request.messages):
        taken = past.turn(at)
        messages += taken.messages
        at = taken.end
    return with_messages(request, tuple(messages))


class _NativeTurn(Struct, frozen=True):
    """The messages that replace those up to `end`."""

    messages: list[Message]
    end: int


class _CallWithResult(Struct, frozen=True):
    """A call with its result, both from the assistant's own text."""

    call: ToolCall
    result: ToolResult


class _HistoryReader:
    def __init__(self, request: Request, format_name: str, receipt: Receipt) -> None:
        self._messages = request.messages
        self._format = find_format(format_name)
        guessed = self._format.name == AUTO
        formats = READ_BY_AUTO if guessed else (self._format,)
        # The result format that matched last is tried first, because most conversations have only one.
        self._candidates: tuple[Format | None, ...] = (NATIVE_RESULTS, *formats) if guessed else formats
        self._has_records = any(text_format.name == "deepchat" for text_format in formats)
        self._receipt = receipt
        naming = [text_format.name for text_format in formats if not guessed or needs_names(text_format)]
        declared = {tool.name: tool.parameters for tool in request.tools if isinstance(tool, Tool)}
        self._tools: Mapping[str, Any] = {**dict.fromkeys(_tools_with_results(request.messages, naming)), **declared}
        self._seen = {
            block.id for message in request.messages for block in message.content if isinstance(block, ToolCall)
        }
        self._called = 0  # calls of the conversation so far, for formats that number them

    def turn(self, start: int) -> _NativeTurn:
        """Convert one message; or a turn with calls together with the following turn with their results."""
        message = self._messages[start]
        if message.role != "assistant":
            return _NativeTurn([message], start + 1)
        seen = set(self._seen)
        pieces = self._pieces(message, start)
        calls = [piece for piece in pieces if isinstance(piece, ToolCall) and piece.id not in seen]
        if calls and not any(isinstance(piece, _CallWithResult) for piece in pieces):
            end = self._end_of_others(start + 1)
            answers, rest = self._answers(message, calls, self._messages[start + 1 : end])
            if answers.results:
                self._called += len(calls)
                if answers.endless:
                    self._receipt.note(str(Place(start + 1)), "the last result", ENDLESS_RESULT)
                content = tuple(piece for piece in pieces if not isinstance(piece, _CallWithResult))
                results = Message(role="user", content=answers.in_order())
                return _NativeTurn([replace(message, content=content), results, *rest], end)
            self._seen = seen
            self._receipt.note(str(Place(start)), "calls in text", "no result follows them; they stay text")
            return _NativeTurn([message], start + 1)
        return _NativeTurn(self._split_turns(message, pieces), start + 1)

    def _answers(
        self, message: Message, calls: list[ToolCall], behind: tuple[Message, ...]
    ) -> tuple[_TurnResults, list[Message]]:
        """Read the results of a message's calls from the messages after it, and return the rest of those messages."""
        for candidate in self._candidates:
            answers = _TurnResults(candidate.name if candidate else None, calls, self._called)
            rest = answers.read(behind)
            if answers.results and (candidate is NATIVE_RESULTS or self._reads_the_same(candidate, message)):
                self._candidates = (candidate, *(other for other in self._candidates if other is not candidate))
                return answers, rest
        return _TurnResults(None, calls, self._called), list(behind)

    def _reads_the_same(self, candidate: Format, message: Message) -> bool:
        """Return whether the message has the same calls in this format as in the one that it was read in."""
        if candidate is self._format:
            return True
        texts = [block.text for block in message.content if isinstance(block, Text)]
        return all(
            self._find_calls(_with_auto_marks(candidate), text) == self._find_calls(self._format, text)
            for text in texts
        )

    def _find_calls(self, text_format: Format, text: str) -> list[CallEvent]:
        return [event for event in self._events(text_format, text) if event[0] not in ("refused", "unread")]

    def _events(self, text_format: Format, text: str) -> list[CallEvent]:
        engine = Engine(text_format, self._tools)
        return [*engine.feed(text), *engine.finish()]

    def _end_of_others(self, start: int) -> int:
        end = start
        while end < len(self._messages) and self._messages[end].role in ("user", "tool"):
            end += 1
        return end

    def _split_turns(self, message: Message, pieces: list[Block | _CallWithResult]) -> list[Message]:
        """Split the message into turns: calls with their results, and the text between and after them."""
        if not any(isinstance(piece, _CallWithResult) for piece in pieces):
            return [message]
        messages: list[Message] = []
        content: list[Block] = []
        results: list[Block] = []
        for piece in pieces:
            if isinstance(piece, _CallWithResult):
                self._called += 1
                content.append(piece.call)
                results.append(piece.result)
                continue
            if results:
                messages += [replace(message, content=tuple(content)), Message(role="user", content=tuple(results))]
                content, results = [], []
            content.append(piece)
        if content:
            messages.append(replace(message, content=tuple(content)))
        if results:
            messages.append(Message(role="user", content=tuple(results)))
        return messages

    def _pieces(self, message: Message, number: int) -> list[Block | _CallWithResult]:
        """Return the message's blocks, with the calls in its texts as blocks of their own."""
        pieces: list[Block | _CallWithResult] = []
        for index, block in enumerate(message.content):
            if not isinstance(block, Text):
                pieces.append(block)
                continue
            parts = split_records(block.text) if self._has_records else (block.text,)
            found: list[Block | _CallWithResult] = []
            for part in parts:
                found += [self._add_record(part)] if isinstance(part, CallRecord) else self._read(part)
            if len(found) == 1 and isinstance(found[0], Text) and found[0].text == block.text:
                found = [block]
            elif block.citations:
                self._receipt.loss(str(Place(number, index)), "citations", "the text was split at its calls")
            pieces += found
        return pieces

    def _add_record(self, record: CallRecord) -> _CallWithResult:
        call = ToolCall(id=self._new_id("", record.name), name=record.name, arguments=record.arguments)
        return _CallWithResult(call, _make_result(call, ReadResult(text=record.response)))

    def _read(self, text: str) -> list[Block]:
        """Return the text as blocks; unchanged if it has no call, or an incomplete one."""
        events = self._events(self._format, text)
        kinds = {event[0] for event in events}
        if "end" not in kinds or "cut" in kinds:
            return [Text(text=text)] if text and not text.isspace() else []
        blocks: list[Block] = []
        call_id, name = "", ""
        arguments: list[str] = []
        said: list[str] = []
        for event in events:
            if event[0] == "text":
                said.append(event[1])
            if event[0] in ("text", "refused", "unread"):
                continue
            blocks += _without_records(said)
            said = []
            if event[0] == "reasoning":
                blocks.append(Thinking(text=event[1]))
            elif event[0] == "id":
                call_id = event[2]
            elif event[0] == "start":
                name, arguments = event[2], []
            elif event[0] == "args":
                arguments.append(event[2])
            elif event[0] == "end":
                blocks.append(ToolCall(id=self._new_id(call_id, name), name=name, arguments="".join(arguments)))
                call_id = ""
        return [*blocks, *_without_records(said)]

    def _new_id(self, given: str, name: str) -> str:
        """Return the model's own id if it is new, otherwise an id that depends only on the text before the call."""
        new, salt = given, 0
        while not new or new in self._seen:
            new = f"call_{digest(len(self._seen), name, salt)[:12]}"
            salt += 1
        self._seen.add(new)
        return new


@cache
def _with_auto_marks(text_format: Format) -> Format:
    """Add everything except calls that `auto` knows: reasoning between other marks does not change the calls."""
    return replace(text_format, thinking=AUTO_FORMAT.thinking, dropped=AUTO_FORMAT.dropped)


def _tools_with_results(messages: tuple[Message, ...], format_names: Iterable[str]) -> list[str]:
    """Return the tools that results in the history name. They existed, even if they are not declared now. Formats
    whose openers are the tools' names could not be read without them."""
    return [
        read.name
        for before, message in pairwise(messages)
        if before.role == "assistant" and message.role in ("user", "tool")
        for block in message.content
        if isinstance(block, Text)
        for format_name in format_names
        for read in read_results(format_name, block.text)[0]
        if read.name
    ]


def _without_records(pieces: list[str]) -> list[Block]:
    text = "".join(pieces)
    return [Text(text=text)] if text and not text.isspace() else []


def _make_result(call: ToolCall, read: ReadResult) -> ToolResult:
    content = (Text(text=read.text),) if read.text else ()
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=True if read.is_error else None)


class _TurnResults:
    """The results of one turn's calls, read from the messages after it. Without a format only native results are
    read."""

    def __init__(self, format_name: str | None, calls: list[ToolCall], before: int) -> None:
        self._format = format_name
        self._calls = calls
        self._waiting: dict[tuple[str, str], deque[ToolCall]] = {}
        for number, call in enumerate(calls, before):
            for key in (("id", call.id), ("index", str(number)), ("name", call.name), ("any", "")):
                self._waiting.setdefault(key, deque()).append(call)
        self.results: dict[str, ToolResult] = {}
        self.endless = False
        """True if the last result has paragraphs, and it is unknown which of them belong to it."""

    def in_order(self) -> tuple[Block, ...]:
        """Return a result for each call, in call order."""
        return tuple(self.results.get(call.id) or _missing_result(call) for call in self._calls)

    def read(self, messages: tuple[Message, ...]) -> list[Message]:
        """Remove results from the beginning of the messages. Returns the rest of the messages."""
        for number, message in enumerate(messages):
            rest = self._read_message(message)
            if rest is not None:
                role = "user" if message.role == "tool" else message.role
                untouched = len(rest) == len(message.content) and all(map(is_, rest, message.content))
                left = message if untouched else replace(message, role=role, content=rest)
                return [left, *messages[number + 1 :]]
        return []

    def _read_message(self, message: Message) -> tuple[Block, ...] | None:
        """Return the part of a message that is not a result; None if the whole message consists of results."""
        last: ToolCall | None = None  # the call that the previous block answered
        waits = False  # its text is in the next block
        for index, block in enumerate(message.content):
            if isinstance(block, ToolResult):
                last = self._match(ReadResult(text="", name=block.name or "", id=block.call_id))
                if last is None:
                    return message.content[index:]
                self.results[last.id] = replace(block, call_id=last.id, name=last.name)
            elif isinstance(block, Media) and last is not None:
                self._add(last, block)
            elif isinstance(block, Text) and waits and last is not None:
                self._add(last, block)
                waits = False
            elif isinstance(block, Text):
                last, left = self._take(block.text)
                if last is None or left.strip():
                    kept = block if last is None else replace(block, text=left.lstrip("\n"))
                    return (kept, *message.content[index + 1 :])
                waits = not self.results[last.id].content
            else:
                return message.content[index:]
        return None

    def _take(self, text: str) -> tuple[ToolCall | None, str]:
        """Return the last call that the beginning of the text answers, and the rest of the text."""
        found, left = read_results(self._format, text) if self._format else ([], text)
        last: ToolCall | None = None
        for read in found:
            call = self._match(read)
            if call is None:
                return last, text[read.start :]
            self.results[call.id] = _make_result(call, read)
            self.endless = read.endless and "\n\n" in read.text
            last = call
        return last, left

    def _add(self, call: ToolCall, block: Block) -> None:
        result = self.results[call.id]
        self.results[call.id] = replace(result, content=(*result.content, block))

    def _match(self, read: ReadResult) -> ToolCall | None:
        """Return the call that a result belongs to: by id, by number, by name, otherwise the first without a result."""
        ways = [("id", read.id), ("index", str(read.index)), ("name", read.name), *([] if read.name else [("any", "")])]
        for way in ways:
            queue = self._waiting.get(way)
            while queue and queue[0].id in self.results:
                queue.popleft()
            if queue:
                return queue[0]
        return None


def _missing_result(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, is_error=True, content=(Text(text=INTERRUPTED),))
