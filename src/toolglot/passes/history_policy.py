"""What is to become of a conversation on its way to an upstream: how much of it is sent, and what of it is mended.

A policy is said in layers, the general ones first: what a layer does not say is as the ones before it say. The passes
that keep to it stand right behind the repair of the history, which has found the pairs of calls and results; there, at
last, everything that goes to the model is in the conversation, and nothing has been written in the target's own words.
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
"""To this share of a limit is cut whatever has passed it: then the next turns extend what was sent, and the prompt
caches of upstreams hold."""

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
"""The fields that bound the whole conversation; each of them is a measure of `history_size`."""


class Layer(Struct, frozen=True):
    """A part of what is said. `exact`: its limits are not cut in steps, unless a later layer says how far."""

    policy: HistoryPolicy
    exact: bool = False


class Settled(Struct, frozen=True):
    """A policy in which nothing is left open."""

    said: HistoryPolicy
    limits: tuple[Limit, ...]


@lru_cache(maxsize=256)
def settle(layers: tuple[Layer, ...]) -> Settled:
    """What all the layers say together."""
    said: dict[str, object] = {}
    exact: set[str] = set()
    for layer in layers:
        own = {name: value for name, value in asdict(layer.policy).items() if value is not None}
        exact = exact | own.keys() if layer.exact else exact - (exact if "cut_to" in own else own.keys())
        said |= own
    policy = HistoryPolicy(**said)  # type: ignore[arg-type]  # fields of such policies
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
    """The passes with those among them that keep to the policy. `image_tokens`: what an image costs at the upstream;
    `leans`: whether a request of its own dialect goes on from something that only the upstream has."""
    keeping = tuple(_keeping(settled, image_tokens, leans))
    if not keeping:
        return tuple(passes)
    place = passes.index(history.repair) + 1
    return (*passes[:place], *keeping, *passes[place:])


def _keeping(settled: Settled, image_tokens: ImageTokens, leans: Callable[[Request], bool]) -> Iterator[RequestPass]:
    said = settled.said
    asking = ANALYZE_RESULTS if said.continuation is True else said.continuation or ""
    if said.repair:
        yield _at_home(ids.unique, leans)
        yield _at_home(history.pair, leans)
    if said.result_bytes:
        yield shorten(said.result_bytes)
    if settled.limits:
        yield trim(settled.limits, keep_first=bool(said.keep_first), asking=asking, image_tokens=image_tokens)
    if said.result_bytes:
        yield tell(said.result_bytes)
    if asking:
        yield go_on(asking)


def _at_home(mend: RequestPass, leans: Callable[[Request], bool]) -> RequestPass:
    """The pass that does for a dialect's own client what is always done for others."""

    def mended(request: Request, context: Context) -> Request:
        # The calls of results that come alone may be in what the upstream keeps.
        return request if context.source != context.target or leans(request) else mend(request, context)

    return mended
