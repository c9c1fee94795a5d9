"""Fit the response format. If the target cannot enforce it, an instruction in the prompt asks for it."""

from __future__ import annotations

from toolglot import features
from toolglot.ir import Request, ResponseFormat, replace
from toolglot.passes import Context
from toolglot.passes.instructions import instruct
from toolglot.plan import runs_on
from toolglot.wire import json


@runs_on(lambda context: features.FORMAT, adds=features.NEIGHBOURS | features.LATER_SYSTEM)
def fit(request: Request, context: Context, *, may_call: bool = False) -> Request:
    """Fit the response format to the target.

    `may_call`: the model writes its calls as text, so the instruction must not seem to forbid calls.
    """
    wanted = request.response_format
    if wanted is None:
        return request
    own = context.source == context.target and not context.aliased
    beside_tools = context.can.parameters.format_with_tools or own or not request.tools or wanted.kind == "text"
    if (
        "response_format" in context.can.parameters.fields
        and wanted.kind in context.can.parameters.response_formats
        and beside_tools
    ):
        return request
    request = replace(request, response_format=None)
    if wanted.kind == "text":
        return request
    if wanted.kind == "json_schema" and wanted.schema is None:
        wanted = replace(wanted, kind="json")
    context.receipt.loss("response_format", wanted.kind, "approximated: a line of text asks for it")
    return instruct(request, _format_instruction(wanted, may_call=may_call), context)


def _format_instruction(wanted: ResponseFormat, *, may_call: bool) -> str:
    start = "Call tools as you need them; when you answer, answer" if may_call else "Answer"
    line = f"{start} with one JSON object and nothing else: no prose, no code fence."
    if wanted.kind == "json":
        return line
    described = f" ({wanted.description})" if wanted.description else ""
    return f"{line} It must match this JSON Schema{described}:\n{json.encode_text(wanted.schema)}"
