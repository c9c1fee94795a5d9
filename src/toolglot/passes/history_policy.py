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
from toolglot.passes.history_continue import append_question
from toolglot.passes.history_shorten import report_shortened, shorten
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
    """How much of a conversation to send, and what to repair in it. 0 means no limit. Unset fields come from the next
    more general section: a model's section overrides its upstream's, which overrides `history`."""

    max_messages: Amount | None = None
    """Maximum number of messages, not counting system text. The oldest are dropped, calls together with their
    results."""
    max_tool_results: Amount | None = None
    """Maximum number of tool results. The oldest are dropped with their calls; those of one turn go together."""
    max_tokens: Amount | None = None
    """Maximum size of the whole request in estimated tokens, including system text and tools. The oldest messages are
    dropped."""
    max_bytes: Amount | None = None
    """Maximum size of the conversation as JSON, not counting system text. The oldest messages are dropped."""
    max_images: Amount | None = None
    """Maximum number of images. A short text replaces the oldest ones."""
    result_bytes: Amount | None = None
    """Maximum size of text in one tool result. The middle of a longer one is cut, with a note to the model."""
    keep_first: bool | None = None
    """Always keep the user's first message, which often states the task."""
    cut_to: Annotated[float, Meta(ge=0.1, le=1)] | None = None
    """Share of a limit to cut down to once it is exceeded. Default: 0.75. A larger cut makes room for many turns, so
    prompt caches stay valid between cuts. 1 cuts the minimum at every turn."""
    repair: bool | None = None
    """Also pair calls with results and make repeated ids unique for clients that use the upstream's own dialect. For
    all other clients this is always done."""
    continuation: bool | Words | None = None
    """If a conversation ends with tool results, ask the model to continue: true uses a proven text, a string is your
    own. For models that would repeat the same calls."""
    calls: Format | None = None
    """Text format (or `auto` for any) of calls that old clients wrote into the conversation. They become native
    calls."""


LIMITS = ("max_messages", "max_tool_results", "max_tokens", "max_bytes", "max_images")
"""Fields that limit the whole conversation; each is a measure of `history_size`."""


class Layer(Struct, frozen=True):
    """One layer of a policy. `exact`: a cut goes exactly to its limits, unless a later layer sets `cut_to`."""

    policy: HistoryPolicy
    exact: bool = False


class MergedPolicy(Struct, frozen=True):
    """The policy merged from all layers."""

    merged: HistoryPolicy
    limits: tuple[Limit, ...]


@lru_cache(maxsize=256)
def merge_layers(layers: tuple[Layer, ...]) -> MergedPolicy:
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
    return MergedPolicy(
        policy, tuple(Limit(name, most, 1.0 if name in exact else share) for name, most in limits if most)
    )


def with_policy(
    passes: Sequence[RequestPass],
    settled: MergedPolicy,
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
    settled: MergedPolicy, image_tokens: ImageTokens, leans: Callable[[Request], bool]
) -> Iterator[RequestPass]:
    policy = settled.merged
    asking = ANALYZE_RESULTS if policy.continuation is True else policy.continuation or ""
    if policy.repair:
        yield _for_own_dialect(ids.unique, leans)
        yield _for_own_dialect(history.pair, leans)
    if policy.result_bytes:
        yield shorten(policy.result_bytes)
    if settled.limits:
        yield trim(settled.limits, keep_first=bool(policy.keep_first), asking=asking, image_tokens=image_tokens)
    if policy.result_bytes:
        yield report_shortened(policy.result_bytes)
    if asking:
        yield append_question(asking)


def _for_own_dialect(repair: RequestPass, leans: Callable[[Request], bool]) -> RequestPass:
    """Run a repair for clients of the upstream's own dialect. For all others it always runs."""

    def run(request: Request, context: Context) -> Request:
        # If the upstream stores the conversation, results may come without their calls.
        return request if context.source != context.target or leans(request) else repair(request, context)

    return run
