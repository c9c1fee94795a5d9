"""Entry points to `textcalls`, for exchanges with tool calls as text.

`textcalls` is imported lazily: other exchanges do not wait for all text formats to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolglot import features
from toolglot.capabilities import Capabilities
from toolglot.ir import Request
from toolglot.passes import Context
from toolglot.plan import runs_on

if TYPE_CHECKING:
    from toolglot.textcalls.answer import TextAnswerPass
    from toolglot.textcalls.retry_prompt import RetryPrompt
    from toolglot.textcalls.settings import TextCalls


def capabilities_of(can: Capabilities, text_calls: TextCalls | None) -> Capabilities:
    """Return the target's capabilities, if tools may be described to it as text."""
    if text_calls is None or text_calls.rescue:
        return can
    from toolglot.textcalls.request import text_capabilities

    return text_capabilities(can, text_calls.format)


@runs_on(lambda context: 0 if context.text is None or context.text.history_format is None else features.ANY, adds=None)
def read_history(request: Request, context: Context) -> Request:
    """Turn calls and results that are text in the conversation into native ones."""
    if context.text is None or context.text.history_format is None:
        return request
    from toolglot.textcalls.history import native_history

    return native_history(request, context.text.history_format, context.receipt)


@runs_on(lambda context: 0 if context.text is None or context.text.calls is None else features.ANY, adds=None)
def render(request: Request, context: Context) -> Request:
    """Turn tools, calls and results into text, for a model without native tool calls."""
    if context.text is None or context.text.calls is None:
        return request
    from toolglot.textcalls import request as text_request

    return text_request.render(request, context)


def reader(context: Context, retry: RetryPrompt | None, *, whole: bool = False) -> TextAnswerPass | None:
    """Create the event pass that parses calls in an answer's text; None if the text cannot contain calls. `whole`: the
    answer is not streamed."""
    if context.text is None or context.text.tools is None:
        return None
    from toolglot.textcalls.answer import TextAnswerPass

    return TextAnswerPass(context, retry, whole=whole)
