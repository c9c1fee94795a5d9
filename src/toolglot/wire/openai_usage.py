"""`usage` of OpenAI's two APIs, which differ in the names of their members.

Servers that imitate Chat Completions differ in more: the place of cache counts, and whether reasoning is part of the
output. These names are read in any place:

- Reads from the cache: `cached_tokens`; `cache_read_input_tokens` (LiteLLM), `prompt_cache_hit_tokens` (DeepSeek),
  `num_cached_tokens` (Mistral, vLLM).
- Writes to it: `cache_write_tokens` (OpenAI, OpenRouter); `cache_creation_tokens` and `cache_creation_input_tokens`
  (LiteLLM and other gateways to Claude).
- Lifetimes of writes: `cache_write_tokens_details` (OpenAI: 30 minutes, 12 hours), `cache_creation_token_details`
  (LiteLLM) and `cache_creation` (Anthropic: 5 minutes, 1 hour).

xAI counts reasoning separately from the output. Google's endpoint leaves it out of the output and includes it only in
the total. Some gateways to Claude leave cache reads and writes out of the prompt; their total may still include them.

If input or output is missing, it is computed from the total. Tokens beyond the output are reasoning only if the output
was reported: a missing output is not an output of 0.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolglot.ir import Usage, sum_counts
from toolglot.wire.usage import ORIGINAL, CountNames, Path, UsageReader, read_plain, unchanged_original, with_original

_TOTAL = ("total_tokens",)


class UsageNames(Struct, frozen=True, kw_only=True):
    """The names of the members in one of the APIs."""

    owner: str
    input: Path
    output: Path
    read: tuple[Path, ...]
    written: tuple[Path, ...]
    written_long: tuple[Path, ...]
    written_short: tuple[Path, ...]
    reasoning: tuple[Path, ...]
    implied: tuple[Path, ...]
    """Members that follow from the others."""
    tells_lifetimes: bool
    """True if the API itself has a member for the lifetimes of cache writes."""
    details_required: bool
    """True if the API's types require the counts within `details`: an unreported count is written as 0."""
    plain: CountNames
    """The members that the API itself has."""
    order: tuple[str, ...] = ()
    """The order of members, if the details do not follow their sum."""

    def decode(self, usage: Any, where: str = "$.usage") -> Usage:
        found = read_plain(usage, self.plain)
        if found is None:
            reader = UsageReader(usage, where)
            return _names_in(self, _shape(usage))._decode(usage, reader)
        counts, rest = found
        count = counts.get
        prompt, completion, total = count("input"), count("output"), count("total")
        read, written, reasoning = count("read"), count("written") or None, count("reasoning")
        if rest or not _is_consistent(prompt, completion, (read or 0) + (written or 0), reasoning, total):
            return self._usage(
                usage,
                rest,
                prompt=prompt,
                completion=completion,
                total=total,
                read=read,
                written=written,
                long=None,
                reasoning=reasoning,
            )
        return Usage(
            input_tokens=prompt,
            output_tokens=completion,
            cached_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=reasoning,
            native={self.owner: {ORIGINAL: usage}},
        )

    def _decode(self, usage: dict[str, Any], reader: UsageReader) -> Usage:
        prompt, completion = reader.count(self.input), reader.count(self.output)
        read, total = reader.count(*self.read), reader.count(_TOTAL)
        long, short = reader.count(*self.written_long), reader.count(*self.written_short)
        written = reader.count(*self.written) or sum_counts(long, short)
        reader.skip(*self.implied)
        reasoning = reader.count(*self.reasoning)
        return self._usage(
            usage,
            reader.rest(),
            prompt=prompt,
            completion=completion,
            total=total,
            read=read,
            written=written,
            long=long,
            reasoning=reasoning,
        )

    def _usage(
        self,
        usage: dict[str, Any],
        rest: dict[str, Any],
        *,
        prompt: int | None,
        completion: int | None,
        total: int | None,
        read: int | None,
        written: int | None,
        long: int | None,
        reasoning: int | None,
    ) -> Usage:
        """Build the usage from these counts. `rest` has the members that are not counts."""
        cached = (read or 0) + (written or 0)
        tokens, output = prompt, completion
        if not _is_consistent(prompt, completion, cached, reasoning, total):
            prompt, completion = _fill_from_total(prompt, completion, cached, total)
            tokens, output, reasoning = _whole_counts(prompt, completion, cached, reasoning, total)
        if total and total != (tokens or 0) + (output or 0):
            rest[_TOTAL[0]] = total
        return Usage(
            input_tokens=tokens,
            output_tokens=output,
            cached_tokens=read,
            cache_write_tokens=written,
            cache_write_long_tokens=None if long is None or written is None else min(long, written),
            reasoning_tokens=reasoning,
            native=with_original(self.owner, usage, rest),
        )

    def encode(self, usage: Usage) -> dict[str, Any]:
        if self.owner in usage.native and (came := unchanged_original(usage, self.owner, self.decode)) is not None:
            return came
        tokens, output = usage.input_tokens or 0, usage.output_tokens or 0
        if not self.details_required and _details_of(usage) == _NO_DETAILS:
            return {self.input[0]: tokens, self.output[0]: output, _TOTAL[0]: tokens + output}
        cached, reasoning = self._details(usage), usage.reasoning_tokens
        written: dict[str, Any] = {
            self.input[0]: tokens,
            self.read[0][0]: cached,
            self.output[0]: output,
            self.reasoning[0][0]: (
                {"reasoning_tokens": reasoning or 0} if self.details_required or reasoning is not None else {}
            ),
            _TOTAL[0]: tokens + output,
        }
        if self.details_required:
            return written
        return {name: written[name] for name in self.order or written if written[name] != {}}

    def _details(self, usage: Usage) -> dict[str, Any]:
        """Return the numbers of tokens read from the cache and written to it."""
        read, written = usage.cached_tokens, usage.cache_write_tokens
        if self.details_required:
            counts: dict[str, Any] = {"cached_tokens": read or 0, "cache_write_tokens": written or 0}
        else:
            counts = {} if read is None else {"cached_tokens": read}
            if written is not None:
                counts["cache_write_tokens"] = written
        return counts if usage.cache_write_long_tokens is None else {**counts, **self._lifetimes(usage)}

    def _lifetimes(self, usage: Usage) -> dict[str, Any]:
        long = usage.cache_write_long_tokens
        if not self.tells_lifetimes or not usage.cache_write_tokens or long is None:
            return {}
        return {
            "cache_write_tokens_details": {
                "ttl_30m_tokens": usage.cache_write_tokens - long,
                "ttl_12h_tokens": long,
            }
        }


