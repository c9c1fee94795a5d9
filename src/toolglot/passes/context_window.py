"""Request the configured context window, if the wire format has a member for it.

The window does not cap the output limit. Only the server knows how many tokens the input takes, so a cap computed here
could also be refused, or could cut answers. Ollama and llama.cpp stop at the end of the window. Other servers refuse
the limit and name the remaining space, which `remedies` then requests.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolglot import features
from toolglot.ir import Request, with_native
from toolglot.passes import Context
from toolglot.plan import runs_on


def _triggers(context: Context) -> int:
    limits = context.can.limits
    return features.ANY if limits.context_window is not None and limits.window_member else 0


@runs_on(_triggers)
def set_window(request: Request, context: Context) -> Request:
    """Set the window unless the client did."""
    limits = context.can.limits
    if limits.context_window is None or not limits.window_member:
        return request
    container, member = limits.window_member
    known = request.native.get(context.target, {}).get(container)
    members = known if isinstance(known, Mapping) else {}
    if members.get(member) is not None:
        return request
    return with_native(request, context.target, **{container: {**members, member: limits.context_window}})
