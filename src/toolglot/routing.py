"""Which upstream answers for a model's name, and by which name it knows the model.

The rules, in order; the first that applies decides:

1. An alias of exactly this name.
2. An alias pattern (`claude-*`) that matches; of several the one with the most literal text.
3. `upstream/model`, when the first part is an upstream's name. Only there is the first part taken away.
4. `demo`, the upstream that is always there, and its models `demo-text…`.
5. A name that an upstream lists among its `models`, then a pattern among them.
6. A pattern of names that an upstream's vendor owns (`gpt-*`).
7. The default upstream.
8. The only upstream there is besides `demo`; or `demo`, when there is no other at all.

A name is matched as it came and then without what clients add to it: a suffix such as `[1m]`, a `models/` before it.
A `*` in an alias's target stands for what the pattern's `*` matched, the second for the second, and so on.

For the name of a fallback, rule 3 comes before rule 2, and rule 2 leaves out the patterns that led to the fallback: a
catch-all alias (`*`) would match the names of its own fallbacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from toolglot.errors import ToolglotError
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.textcalls.settings import BadCalls

Value = TypeVar("Value")

DEMO = "demo"
"""The upstream that is always there, and the model it answers for."""

DEMO_TEXT = "demo-text"
"""How the names of the demo's models begin that have no native tools."""

AUTO, NATIVE = "auto", "native"
"""How a model is given tools, where it is not the name of a text format."""

MAX_NAME = 512
"""Characters. Longer names are nobody's, and cost nothing to refuse."""

MAX_TARGETS = 32
"""Targets of one request: the first one, and fallbacks."""

MAX_RESOLVED = 1000
"""Names of which is kept in mind where they go: they are the clients' to choose."""

MAX_COMPARED = 500
"""Names among which the nearest ones are looked for: each comparison takes longer than all the rules together."""

_RULES_OF_ALIASES = 2
"""The first rules of `Router`: they look at aliases."""

_ADDED = re.compile(r"(?:\[[^\[\]]*\])+$")


class Alias(Struct, frozen=True, kw_only=True):
    """What a model's name, or a pattern of names, stands for."""

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


class Place(Struct, frozen=True, kw_only=True):
    """An upstream, as far as routing is concerned."""

    name: str
    models: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    """Patterns of the names that its vendor gives to models."""
    default_model: str | None = None
    quirks: Mapping[str, Any] = {}


class Target(Struct, frozen=True, kw_only=True):
    """Where a request goes."""

    upstream: str
    model: str
    """The upstream's name of the model."""
    asked: str
    """The name by which the client, or an alias for which this is a fallback, asked."""
    rule: str
    """Why it goes there, in words."""
    alias: str | None = None
    strict: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None
    quirks: Mapping[str, Any] = {}
    tools: str = AUTO
    """`native`, `auto` or the name of a text format."""
    bad_calls: BadCalls = "pass"
    rescue: bool | str = False
    """Whether text is searched for calls that the upstream should have read; a format's name, or the family's."""
    starts_in_reasoning: bool = False
    """Whether the prompt of a text model ends inside its reasoning."""
    history: str | HistoryPolicy | None = None
    """How much of a conversation is sent, and what of it is mended; a text is the format of calls in its past."""
    mcp: tuple[str, ...] = ()
    """MCP servers whose tools the model is given."""


class UnknownModelError(ToolglotError, LookupError):
    """No upstream answers for this name."""

    def __init__(self, model: str, suggestions: tuple[str, ...] = ()) -> None:
        self.model = model
        self.suggestions = suggestions
        near = f"; the nearest: {', '.join(suggestions)}" if suggestions else ""
        super().__init__(f"no upstream serves the model {model[:200]!r}{near}")


