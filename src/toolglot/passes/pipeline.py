"""The request passes, in order.

Each pass may rely on those before it:

- Envelopes are opened first: only toolglot may see them. Calls written as text in the history are parsed next, so that
  all later passes see them as calls.
- Readable opaque blocks are replaced; some become calls and results. Foreign fields are reported next, while paths are
  still those of the client's request.
- Ids are derived before repair, which pairs calls and results by id. Deferred tools and their references come before
  names change. Names come before custom tools are wrapped, because the names pass records the kind of each tool. Ids
  are shortened after repair, which may add results.
- A history policy drops content directly after repair (`history_policy.with_policy`): pairs are complete, and no work
  has been spent on the dropped content.
- Tools become text (if the model needs that) once calls have results, tools have names and custom tools are wrapped.
  This precedes the passes for reasoning, media and turns, which treat it as ordinary text. The passes that fit tools,
  schemas and choices to the target follow, and find nothing to do.
- Reasoning comes before the tool choice, which depends on whether the model reasons.
- Opaque blocks are removed after deferred tools have read their references, and before other passes inspect content.
- Media and empty content add and remove messages, so turns are grouped afterwards. Removal of what a target rejects
  comes after that.
- Cache breakpoints for clients that set none come last, when all content is in its final place.

Most requests need few passes. Each pass declares with `plan.runs_on` the request features that it handles.
"""

from __future__ import annotations

from toolglot.ir import Request
from toolglot.passes import (
    Context,
    RequestPass,
    cache,
    cache_marks,
    carry,
    choice,
    content,
    context_window,
    custom,
    deferred,
    details,
    effort,
    foreign,
    foreign_forms,
    formats,
    history,
    ids,
    media,
    names,
    opaque,
    parameters,
    reasoning,
    refused,
    schema,
    system,
    textual,
    turns,
)
from toolglot.plan import run_passes

REQUEST_PASSES: tuple[RequestPass, ...] = (
    details.open_details,
    carry.open_envelopes,
    textual.read_history,
    opaque.translate,
    foreign_forms.normalize,
    foreign.report,
    ids.derive,
    history.repair,
    deferred.offer,
    names.shorten,
    custom.wrap,
    textual.render,
    ids.shorten,
    reasoning.settle,
    schema.fit,
    foreign.remove,
    system.fit,
    content.fit,
    media.fit,
    parameters.fit,
    context_window.set_window,
    effort.fit,
    choice.fit,
    formats.fit,
    cache.fit,
    turns.group,
    refused.fit,
    cache_marks.originate,
)


def prepare(request: Request, context: Context) -> Request:
    """Run all request passes: rewrite the request into what the target can express."""
    return run_passes(request, REQUEST_PASSES, context)[0]
