"""Route a model's name to an upstream, and to the upstream's own name of the model.

The rules, in order; the first that applies decides:

1. An alias of exactly this name.
2. A matching alias pattern (`claude-*`); if several match, the one with the most literal text.
3. `upstream/model`, if the first part is an upstream's name. Only this rule removes the first part.
4. `demo`, the built-in upstream, and its models `demo-text…`.
5. A name that an upstream lists in its `models`, then a pattern in that list.
6. A pattern of names that an upstream's vendor owns (`gpt-*`).
7. The default upstream.
8. The only upstream besides `demo`; or `demo`, if there is no other.

A name is matched as received, and then without client additions: a suffix like `[1m]`, a prefix `models/`, the tag
`:toolglot`. Exact names of aliases and listed models match with and without the tag `:latest`. A `*` in an alias's
target is replaced by what the pattern's `*` matched, the second by the second, and so on.

For the name of a fallback, rule 3 comes before rule 2, and rule 2 leaves out the patterns that led to the fallback: a
catch-all alias (`*`) would match the names of its own fallbacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from toolglot.errors import ToolglotError
from toolglot.models import GATEWAY_TAG, LATEST
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.textcalls.settings import BadCalls

Value = TypeVar("Value")

DEMO = "demo"
"""The built-in upstream, and the model it serves."""

DEMO_TEXT = "demo-text"
"""Prefix of the demo's models without native tools."""

AUTO, NATIVE = "auto", "native"
"""Tool modes other than text formats."""

MAX_NAME = 512
"""Maximum characters. Longer names are rejected without a search."""

MAX_TARGETS = 32
"""Maximum targets of one request: the first one, and fallbacks."""

MAX_RESOLVED = 1000
"""Maximum names in the cache of resolved names. Clients choose the names, so the cache must be bounded."""

MAX_COMPARED = 500
"""Maximum names to compare for suggestions: a comparison takes longer than all rules together."""

_RULES_OF_ALIASES = 2
"""Number of rules at the start of `Router._rules` that use aliases."""

_ADDED = re.compile(r"(?:\[[^\[\]]*\])+$")


class Alias(Struct, frozen=True, kw_only=True):
    """The target of a model's name, or of a pattern of names."""

    upstream: str
    model: str | None = None
    fallbacks: tuple[str, ...] = ()
    strict: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None
    quirks: Mapping[str, Any] = {}
    hidden: bool = False
    tools: str = AUTO
    bad_calls: BadCalls = "pass"
    rescue: bool | str = False
    starts_in_reasoning: bool = False
    history: str | HistoryPolicy | None = None
    mcp: tuple[str, ...] = ()


class RoutedUpstream(Struct, frozen=True, kw_only=True):
    """The properties of an upstream that routing needs."""

    name: str
    models: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    """Patterns of its vendor's model names."""
    default_model: str | None = None
    quirks: Mapping[str, Any] = {}


class Target(Struct, frozen=True, kw_only=True):
    """The upstream and model that a request is sent to."""

    upstream: str
    model: str
    """The upstream's name of the model."""
    asked: str
    """The name that the client requested, or that the alias lists as this fallback."""
    rule: str
    """The reason for this target, as text."""
    alias: str | None = None
    strict: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None
    quirks: Mapping[str, Any] = {}
    tools: str = AUTO
    """`native`, `auto` or the name of a text format."""
    bad_calls: BadCalls = "pass"
    rescue: bool | str = False
    """Whether to search text for calls that the upstream should have parsed; or the name of a format or family."""
    starts_in_reasoning: bool = False
    """Whether the prompt of a text model ends inside its reasoning."""
    history: str | HistoryPolicy | None = None
    """The history policy; a string is the text format of calls in the history."""
    mcp: tuple[str, ...] = ()
    """MCP servers whose tools the model gets."""


def is_substitute(target: Target, name: str) -> bool:
    """Return whether an upstream's default model would answer because no rule matches the name."""
    plain = bare(name)
    return target.alias is None and target.model not in (plain, plain.partition("/")[2])


class UnknownModelError(ToolglotError, LookupError):
    """No upstream serves this model."""

    def __init__(self, model: str, suggestions: tuple[str, ...] = ()) -> None:
        self.model = model
        self.suggestions = suggestions
        near = f"; the nearest: {', '.join(suggestions)}" if suggestions else ""
        super().__init__(f"no upstream serves the model {model[:200]!r}{near}")


