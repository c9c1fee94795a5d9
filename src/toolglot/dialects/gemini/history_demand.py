"""Gemini's demand on a history: the first call of every step must have a signature."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Message, Request, ToolCall, native_of, replace, with_native
from toolglot.passes import Context
from toolglot.passes.blocks import Place
from toolglot.passes.reasoning import UNKNOWN, UNSIGNED, is_anothers

_AS_ANOTHERS = "marked as another model's call"

# Gemini 3 was the first to require signatures. A name without a generation counts as new.
_UNSIGNED_MODELS = re.compile(r"(^|/)(gemini-[12]([.-]|$)|gemma)")
_SIGNED_MODELS = re.compile(r"(^|/)gemini-([3-9]|\d\d)")


def add_placeholder_signatures(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Add a placeholder signature to the first call of each step that has none.

    Gemini 3 refuses a step whose first call has no signature; the other calls of a parallel batch have none. The API
    validates only the current turn, but every step gets the placeholder: removing it when a turn ends would change the
    prefix in the prompt cache. Gemini's own clients send back what they got, which may be an answer of another model.
    Their calls get the placeholder only if the model is known to require it.
    """
    is_own_client = context.source == context.target and not context.carried
    if _UNSIGNED_MODELS.search(request.model) or (is_own_client and not _SIGNED_MODELS.search(request.model)):
        return request
    messages: list[Message] | None = None
    signed = anothers = False
    for number, message in enumerate(request.messages):
        if message.role != "assistant":
            signed = anothers = False
            continue
        if signed:
            continue
        for block in before[number].content:
            anothers = anothers or (bool(block.native) and is_anothers(block, NAME))
        for index, block in enumerate(message.content):
            if type(block) is not ToolCall:
                continue
            signed = True
            if "thoughtSignature" not in native_of(block, NAME):
                why = _AS_ANOTHERS if anothers else f"{_AS_ANOTHERS}, {UNKNOWN}"
                context.receipt.note(str(Place(number, index)), "no thought signature", why)
                marked = with_native(block, NAME, thoughtSignature=UNSIGNED)
                messages = messages or [*request.messages]
                content = (*message.content[:index], marked, *message.content[index + 1 :])
                messages[number] = replace(message, content=content)
            break
    return request if messages is None else replace(request, messages=tuple(messages))


DEMAND = HistoryDemand(apply=add_placeholder_signatures, triggers=lambda context: features.CALLS)
