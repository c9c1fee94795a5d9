"""What Gemini demands of a history: a signature on the first call of every step."""

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

# Gemini 3 was the first to demand signatures; a name that tells no generation counts as new.
_UNSIGNED_MODELS = re.compile(r"(^|/)(gemini-[12]([.-]|$)|gemma)")
_SIGNED_MODELS = re.compile(r"(^|/)gemini-([3-9]|\d\d)")


def sign_steps(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Gemini 3 refuses a step whose first call has no signature; its siblings in a parallel batch carry none.

    Only the current turn is validated, but the mark stands on every step: taking it away again when a turn ends would
    change the prefix that the prompt cache holds. Gemini's own clients have kept what they were given, which may have
    been an answer of another model: where the model is known to refuse it, theirs are marked, too.
    """
    own = context.source == context.target and not context.carried
    if _UNSIGNED_MODELS.search(request.model) or (own and not _SIGNED_MODELS.search(request.model)):
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


DEMAND = HistoryDemand(apply=sign_steps, triggers=lambda context: features.CALLS)