class Pattern:
    """A name with stars in it: each stands for any text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.literal = len(text) - text.count("*")
        self._regex = re.compile("(.*?)".join(re.escape(part) for part in text.split("*")), re.DOTALL)

    def match(self, name: str) -> tuple[str, ...] | None:
        """What the stars stand for in this name."""
        found = self._regex.fullmatch(name)
        return None if found is None else found.groups()


def filled(text: str, stars: tuple[str, ...]) -> str:
    """The text with its stars replaced in order; one that is left over stays."""
    values = iter(stars)
    return re.sub(r"\*", lambda star: next(values, "*"), text)


def bare(name: str) -> str:
    """The name without what clients add to it; nothing is left of a name that is only that."""
    return _ADDED.sub("", name.removeprefix("models/")).strip() or name


Claim: TypeAlias = tuple[str, Callable[[str], Target | None]]
"""A rule: what it looks at, and what it finds for a name."""


class Router:
    """The rules over one configuration."""

    def __init__(
        self,
        aliases: Mapping[str, Alias],
        places: Mapping[str, Place],
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
            ("models that upstreams list", self._listed),
            ("names that vendors own", self._vendor),
            ("default_upstream", self._default),
            ("the only upstream", self._only),
        )

    def resolve(self, model: str) -> tuple[Target, ...]:
        """Where a request for this model goes: first, and then when that fails. No target twice, `MAX_TARGETS` at most.

        Raises:
            UnknownModelError: nothing claims the name.
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
        """Where a request for this model goes first; None when nothing claims the name."""
        if len(model) > MAX_NAME:
            return None
        for name, (_, rule) in self._tries(model):
            if (target := rule(name)) is not None:
                return target
        return None

    def direct(self, upstream: str, model: str) -> Target | None:
        """An upstream's model by the upstream's own name of it, whatever the other rules say of that name."""
        return self._target(upstream, model, f"{upstream}/{model}", f"{upstream} is an upstream's name")

    def explain(self, model: str) -> list[tuple[str, str]]:
        """Each rule that was tried for a name, and what it said; the last one decided."""
        steps: list[tuple[str, str]] = []
        for name, (what, rule) in self._tries(model):
            target = rule(name)
            steps.append((f"{what}: {name}", target.rule if target else "no"))
            if target is not None:
                break
        return steps

    def names(self) -> list[str]:
        """What can be listed by name: aliases, then what upstreams list; `upstream/model` where a name is taken."""
        names = [name for name, alias in self.aliases.items() if "*" not in name and not alias.hidden]
        taken = {*names, *(name for name, alias in self.aliases.items() if alias.hidden)}
        for place in self.places.values():
            for model in (*place.models, *((DEMO,) if place.name == DEMO else ())):
                if "*" not in model:
                    names.append(model if model not in taken else f"{place.name}/{model}")
                    taken.add(model)
        return [name for name in dict.fromkeys(names) if self.claim(name) is not None]

    def nearest(self, model: str) -> tuple[str, ...]:
        """Names that somebody who wrote this one may have meant."""
        import difflib  # needed for names that nobody knows

        known = [DEMO, *(name for name, alias in self.aliases.items() if not alias.hidden)]
        known += [model for place in self.places.values() for model in (*place.models, *place.owned)]
        compared = list(dict.fromkeys(known))[:MAX_COMPARED]
        return tuple(difflib.get_close_matches(bare(model[:MAX_NAME])[:200], compared, n=3, cutoff=0.5))

    def _tries(self, model: str) -> Iterator[tuple[str, Claim]]:
        """Names and rules in the order in which they are tried."""
        plain = bare(model)
        if plain != model:
            yield model, self._rules[0]
        yield from ((plain, rule) for rule in self._rules)

    def _fallbacks(self, target: Target, passed: frozenset[str]) -> list[Target]:
        """The fallbacks of a target's alias. `passed`: the aliases that led to the target, its own included."""
        alias = target.alias or ""
        stars = Pattern(alias).match(target.asked) or ()
        found = (self.claim_fallback(filled(name, stars), passed) for name in self.aliases[alias].fallbacks)
        return [fallback for fallback in found if fallback is not None]

    def claim_fallback(self, name: str, passed: frozenset[str]) -> Target | None:
        """Where the fallback of this name goes; None when nothing claims it. `passed`: the aliases that led to it.

        `upstream/model` goes to that upstream, and no pattern is used twice on the way.
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
            # Of a model under its own name the facts are the same; tools are given to those who ask for the alias.
            mcp=facts.mcp if alias is not None else (),
        )

    def _alias(self, name: str) -> Target | None:
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
        return self._target(DEMO, name, name, "the demo upstream is always there")

    def _listed(self, name: str) -> Target | None:
        place = self._served.get(name)
        if place is not None:
            return self._target(place.name, name, name, f"{place.name} lists it")
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


def _most_literal_first(pairs: Iterable[tuple[Pattern, Value]]) -> tuple[tuple[Pattern, Value], ...]:
    """Equally literal ones stay in the order in which they were written."""
    return tuple(sorted(pairs, key=lambda pair: -pair[0].literal))
