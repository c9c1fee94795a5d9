"""What has been said, as messages of the IR: whichever model is asked next is given all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from toolglot.ir import Message, Reasoning, Request, Text, ToolCall, ToolResult, replace

STOPPED = "The user stopped this call before it had a result."
STOPPED_HERE = "[The user stopped the answer here.]"
LOST = "This call has no result: the answer broke off."
NO_TOOL = "There is no such tool: nothing was run."


class Said(Struct, frozen=True, kw_only=True):
    """A message; of an assistant's, the name of the model that said it."""

    message: Message
    model: str = ""


class Failure(Struct, frozen=True, kw_only=True):
    """An answer that did not come, or not to its end. No model is told of it."""

    why: str
    model: str


Entry = Said | Failure


class Conversation:
    """The entries so far, and the system text that stands before them."""

    def __init__(self, system: str = "") -> None:
        self.system = system
        self._entries: list[Entry] = []

    @property
    def entries(self) -> Sequence[Entry]:
        return tuple(self._entries)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What a model is told."""
        system = (Message(role="system", content=(Text(text=self.system),)),) if self.system else ()
        return (*system, *(entry.message for entry in self._entries if isinstance(entry, Said)))

    def say(self, text: str) -> None:
        """The user's words."""
        self._entries.append(Said(message=Message(role="user", content=(Text(text=text),))))

    def hear(self, messages: Iterable[Message], model: str) -> None:
        """What came of it: the model's messages, and the results between them."""
        for message in messages:
            if message.content:
                self._entries.append(Said(message=message, model=model if message.role == "assistant" else ""))

    def fail(self, why: str, model: str) -> None:
        self._entries.append(Failure(why=why, model=model))

    def clear(self) -> None:
        self._entries.clear()

    def request(self, model: str, *, effort: str | None = None) -> Request:
        """The next request: the same history for whichever model."""
        reasoning = Reasoning(effort=effort, show=True) if effort else None
        return Request(model=model, messages=self.messages, reasoning=reasoning, stream=True)


def settled(
    messages: Sequence[Message], results: Sequence[ToolResult] = (), rest: str = "", why: str = NO_TOOL
) -> list[Message]:
    """What is kept of an answer: every call has a result, so that any model can be told of it.

    `results` are those that had come when it broke off, `rest` is the text of a round that did not end, and `why` tells
    what became of calls without a result.
    """
    known = {result.call_id: result for result in results}
    kept: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "tool":
            for block in message.content:
                waiting.pop(block.call_id if isinstance(block, ToolResult) else "", None)
            message = replace(message, content=(*message.content, *_missing(waiting, known, why)))
        elif waiting:
            kept.append(Message(role="tool", content=_missing(waiting, known, why)))
        waiting = {block.id: block for block in message.content if isinstance(block, ToolCall)}
        kept.append(message)
    if waiting:
        kept.append(Message(role="tool", content=_missing(waiting, known, why)))
    if why == STOPPED and not rest.strip() and kept and kept[-1].role == "tool":
        rest = STOPPED_HERE  # else the user's next words would seem to belong to the results
    if rest.strip():
        kept.append(Message(role="assistant", content=(Text(text=rest),)))
    return kept


def _missing(calls: dict[str, ToolCall], known: dict[str, ToolResult], why: str) -> tuple[ToolResult, ...]:
    return tuple(known.get(call.id) or _unanswered(call, why) for call in calls.values())


def _unanswered(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=(Text(text=why),), is_error=True)
