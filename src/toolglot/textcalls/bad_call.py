"""A call that cannot be run, and its error messages."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import BAD_TOOL_CALL

MAX_RAW_CHARS: Final = 120
"""Characters of a model's raw text in a receipt or an error, which end up in headers and logs."""

BadKind = Literal[
    "wrong",  # readable: an unknown tool, or invalid arguments
    "cut",  # a limit ended the answer inside the call
    "unreadable",  # the model wrote something that is not a call
]


class BadCall(Struct, frozen=True):
    """Index and tool of the call, what is wrong with it, and what the model wrote of its arguments."""

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
