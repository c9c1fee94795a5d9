"""History policy: how much of a conversation is sent to an upstream, and which repairs are made.

A policy is merged from layers, the general ones first. A field that a layer leaves unset is inherited from the layers
before it. The passes that apply the policy run directly after the repair of the history, which has paired calls and
results. At that point the conversation is complete, and nothing is in the target's own form yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from toolglot.ir import Request
from toolglot.passes import Context, RequestPass, history, ids
from toolglot.passes.history_continue import go_on
from toolglot.passes.history_shorten import shorten, tell
from toolglot.passes.history_size import Limit
from toolglot.passes.trim import trim
from toolglot.tokens.media import ImageTokens, tokens_by_area
from toolglot.tools.inserted_text import ANALYZE_RESULTS

CUT_TO = 0.75
"""Share of a limit that remains after a cut. The next turns then extend the sent prefix, and the upstream's prompt
cache stays valid."""

Amount = Annotated[int, Meta(ge=0, le=2**40)]
Words = Annotated[str, Meta(min_length=1, max_length=2000)]
Format = Annotated[str, Meta(min_length=1, max_length=512)]


class HistoryPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a conversation is sent, and what of it is mended. 0 is no limit. What is not said is as in a more
    general section: that of a model goes before that of its upstream, and that before `history`."""

    max_messages: Amount | None = None
    """Messages, beside system text: the oldest go, calls with their results."""
    max_tool_results: Amount | None = None
    """Results of tools: the oldest go with their calls, those of one turn together."""
    max_tokens: Amount | None = None
    """Tokens of the whole request, as they are estimated: system text and tools count, and the oldest messages go."""
    max_bytes: Amount | None = None
    """Bytes of the conversation as JSON, beside system text: the oldest messages go."""
    max_images: Amount | None = None
    """Images: in the place of the oldest stands a short text."""
    result_bytes: Amount | None = None
    """Bytes of text in one result of a tool: of a longer one the middle goes, and the model is told how much."""
    keep_first: bool | None = None
    """Keep the user's first message, which often says what it is all about, whatever else goes."""
    cut_to: Annotated[float, Meta(ge=0.1, le=1)] | None = None
    """The share of a limit to which is cut what has passed it (0.75): a cut makes room for many turns, so that prompt
    caches hold between cuts. 1 cuts no more than it must, at every turn."""
    repair: bool | None = None
    """Pair calls and results, and make repeated ids unique, also where the client speaks the upstream's own dialect:
    for all others that is always done."""
    continuation: bool | Words | None = None
    """Where a conversation ends in results of tools, ask the model to go on: true in words that are known to work, or
    in words of your own. For models that would call the same tools again."""
    calls: Format | None = None
    """The text format, or `auto` for any, in which old clients have written calls into the conversation: they become
    native ones."""


LIMITS = ("max_messages", "max_tool_results", "max_tokens", "max_bytes", "max_images")
"""Fields that limit the whole conversation; each is a measure of `history_size`."""


class Layer(Struct, frozen=True):
    """One layer of a policy. `exact`: a cut goes exactly to its limits, unless a later layer sets `cut_to`."""

    policy: HistoryPolicy
    exact: bool = False


class Settled(Struct, frozen=True):
    """The policy merged from all layers."""

    said: HistoryPolicy
    limits: tuple[Limit, ...]


@lru_cache(maxsize=256)
def settle(layers: tuple[Layer, ...]) -> Settled:
    """Merge the layers."""
    merged: dict[str, object] = {}
    exact: set[str] = set()
    for layer in layers:
        own = {name: value for name, value in asdict(layer.policy).items() if value is not None}
        exact = exact | own.keys() if layer.exact else exact - (exact if "cut_to" in own else own.keys())
        merged |= own
    policy = HistoryPolicy(**merged)  # type: ignore[arg-type]  # fields of such policies
    share = CUT_TO if policy.cut_to is None else policy.cut_to
    limits = ((name, getattr(policy, name)) for name in LIMITS)
    return Settled(policy, tuple(Limit(name, most, 1.0 if name in exact else share) for name, most in limits if most))


def with_policy(
    passes: Sequence[RequestPass],
    settled: Settled,
    *,
    image_tokens: ImageTokens = tokens_by_area,
    leans: Callable[[Request], bool] = lambda request: False,
) -> tuple[RequestPass, ...]:
    """Insert the passes that apply the policy. `image_tokens`: the cost of an image at the upstream; `leans`: whether a
    request in the upstream's own dialect continues from state that only the upstream has."""
    added = tuple(_policy_passes(settled, image_tokens, leans))
    if not added:
        return tuple(passes)
    place = passes.index(history.repair) + 1
    return (*passes[:place], *added, *passes[place:])


def _policy_passes(
    settled: Settled, image_tokens: ImageTokens, leans: Callable[[Request], bool]
) -> Iterator[RequestPass]:
    policy = settled.said
    asking = ANALYZE_RESULTS if policy.continuation is True else policy.continuation or ""
    if policy.repair:
        yield _for_own_dialect(ids.unique, leans)
        yield _for_own_dialect(history.pair, leans)
    if policy.result_bytes:
        yield shorten(policy.result_bytes)
    if settled.limits:
        yield trim(settled.limits, keep_first=bool(policy.keep_first), asking=asking, image_tokens=image_tokens)
    if policy.result_bytes:
        yield tell(policy.result_bytes)
    if asking:
        yield go_on(asking)


def _for_own_dialect(repair: RequestPass, leans: Callable[[Request], bool]) -> RequestPass:
    """Run a repair for clients of the upstream's own dialect. For all others it always runs."""

    def run(request: Request, context: Context) -> Request:
        # If the upstream stores the conversation, results may come without their calls.
        return request if context.source != context.target or leans(request) else repair(request, context)

    return run