_details_of = attrgetter("cached_tokens", "cache_write_tokens", "cache_write_long_tokens", "reasoning_tokens")
_NO_DETAILS = (None,) * 4


def _shape(usage: dict[str, Any]) -> tuple[Path, ...]:
    """Return the names of the members and of nested members. They are nearly always the same for one server."""
    return (tuple(usage), *[(name, *value) for name, value in usage.items() if type(value) is dict])


_MOST_SHAPES, _MOST_CHARACTERS = 256, 2048
_narrowed_names: dict[tuple[str, tuple[Path, ...]], UsageNames] = {}
"""The names that usage objects of a shape have, by owner and shape. Servers choose the shapes, so only few small ones
are cached."""


def _names_in(names: UsageNames, shape: tuple[Path, ...]) -> UsageNames:
    """Limit the names to those that a usage object of this shape has, so that reading it looks for no others."""
    found = _narrowed_names.get((names.owner, shape))
    if found is None:
        found = _narrow(names, shape)
        if len(_narrowed_names) >= _MOST_SHAPES:
            _narrowed_names.clear()
        if sum(len(name) + 1 for members in shape for name in members) <= _MOST_CHARACTERS:
            _narrowed_names[names.owner, shape] = found
    return found


def _narrow(names: UsageNames, shape: tuple[Path, ...]) -> UsageNames:
    top, *inner = shape
    nested = {name: members for name, *members in inner}

    def is_in(path: Path) -> bool:
        return path[0] in top and (len(path) == 1 or path[1] in nested.get(path[0], ()))

    groups = ("read", "written", "written_long", "written_short", "reasoning", "implied")
    return replace(names, **{group: tuple([path for path in getattr(names, group) if is_in(path)]) for group in groups})


def _is_consistent(
    prompt: int | None, completion: int | None, cached: int, reasoning: int | None, total: int | None
) -> bool:
    """Return whether the counts add up as OpenAI's do: the total is input plus output, and both include details."""
    if prompt is None or completion is None or cached > prompt or total != prompt + completion:
        return False
    return reasoning is None or reasoning <= completion


