"""The prompt for a second attempt, after the model wrote a call that cannot be run."""

from __future__ import annotations

from msgspec import Struct

from toolglot.ir import Block, Message, Request, Text, Tool, ToolCall, Usage, replace
from toolglot.textcalls.prompts.records import Result
from toolglot.textcalls.prompts.render import results_text

NOT_RUN = "This call was not run, because another call of the same answer was wrong. Write it once more."


class AttemptedCall(Struct, frozen=True):
    """A call that a model wrote, and what is wrong with it; empty if nothing is."""

    call: ToolCall
    problem: str = ""


class RetryPrompt(Struct, frozen=True, kw_only=True):
    """What is needed to ask a model again: its text so far, the calls in it, and their usage.

    `before` is the number of earlier calls in the conversation, for formats that number calls. `tools` may be called.
    """

    text: str
    written: tuple[AttemptedCall, ...]
    usage: Usage | None = None
    before: int = 0
    tools: tuple[Tool, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(f"{one.call.name}: {one.problem}" for one in self.written if one.problem)

    def messages(self, format_name: str) -> tuple[Message, Message]:
        """Return the turn as the model wrote it, and an error as the result of each call."""
        results = [
            Result(
                name=one.call.name,
                id=one.call.id,
                text=_error_text(one.problem) if one.problem else NOT_RUN,
                is_error=True,
                index=index,
            )
            for index, one in enumerate(self.written, self.before)
        ]
        answered = results_text(format_name, results, self.tools)
        return (
            Message(role="assistant", content=(Text(text=self.text),)),
            Message(role="user", content=(Text(text=answered),)),
        )

    def retry_request(self, sent: Request, format_name: str) -> Request:
        """Return the request with the first attempt and its errors appended."""
        turn, answer = self.messages(format_name)
        messages = sent.messages
        if messages and messages[-1].role == "assistant":  # the client sent the beginning of the answer
            turn = replace(messages[-1], content=_append_text(messages[-1].content, self.text))
            messages = messages[:-1]
        return replace(sent, messages=(*messages, turn, answer))


def _append_text(begun: tuple[Block, ...], text: str) -> tuple[Block, ...]:
    if begun and isinstance(last := begun[-1], Text):
        return (*begun[:-1], replace(last, text=last.text + text))
    return (*begun, Text(text=text))


def _error_text(problem: str) -> str:
    return f"This call was not run: {problem}. Write the corrected call."
