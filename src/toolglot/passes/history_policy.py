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