def _fill_from_total(
    prompt: int | None, completion: int | None, cached: int, total: int | None
) -> tuple[int | None, int | None]:
    """Input and output; a missing one is computed from the total."""
    if total is None or (prompt is None) == (completion is None):
        return prompt, completion
    if prompt is None:
        assert completion is not None
        return (total - completion if total >= completion else None), completion
    beyond = total - prompt
    if cached > prompt and beyond >= cached:
        beyond -= cached
    return prompt, beyond if beyond >= 0 else None


def _whole_counts(
    prompt: int | None, completion: int | None, cached: int, reasoning: int | None, total: int | None
) -> tuple[int | None, int | None, int | None]:
    """Return the input including its cache, the output including its reasoning, and the reasoning."""
    known, written, whole = prompt or 0, completion or 0, total or 0
    apart = _uncounted_cache(known, written, cached, reasoning or 0, whole)
    tokens = known + apart if apart else prompt
    in_total = known + (apart if whole - known - written >= apart else 0)
    beyond = whole - in_total - written
    # Reasoning larger than the output is not part of it, even if the total omits it (as Perplexity's does).
    if reasoning and (beyond == reasoning or reasoning > written):
        return tokens, written + reasoning, reasoning
    if reasoning is None and completion is not None and beyond > 0 and in_total:
        return tokens, written + beyond, beyond
    return tokens, completion, reasoning


def _uncounted_cache(prompt: int, completion: int, cached: int, reasoning: int, total: int) -> int:
    """Return the number of cache tokens that the prompt does not include: all of them or 0."""
    beyond = total - prompt - completion
    apart = cached > prompt or (beyond != reasoning and beyond in (cached, cached + reasoning))
    return cached if apart else 0


def usage_names(
    owner: str,
    tokens_in: str,
    tokens_out: str,
    *,
    tells_lifetimes: bool = False,
    details_required: bool = False,
    details_last: bool = False,
) -> UsageNames:
    """Return the names of the usage fields of an API from its names for input and output tokens (`prompt_tokens`,
    `completion_tokens`)."""
    details, produced = f"{tokens_in}_details", f"{tokens_out}_details"
    lifetimes = (
        ((details, "cache_write_tokens_details"), "ttl_12h_tokens", "ttl_30m_tokens"),
        ((details, "cache_creation_token_details"), "ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens"),
        (("cache_creation",), "ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens"),
    )
    written = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
    names = UsageNames(
        owner=owner,
        input=(tokens_in,),
        output=(tokens_out,),
        read=(
            (details, "cached_tokens"),
            (details, "cache_read_tokens"),
            ("cache_read_input_tokens",),
            ("prompt_cache_hit_tokens",),
            ("cached_tokens",),
            ("num_cached_tokens",),
        ),
        written=(*[(details, name) for name in written], *[(name,) for name in written]),
        written_long=tuple([(*path, long) for path, long, _ in lifetimes]),
        written_short=tuple([(*path, short) for path, _, short in lifetimes]),
        reasoning=((produced, "reasoning_tokens"), ("reasoning_tokens",)),
        implied=((details, "text_tokens"), (produced, "text_tokens"), ("prompt_cache_miss_tokens",)),
        plain={},
        tells_lifetimes=tells_lifetimes,
        details_required=details_required,
        order=(tokens_in, tokens_out, _TOTAL[0], details, produced) if details_last else (),
    )
    return replace(names, plain=_plain_names(names))


def _plain_names(names: UsageNames) -> CountNames:
    """Return the API's own names, which come first. Other names need a `UsageReader`, which chooses between them."""
    own = {
        names.input: "input",
        names.output: "output",
        _TOTAL: "total",
        names.read[0]: "read",
        names.written[0]: "written",
        names.reasoning[0]: "reasoning",
    }
    others = (*names.read, *names.written, *names.written_long, *names.written_short, *names.reasoning, *names.implied)
    plain: dict[str, Any] = {}
    for path in (*own, *[path for path in others if path not in own]):
        *groups, name = path[:2]
        inside = plain.setdefault(groups[0], {}) if groups else plain
        inside.setdefault(name, own.get(path))
    return plain
