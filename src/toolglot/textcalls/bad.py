"""A call that cannot be run, and the words for it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import BAD_TOOL_CALL

SHOWN: Final = 120
"""How much of a model's raw text a receipt or an error shows: it ends up in headers and logs."""

BadKind = Literal[
    "wrong",  # it can be read: an unknown tool, arguments that do not fit
    "cut",  # a limit has ended the answer inside the call
    "unreadable",  # the model has written something else than a call
]


class BadCall(Struct, frozen=True):
    """Where the call stands, whose it is, what is wrong with it, and what the model wrote of its arguments."""

    index: int
    name: str
    why: str
    kind: BadKind
    raw: str = ""


def short(text: str) -> str:
    """The beginning of a model's raw text, for people."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def shown(bad: BadCall) -> str:
    """What a whole answer has in place of a call that cannot be read: the same words for every client."""
    wrote = f" The model wrote: {bad.raw}" if bad.raw else ""
    return f"[The call of {bad.name} cannot be read: {bad.why}.{wrote}]"


def tell(receipt: Receipt, bad: BadCall, *, fails: bool, whole: bool) -> None:
    """What becomes of it, in the receipt. `fails`: it ends the answer; `whole`: the answer does not stream."""
    where, what = f"content[{bad.index}]", f"call of {bad.name}"
    wrote = f"; the model wrote {short(bad.raw)}" if bad.raw else ""
    if bad.kind == "wrong":
        goes = "and the answer fails" if fails else "and goes to the client as it is"
        receipt.note(where, what, f"it is wrong {goes}: {bad.why}")
    elif bad.kind == "cut":
        receipt.loss(where, what, f"it is not whole: {bad.why}{wrote}")
    else:
        ends = "it is shown as text" if whole and not fails else "the answer fails"
        receipt.loss(where, what, f"it cannot be read, and {ends}: {bad.why}{wrote}")


def failed(bad: BadCall) -> ApiError:
    """The end of an answer that such a call stands in."""
    told = "read" if bad.kind == "unreadable" else "run"
    wrote = f"; it wrote {short(bad.raw)}" if bad.raw else ""
    message = f"The model wrote a call of {bad.name or 'a tool'} that cannot be {told}: {bad.why}{wrote}"
    return ApiError(kind="server", status=502, code=BAD_TOOL_CALL, message=message)
