"""What Gemini demands of a history: a signature on the first call of every step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Message, Request, ToolCall, native_of, replace, with_native
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_messages
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
    signed = anothers = False

    def sign(message: Message, number: int) -> Message:
        nonlocal signed, anothers
        if message.role != "assistant":
            signed = anothers = False
            return message
        anothers = anothers or any(block.native and is_anothers(block, NAME) for block in before[number].content)
        for index, block in enumerate(message.content):
            if signed or not isinstance(block, ToolCall):
                continue
            signed = True
            if "thoughtSignature" not in native_of(block, NAME):
                why = _AS_ANOTHERS if anothers else f"{_AS_ANOTHERS}, {UNKNOWN}"
                context.receipt.note(str(Place(number, index)), "no thought signature", why)
                marked = with_native(block, NAME, thoughtSignature=UNSIGNED)
                return replace(message, content=(*message.content[:index], marked, *message.content[index + 1 :]))
        return message

    return rewrite_messages(request, sign)


DEMAND = HistoryDemand(apply=sign_steps, triggers=lambda context: features.CALLS)
