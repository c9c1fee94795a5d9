"""Tool calls as text, where an exchange says so: the doors to `textcalls`.

Nobody else waits until all text formats have been read: they are imported when one is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolglot import features
from toolglot.dialect import Capabilities
from toolglot.ir import Request
from toolglot.passes import Context
from toolglot.plan import runs_on

if TYPE_CHECKING:
    from toolglot.textcalls.answer import TextAnswerPass
    from toolglot.textcalls.retry_prompt import RetryPrompt
    from toolglot.textcalls.settings import TextCalls


def capabilities_of(can: Capabilities, text_calls: TextCalls | None) -> Capabilities:
    """What the target can be told, where it may be told of tools as text."""
    if text_calls is None or text_calls.rescue:
        return can
    from toolglot.textcalls.request import text_capabilities

    return text_capabilities(can, text_calls.format)


@runs_on(lambda context: 0 if context.text is None or context.text.history_format is None else features.ANY, adds=None)
def read_history(request: Request, context: Context) -> Request:
    """Calls and results that stand as text in the conversation, as native ones."""
    if context.text is None or context.text.history_format is None:
        return request
    from toolglot.textcalls.history import native_history

    return native_history(request, context.text.history_format, context.receipt)


@runs_on(lambda context: 0 if context.text is None or context.text.calls is None else features.ANY, adds=None)
def render(request: Request, context: Context) -> Request:
    """Tools, calls and results as text, for a model that knows no others."""
    if context.text is None or context.text.calls is None:
        return request
    from toolglot.textcalls import request as text_request

    return text_request.render(request, context)


def reader(context: Context, again: RetryPrompt | None, *, whole: bool = False) -> TextAnswerPass | None:
    """The event pass that reads calls out of an answer's text, which may be there as a `whole`; None where none may
    stand there."""
    if context.text is None or context.text.tools is None:
        return None
    from toolglot.textcalls.answer import TextAnswerPass

    return TextAnswerPass(context, again, whole=whole)
