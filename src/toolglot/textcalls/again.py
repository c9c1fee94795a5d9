"""A second try: what the model is told when it wrote a call that cannot be run."""

from __future__ import annotations

from msgspec import Struct

from toolglot.ir import Block, Message, Request, Text, Tool, ToolCall, Usage, replace
from toolglot.textcalls.prompts.records import Result
from toolglot.textcalls.prompts.render import results_text

NOT_RUN = "This call was not run, because another call of the same answer was wrong. Write it once more."


class Written(Struct, frozen=True):
    """A call that a model wrote, and what is wrong with it; empty when nothing is."""

    call: ToolCall
    problem: str = ""


class Again(Struct, frozen=True, kw_only=True):
    """A model is to be asked once more: what it wrote so far, its calls among that, and what it cost.

    `before` is the number of calls in the conversation before, for formats that count them. `tools` may be called.
    """

    text: str
    written: tuple[Written, ...]
    usage: Usage | None = None
    before: int = 0
    tools: tuple[Tool, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(f"{one.call.name}: {one.problem}" for one in self.written if one.problem)

    def messages(self, format_name: str) -> tuple[Message, Message]:
        """The turn as the model wrote it, and an error as the result of each call."""
        results = [
            Result(
                name=one.call.name,
                id=one.call.id,
                text=_told(one.problem) if one.problem else NOT_RUN,
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

    def asked(self, sent: Request, format_name: str) -> Request:
        """The request once more, with the first try and what is wrong with it."""
        turn, answer = self.messages(format_name)
        messages = sent.messages
        if messages and messages[-1].role == "assistant":  # the beginning of the answer was given
            turn = replace(messages[-1], content=_continued(messages[-1].content, self.text))
            messages = messages[:-1]
        return replace(sent, messages=(*messages, turn, answer))


def _continued(begun: tuple[Block, ...], text: str) -> tuple[Block, ...]:
    if begun and isinstance(last := begun[-1], Text):
        return (*begun[:-1], replace(last, text=last.text + text))
    return (*begun, Text(text=text))


def _told(problem: str) -> str:
    return f"This call was not run: {problem}. Write the corrected call."
