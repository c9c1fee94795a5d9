"""The passes that a request goes through on its way to another dialect, in order.

Each one may rely on those before it:

- Envelopes are opened before everything else: nobody but us may see them. Calls that stand as text in the history are
  read next, so that everything behind sees them as calls.
- Opaque blocks that can be read become what they say; some are calls and results. Foreign fields are told next, while
  paths are still those of the client's request.
- Ids come before repair, which pairs calls and results by them; deferred tools and references before names change;
  names before custom tools are wrapped, because the names pass writes down what kind a tool was; ids are shortened
  after repair, which may bring new results.
- What a policy leaves out of a history goes right behind repair (`history_policy.with_policy`): pairs are whole there,
  and nothing has yet been made of what goes.
- Where tools are text, they become it once calls have their results, tools their names and custom ones their wrapping,
  and before whatever fits reasoning, media and turns: to these it is text like any other. The limits of the target's
  wire on tools, schemas and choices come after it and find nothing left.
- Reasoning comes before the choice of tools, which depends on whether the model reasons.
- Opaque blocks go after deferred tools have read their references, and before anything looks at what is left.
- Media and emptiness make and unmake messages, so turns are grouped after them; what a target refuses of whole
  turns comes last.
- Cache breakpoints for clients without any are set when everything else stands where it will be sent.

Most requests need few of them: each says with `plan.runs_on` which features of a request give it something to do.
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
    custom,
    deferred,
    details,
    effort,
    foreign,
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
    effort.fit,
    choice.fit,
    formats.fit,
    cache.fit,
    turns.group,
    refused.fit,
    cache_marks.originate,
)


def prepare(request: Request, context: Context) -> Request:
    """The request as the target can express it."""
    return run_passes(request, REQUEST_PASSES, context)[0]
