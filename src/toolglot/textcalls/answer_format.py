"""The format to parse an answer with, which may be a subset of the format that the request was written in."""

from __future__ import annotations

from toolglot.ir import replace
from toolglot.textcalls.formats import WHOLE_ANSWER, find_format
from toolglot.textcalls.grammar import Format, Messages
from toolglot.textcalls.settings import TextCalls


def answer_format(settings: TextCalls, *, callable_: bool) -> Format:
    """Return the format to parse the answer with. If nothing may be called, it only separates reasoning. A leaked call
    counts only with a declared tool's name."""
    known = find_format(settings.format)
    if not callable_:
        return replace(known, calls=(), sections=(), messages=_without_calls(known.messages))
    if settings.rescue:
        return replace(known, calls=tuple(replace(call, weak=True) for call in known.calls))
    # A model that forgets its marks usually writes a call as its whole answer, as JSON.
    return replace(known, calls=(*known.calls, *WHOLE_ANSWER))


def _without_calls(messages: Messages | None) -> Messages | None:
    if messages is None:
        return None
    routes = (replace(route, to="text") if route.to.startswith("call") else route for route in messages.routes)
    return replace(messages, routes=tuple(routes))
