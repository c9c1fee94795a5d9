"""The prompt for a second attempt, after the model wrote a call that cannot be run."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.ir import Block, Message, Request, Text, Tool, ToolCall, Usage, replace
from toolglot.receipt import Receipt
from toolglot.textcalls.prompts.records import Result
from toolglot.textcalls.prompts.render import results_text
from toolglot.textcalls.settings import BAD_TOOL_CALL

MAX_RAW_CHARS: Final = 120
"""Maximum characters of a model's raw text in a receipt or an error, which end up in headers and logs."""

BadKind = Literal[
    "wrong",  # readable: an unknown tool, or invalid arguments
    "cut",  # a limit ended the answer inside the call
    "unreadable",  # the model wrote something that is not a call
]


class BadCall(Struct, frozen=True):
    """A call that cannot be run: its index and tool, its problem, and the model's text of its arguments."""

    index: int
    name: str
    why: str
    kind: BadKind
    raw: str = ""


def shorten_raw(text: str) -> str:
    """Shorten a model's raw text for display."""
    return repr(text if len(text) <= MAX_RAW_CHARS else f"{text[:MAX_RAW_CHARS]}…")


def bad_call_text(bad: BadCall) -> str:
    """Return the text that replaces an unreadable call in a whole answer, the same for every client."""
    wrote = f" The model wrote: {bad.raw}" if bad.raw else ""
    return f"[The call of {bad.name} cannot be read: {bad.why}.{wrote}]"


def report_bad_call(receipt: Receipt, bad: BadCall, *, fails: bool, whole: bool) -> None:
    """Report the call in the receipt. `fails`: it ends the answer; `whole`: the answer is not streamed."""
    where, what = f"content[{bad.index}]", f"call of {bad.name}"
    wrote = f"; the model wrote {shorten_raw(bad.raw)}" if bad.raw else ""
    if bad.kind == "wrong":
        goes = "and the answer fails" if fails else "and goes to the client as it is"
        receipt.note(where, what, f"it is wrong {goes}: {bad.why}")
    elif bad.kind == "cut":
        receipt.loss(where, what, f"it is not whole: {bad.why}{wrote}")
    else:
        ends = "it is shown as text" if whole and not fails else "the answer fails"
        receipt.loss(where, what, f"it cannot be read, and {ends}: {bad.why}{wrote}")


def bad_call_error(bad: BadCall) -> ApiError:
    """Return the error that ends an answer with such a call."""
    told = "read" if bad.kind == "unreadable" else "run"
    wrote = f"; it wrote {shorten_raw(bad.raw)}" if bad.raw else ""
    message = f"The model wrote a call of {bad.name or 'a tool'} that cannot be {told}: {bad.why}{wrote}"
    return ApiError(kind="server", status=502, code=BAD_TOOL_CALL, message=message)


NOT_RUN = "This call was not run, because another call of the same answer was wrong. Write it once more."


class AttemptedCall(Struct, frozen=True):
    """A model's call, and its problem; empty if it has none."""

    call: ToolCall
    problem: str = ""


class RetryPrompt(Struct, frozen=True, kw_only=True):
    """The data needed to ask a model again: its text so far, the calls in it, and their usage.

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