class Pattern:
    """A name with wildcards: each `*` matches any text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.literal = len(text) - text.count("*")
        self._regex = re.compile("(.*?)".join(re.escape(part) for part in text.split("*")), re.DOTALL)

    def match(self, name: str) -> tuple[str, ...] | None:
        """Return the texts that the wildcards match in this name; None if the name does not match."""
        found = self._regex.fullmatch(name)
        return None if found is None else found.groups()


def filled(text: str, stars: tuple[str, ...]) -> str:
    """Replace the wildcards of a text in order. A wildcard without a value stays."""
    values = iter(stars)
    return re.sub(r"\*", lambda star: next(values, "*"), text)


def bare(name: str) -> str:
    """Remove client additions from a name. A name that consists only of additions stays."""
    return _ADDED.sub("", name.removeprefix("models/")).strip().removesuffix(GATEWAY_TAG) or name


Claim: TypeAlias = tuple[str, Callable[[str], Target | None]]
"""A rule: its description, and the function that finds the target of a name."""


class Router:
    """Applies the rules to one configuration."""

    def __init__(
        self,
        aliases: Mapping[str, Alias],
        places: Mapping[str, RoutedUpstream],
        default_upstream: str | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.places = places
        self.aliases = aliases
        self.default_upstream = default_upstream
        self._strict = strict
        self._resolved: dict[str, tuple[Target, ...]] = {}
        self._patterns = _most_literal_first((Pattern(name), alias) for name, alias in aliases.items() if "*" in name)
        self._served = {
            model: place for place in reversed(list(places.values())) for model in place.models if "*" not in model
        }
        self._served_patterns = _most_literal_first(
            (Pattern(model), place) for place in places.values() for model in place.models if "*" in model
        )
        self._owned = _most_literal_first((Pattern(model), place) for place in places.values() for model in place.owned)
        self._facts = {
            (alias.upstream, alias.model or name): alias for name, alias in aliases.items() if "*" not in name
        }
        self._rules: tuple[Claim, ...] = (
            ("aliases", self._alias),
            ("patterns of aliases", self._alias_pattern),
            ("upstream/model", self._prefix),
            ("demo", self._demo),
            ("models that upstreams list", self._find_listed),
            ("names that vendors own", self._vendor),
            ("default_upstream", self._default),
            ("the only upstream", self._only),
        )

    def resolve(self, model: str) -> tuple[Target, ...]:
        """Resolve a model's name to its targets: the first one, then its fallbacks. Unique, `MAX_TARGETS` at most.

        Raises:
            UnknownModelError: no rule matches the name.
        """
        known = self._resolved.get(model)
        if known is not None:
            return known
        first = self.claim(model)
        if first is None:
            raise UnknownModelError(model, self.nearest(model))
        targets: dict[tuple[str, str], Target] = {}
        waiting: list[tuple[Target, frozenset[str]]] = [(first, frozenset())]
        while waiting and len(targets) < MAX_TARGETS:
            target, passed = waiting.pop(0)
            if (target.upstream, target.model) in targets:
                continue
            targets[target.upstream, target.model] = target
            if target.alias is not None:
                passed |= {target.alias}
                waiting = [*((fallback, passed) for fallback in self._fallbacks(target, passed)), *waiting]
        if len(self._resolved) >= MAX_RESOLVED:
            self._resolved.clear()
        found = self._resolved[model] = tuple(targets.values())
        return found

    def claim(self, model: str) -> Target | None:
        """Return the first target for this model; None if no rule matches the name."""
        if len(model) > MAX_NAME:
            return None
        for name, (_, rule) in self._tries(model):
            if (target := rule(name)) is not None:
                return target
        return None

    def direct(self, upstream: str, model: str) -> Target | None:
        """Return the target for an upstream's model by the upstream's own name, regardless of the other rules."""
        return self._target(upstream, model, f"{upstream}/{model}", f"{upstream} is an upstream's name")

    def explain(self, model: str) -> list[tuple[str, str]]:
        """Return each rule that was tried for a name, with its result; the last one decided."""
        steps: list[tuple[str, str]] = []
        for name, (what, rule) in self._tries(model):
            target = rule(name)
            steps.append((f"{what}: {name}", target.rule if target else "no"))
            if target is not None:
                break
        return steps

    def names(self) -> list[str]:
        """Return the names for a model list: aliases, then models that upstreams list; `upstream/model` if a name is
        taken."""
        names = [name for name, alias in self.aliases.items() if "*" not in name and not alias.hidden]
        taken = {*names, *(name for name, alias in self.aliases.items() if alias.hidden)}
        for place in self.places.values():
            for model in (*place.models, *((DEMO,) if place.name == DEMO else ())):
                if "*" not in model:
                    names.append(model if model not in taken else f"{place.name}/{model}")
                    taken.add(model)
        return [name for name in dict.fromkeys(names) if self.claim(name) is not None]

    def nearest(self, model: str) -> tuple[str, ...]:
        """Return the known names that are similar to this one."""
        import difflib  # needed only for unknown names

        known = [DEMO, *(name for name, alias in self.aliases.items() if not alias.hidden)]
        known += [model for place in self.places.values() for model in (*place.models, *place.owned)]
        compared = list(dict.fromkeys(known))[:MAX_COMPARED]
        return tuple(difflib.get_close_matches(bare(model[:MAX_NAME])[:200], compared, n=3, cutoff=0.5))

    def _tries(self, model: str) -> Iterator[tuple[str, Claim]]:
        """Names and rules in the order of evaluation."""
        plain = bare(model)
        if plain != model:
            yield model, self._rules[0]
        yield from ((plain, rule) for rule in self._rules)

    def _fallbacks(self, target: Target, passed: frozenset[str]) -> list[Target]:
        """Return the fallbacks of a target's alias. `passed`: the aliases that led to the target, including its own."""
        alias = target.alias or ""
        stars = Pattern(alias).match(target.asked) or ()
        found = (self.claim_fallback(filled(name, stars), passed) for name in self.aliases[alias].fallbacks)
        return [fallback for fallback in found if fallback is not None]

    def claim_fallback(self, name: str, passed: frozenset[str]) -> Target | None:
        """Return the target of a fallback's name; None if no rule matches. `passed`: the aliases that led to it.

        `upstream/model` goes to that upstream, and no pattern is used twice in a chain.
        """
        if len(name) > MAX_NAME:
            return None
        plain = bare(name)
        target = self._alias(name) or self._alias(plain) or self._prefix(plain) or self._alias_pattern(plain, passed)
        if target is not None:
            return target
        found = (rule(plain) for _, rule in self._rules[_RULES_OF_ALIASES:])
        return next((target for target in found if target is not None), None)

    def _target(self, upstream: str, model: str, asked: str, rule: str, alias: str | None = None) -> Target | None:
        place = self.places.get(upstream)
        if place is None:
            return None
        facts = self.aliases[alias] if alias is not None else self._facts.get((upstream, model))
        if facts is None:
            return Target(
                upstream=upstream, model=model, asked=asked, rule=rule, strict=self._strict, quirks=place.quirks
            )
        return Target(
            upstream=upstream,
            model=model,
            asked=asked,
            rule=rule,
            alias=alias,
            strict=self._strict or facts.strict,
            context_window=facts.context_window,
            max_output_tokens=facts.max_output_tokens,
            quirks={**place.quirks, **facts.quirks},
            tools=facts.tools,
            bad_calls=facts.bad_calls,
            rescue=facts.rescue,
            starts_in_reasoning=facts.starts_in_reasoning,
            history=facts.history,
            # A model requested by its own name has the same facts, but MCP tools only come with the alias.
            mcp=facts.mcp if alias is not None else (),
        )

    def _alias(self, name: str) -> Target | None:
        name = _find_name(self.aliases, name)
        alias = self.aliases.get(name)
        if alias is None or "*" in name:
            return None
        return self._target(alias.upstream, alias.model or bare(name), name, f"the alias {name}", name)

    def _alias_pattern(self, name: str, passed: frozenset[str] = frozenset()) -> Target | None:
        for pattern, alias in self._patterns:
            if pattern.text not in passed and (stars := pattern.match(name)) is not None:
                model = name if alias.model is None else filled(alias.model, stars)
                target = self._target(alias.upstream, model, name, f"the alias {pattern.text}", pattern.text)
                if target is not None:
                    return target
        return None

    def _prefix(self, name: str) -> Target | None:
        upstream, slash, model = name.partition("/")
        return self.direct(upstream, model) if slash and model else None

    def _demo(self, name: str) -> Target | None:
        if name != DEMO and not name.startswith(DEMO_TEXT):
            return None
        return self._target(DEMO, name, name, "the demo upstream is always available")

    def _find_listed(self, name: str) -> Target | None:
        listed = _find_name(self._served, name)
        place = self._served.get(listed)
        if place is not None:
            return self._target(place.name, listed, name, f"{place.name} lists it")
        for pattern, place in self._served_patterns:
            if pattern.match(name) is not None:
                return self._target(place.name, name, name, f"{place.name} lists {pattern.text}")
        return None

    def _vendor(self, name: str) -> Target | None:
        for pattern, place in self._owned:
            if pattern.match(name) is not None:
                return self._target(place.name, name, name, f"the vendor of {place.name} owns {pattern.text}")
        return None

    def _default(self, name: str) -> Target | None:
        place = self.places.get(self.default_upstream or "")
        if place is None:
            return None
        return self._target(place.name, place.default_model or name, name, f"{place.name} is the default upstream")

    def _only(self, name: str) -> Target | None:
        others = [place for place in self.places.values() if place.name != DEMO]
        if len(others) == 1:
            (place,) = others
            return self._target(place.name, place.default_model or name, name, f"{place.name} is the only upstream")
        if not others:
            return self._target(DEMO, DEMO, name, "there is no upstream but the demo")
        return None


def _find_name(names: Container[str], name: str) -> str:
    """Return the name under which a model is known: `name` and `name:latest` are the same model."""
    return next((one for one in (name, name + LATEST, name.removesuffix(LATEST)) if one in names), name)


def _most_literal_first(pairs: Iterable[tuple[Pattern, Value]]) -> tuple[tuple[Pattern, Value], ...]:
    """Sort by literal text, most first. Ties keep the configured order."""
    return tuple(sorted(pairs, key=lambda pair: -pair[0].literal))
