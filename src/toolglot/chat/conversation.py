"""The conversation so far, as messages of the IR. The next model gets all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from toolglot.ir import Message, Reasoning, Request, Text, ToolCall, ToolResult, replace

STOPPED = "The user stopped this call before it had a result."
STOPPED_HERE = "[The user stopped the answer here.]"
LOST = "This call has no result: the answer broke off."
NO_TOOL = "There is no such tool: nothing was run."


class AttributedMessage(Struct, frozen=True, kw_only=True):
    """A message; for an assistant's, the name of the model."""

    message: Message
    model: str = ""


class FailedAnswer(Struct, frozen=True, kw_only=True):
    """An answer that did not arrive, or not completely. No model sees it."""

    why: str
    model: str


ChatEntry = AttributedMessage | FailedAnswer


class ChatConversation:
    """The entries so far, and the system text before them."""

    def __init__(self, system: str = "") -> None:
        self.system = system
        self._entries: list[ChatEntry] = []

    @property
    def entries(self) -> Sequence[ChatEntry]:
        return tuple(self._entries)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages for a model."""
        system = (Message(role="system", content=(Text(text=self.system),)),) if self.system else ()
        return (*system, *(entry.message for entry in self._entries if isinstance(entry, AttributedMessage)))

    def add_user_text(self, text: str) -> None:
        self._entries.append(AttributedMessage(message=Message(role="user", content=(Text(text=text),))))

    def add_answer(self, messages: Iterable[Message], model: str) -> None:
        """Add the model's messages, and the results between them."""
        for message in messages:
            if message.content:
                self._entries.append(
                    AttributedMessage(message=message, model=model if message.role == "assistant" else "")
                )

    def add_failure(self, why: str, model: str) -> None:
        self._entries.append(FailedAnswer(why=why, model=model))

    def clear(self) -> None:
        self._entries.clear()

    def request(self, model: str, *, effort: str | None = None) -> Request:
        """Return the next request: the same history for every model."""
        reasoning = Reasoning(effort=effort, show=True) if effort else None
        return Request(model=model, messages=self.messages, reasoning=reasoning, stream=True)


def complete_results(
    messages: Sequence[Message], results: Sequence[ToolResult] = (), rest: str = "", why: str = NO_TOOL
) -> list[Message]:
    """Return the stored part of an answer: every call has a result, so that any model accepts it. `results` are those
    that arrived before the answer broke off, `rest` is the text of an unfinished round, and `why` explains calls
    without a result.
    """
    known = {result.call_id: result for result in results}
    kept: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "tool":
            for block in message.content:
                waiting.pop(block.call_id if isinstance(block, ToolResult) else "", None)
            message = replace(message, content=(*message.content, *_missing_results(waiting, known, why)))
        elif waiting:
            kept.append(Message(role="tool", content=_missing_results(waiting, known, why)))
        waiting = {block.id: block for block in message.content if isinstance(block, ToolCall)}
        kept.append(message)
    if waiting:
        kept.append(Message(role="tool", content=_missing_results(waiting, known, why)))
    if why == STOPPED and not rest.strip() and kept and kept[-1].role == "tool":
        rest = STOPPED_HERE  # otherwise the user's next text would seem to belong to the results
    if rest.strip():
        kept.append(Message(role="assistant", content=(Text(text=rest),)))
    return kept


def _missing_results(calls: dict[str, ToolCall], known: dict[str, ToolResult], why: str) -> tuple[ToolResult, ...]:
    return tuple(known.get(call.id) or _missing_result(call, why) for call in calls.values())


def _missing_result(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=(Text(text=why),), is_error=True)
