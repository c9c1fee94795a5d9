"""Which upstream answers for a model's name, and by which name it knows the model."""

from __future__ import annotations

import pytest

from toolglot.routing import (
    MAX_COMPARED,
    MAX_TARGETS,
    Alias,
    Pattern,
    RoutedUpstream,
    Router,
    Target,
    UnknownModelError,
    bare,
    filled,
)

PLACES = {
    place.name: place
    for place in (
        RoutedUpstream(name="anthropic", owned=("claude-*",)),
        RoutedUpstream(name="openai", owned=("gpt-*", "o3*"), quirks={"max_tools": 128}),
        RoutedUpstream(name="openrouter", owned=("*/*",)),
        RoutedUpstream(name="local", models=("qwen3", "llama-*", "gpt-oss"), default_model="qwen3"),
        RoutedUpstream(name="other", models=("qwen3", "phi")),
        RoutedUpstream(name="demo"),
    )
}
ALIASES = {
    "claude-*": Alias(upstream="local", model="qwen3", fallbacks=("openrouter/anthropic/claude-*",)),
    "claude-opus-*": Alias(upstream="anthropic", strict=True, fallbacks=("fast",)),
    "fast": Alias(upstream="openai", model="gpt-5-mini", context_window=400_000, quirks={"system": "leading"}),
    "*-x-*": Alias(upstream="openrouter", model="b/*/a/*"),
    "claude-fable[1m]": Alias(upstream="openai", model="gpt-5"),
    "lost": Alias(upstream="nowhere"),
    "hidden": Alias(upstream="demo", hidden=True),
}


def went(router: Router, model: str) -> list[str]:
    return [f"{target.upstream}: {target.model}" for target in router.resolve(model)]


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        ("fast", ["openai: gpt-5-mini"]),
        ("claude-haiku-4-5", ["local: qwen3", "openrouter: anthropic/claude-haiku-4-5"]),
        ("claude-opus-4-1", ["anthropic: claude-opus-4-1", "openai: gpt-5-mini"]),
        ("claude-opus-4-1[1m]", ["anthropic: claude-opus-4-1", "openai: gpt-5-mini"]),
        ("claude-fable[1m]", ["openai: gpt-5"]),
        ("claude-fable", ["local: qwen3", "openrouter: anthropic/claude-fable"]),
        ("one-x-two", ["openrouter: b/one/a/two"]),
        ("openrouter/anthropic/claude-3", ["openrouter: anthropic/claude-3"]),
        ("anthropic/claude-3", ["anthropic: claude-3"]),
        ("mistralai/devstral", ["openrouter: mistralai/devstral"]),
        ("demo", ["demo: demo"]),
        ("demo/anything", ["demo: anything"]),
        ("demo-text", ["demo: demo-text"]),
        ("demo-text-react", ["demo: demo-text-react"]),
        ("qwen3", ["local: qwen3"]),
        ("other/qwen3", ["other: qwen3"]),
        ("phi", ["other: phi"]),
        ("llama-4", ["local: llama-4"]),
        ("gpt-oss", ["local: gpt-oss"]),
        ("gpt-5", ["openai: gpt-5"]),
        ("o3", ["openai: o3"]),
        ("models/gpt-5", ["openai: gpt-5"]),
        ("gpt-5:toolglot", ["openai: gpt-5"]),
        ("fast:toolglot", ["openai: gpt-5-mini"]),
        ("openrouter/meta/llama:free", ["openrouter: meta/llama:free"]),
        ("other/qwen3:latest", ["other: qwen3:latest"]),
        ("qwen3:latest", ["local: qwen3"]),
        ("fast:latest", ["openai: gpt-5-mini"]),
    ],
)
def test_a_name_goes_where_the_rules_say(model: str, targets: list[str]) -> None:
    assert went(Router(ALIASES, PLACES), model) == targets


@pytest.mark.parametrize("model", ["lost", "something", "", "/", "openai/", "x" * 10_000])
def test_a_name_that_nothing_claims_is_unknown(model: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        Router(ALIASES, {name: PLACES[name] for name in ("anthropic", "openai", "demo")}).resolve(model)
    assert caught.value.model == model
    assert len(str(caught.value)) < 400


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(UnknownModelError, match=r"no upstream serves the model 'fats'; the nearest: fast"):
        Router(ALIASES, PLACES).resolve("fats")
    assert "hidden" not in Router(ALIASES, PLACES).nearest("hidde")


def test_the_default_upstream_takes_the_rest_under_its_default_model() -> None:
    router = Router({}, PLACES, "local")
    assert went(router, "something") == ["local: qwen3"]
    assert went(router, "gpt-5") == ["openai: gpt-5"]
    assert went(Router({}, PLACES, "other"), "something") == ["other: something"]


def test_the_only_upstream_takes_everything() -> None:
    router = Router({}, {name: PLACES[name] for name in ("local", "demo")})
    assert went(router, "claude-x") == ["local: qwen3"]
    assert went(router, "demo") == ["demo: demo"]


def test_the_demo_takes_everything_when_it_is_alone() -> None:
    assert went(Router({}, {"demo": PLACES["demo"]}), "claude-x") == ["demo: demo"]


def test_a_target_has_what_is_known_of_the_model_and_its_upstream() -> None:
    assert Router(ALIASES, PLACES).resolve("fast") == (
        Target(
            upstream="openai",
            model="gpt-5-mini",
            asked="fast",
            rule="the alias fast",
            alias="fast",
            context_window=400_000,
            quirks={"max_tools": 128, "system": "leading"},
        ),
    )


def test_what_is_known_of_a_model_holds_by_its_full_name_too() -> None:
    (target,) = Router(ALIASES, PLACES).resolve("openai/gpt-5-mini")
    assert (target.context_window, target.alias) == (400_000, None)


def test_strict_is_the_models_own_or_everybodys() -> None:
    assert [target.strict for target in Router(ALIASES, PLACES).resolve("claude-opus-4")] == [True, False]
    assert all(target.strict for target in Router(ALIASES, PLACES, strict=True).resolve("claude-opus-4"))


def test_fallbacks_of_fallbacks_follow_and_nothing_comes_twice() -> None:
    aliases = {
        "a": Alias(upstream="local", model="1", fallbacks=("b", "c", "a", "unknown")),
        "b": Alias(upstream="local", model="2", fallbacks=("d", "a")),
        "c": Alias(upstream="local", model="3"),
        "d": Alias(upstream="local", model="1"),
    }
    assert went(Router(aliases, PLACES), "a") == ["local: 1", "local: 2", "local: 3"]


CATCH_ALL = Alias(upstream="local", fallbacks=("other/*",))


@pytest.mark.parametrize(
    ("aliases", "model", "targets"),
    [
        ({"*": CATCH_ALL}, "m", ["local: m", "other: m"]),
        ({"*": Alias(upstream="local", model="x", fallbacks=("other/y",))}, "m", ["local: x", "other: y"]),
        ({"*": Alias(upstream="local", model="x", fallbacks=("gpt-5",))}, "m", ["local: x", "openai: gpt-5"]),
        (
            {"claude-*": Alias(upstream="local", fallbacks=("claude-*-old",))},
            "claude-1",
            ["local: claude-1", "anthropic: claude-1-old"],
        ),
        (
            {"a-*": Alias(upstream="local", fallbacks=("b-a-*",)), "b-*": Alias(upstream="other", fallbacks=("a-*",))},
            "a-1",
            ["local: a-1", "other: b-a-1"],
        ),
        (
            {"*": CATCH_ALL, "other/m": Alias(upstream="openai", model="gpt-5")},
            "m",
            ["local: m", "openai: gpt-5"],
        ),
        (
            {"m": Alias(upstream="openai", fallbacks=("anything",)), "*": CATCH_ALL},
            "m",
            ["openai: m", "local: anything", "other: anything"],
        ),
        ({"m": Alias(upstream="local", fallbacks=("other/m[1m]",)), "*": CATCH_ALL}, "m", ["local: m", "other: m"]),
    ],
)
def test_a_pattern_does_not_take_its_own_fallbacks(aliases: dict[str, Alias], model: str, targets: list[str]) -> None:
    assert went(Router(aliases, PLACES), model) == targets


def test_the_targets_of_a_request_are_bounded() -> None:
    """Patterns that lead to each other could otherwise reach as many targets as they have orders."""
    letters = "abcdefgh"
    aliases = {
        f"{one}*": Alias(upstream="local", fallbacks=tuple(f"{other}{one}*" for other in letters)) for one in letters
    }
    assert len(Router(aliases, PLACES).resolve("a")) == MAX_TARGETS


def test_what_can_be_listed_is_listed_once_and_reachable() -> None:
    router = Router({**ALIASES, "qwen3": Alias(upstream="demo")}, PLACES)
    assert router.names() == [
        "fast",
        "claude-fable[1m]",
        "qwen3",
        "local/qwen3",
        "gpt-oss",
        "other/qwen3",
        "phi",
        "demo",
    ]
    assert [target.upstream for name in router.names()[2:4] if (target := router.claim(name))] == ["demo", "local"]


def test_a_name_that_nothing_claims_is_no_error_where_one_only_looks() -> None:
    router = Router(ALIASES, {name: PLACES[name] for name in ("local", "other")})
    assert router.claim("unheard-of") is None
    assert router.claim("local/" + "x" * 1000) is None
    claimed = router.claim("phi")
    assert claimed is not None
    assert claimed == router.resolve("phi")[0]


def test_an_upstreams_own_name_of_a_model_leads_to_it_whatever_an_alias_says() -> None:
    aliases = {"local/phi": Alias(upstream="other"), "small": Alias(upstream="local", model="phi", context_window=9)}
    router = Router(aliases, PLACES)
    assert went(router, "local/phi") == ["other: local/phi"]
    target = router.direct("local", "phi")
    assert target is not None
    assert (target.upstream, target.model, target.context_window) == ("local", "phi", 9)
    assert router.direct("nowhere", "phi") is None


def test_the_nearest_names_are_looked_for_among_so_many() -> None:
    many = tuple(f"model-{number:05}" for number in range(20 * MAX_COMPARED))
    places = {"local": RoutedUpstream(name="local", models=many), "other": PLACES["other"]}
    router = Router({}, places)
    assert many[1] in router.nearest(f"x{many[1]}")
    assert set(router.nearest(many[-1])) <= set(many[:MAX_COMPARED])


def test_every_rule_that_was_tried_is_told() -> None:
    assert Router(ALIASES, PLACES).explain("qwen3[1m]") == [
        ("aliases: qwen3[1m]", "no"),
        ("aliases: qwen3", "no"),
        ("patterns of aliases: qwen3", "no"),
        ("upstream/model: qwen3", "no"),
        ("demo: qwen3", "no"),
        ("models that upstreams list: qwen3", "local lists it"),
    ]


@pytest.mark.parametrize(
    ("pattern", "name", "stars"),
    [
        ("claude-*", "claude-x", ("x",)),
        ("claude-*", "claude-", ("",)),
        ("claude-*", "xclaude-x", None),
        ("*", "any\nthing", ("any\nthing",)),
        ("*/*", "a/b/c", ("a", "b/c")),
        ("a.c[1]", "abc[1]", None),
        ("a.c[1]", "a.c[1]", ()),
    ],
)
def test_a_star_stands_for_any_text_and_all_else_for_itself(
    pattern: str, name: str, stars: tuple[str, ...] | None
) -> None:
    assert Pattern(pattern).match(name) == stars


def test_stars_are_filled_in_order() -> None:
    assert filled("x-*-y-*", ("1", "2")) == "x-1-y-2"
    assert filled("x-*-*", ("1",)) == "x-1-*"
    assert filled("x", ("1",)) == "x"


@pytest.mark.parametrize("model", ["llama3", "llama3:latest", "llama3:toolglot"])
def test_a_name_without_a_tag_is_the_listed_one_with_the_tag_latest(model: str) -> None:
    places = {
        "a": RoutedUpstream(name="a", models=("llama3:latest", "qwen:7b")),
        "b": RoutedUpstream(name="b", models=("phi",)),
    }
    assert went(Router({}, places), model) == ["a: llama3:latest"]
    aliases = {"llama3:latest": Alias(upstream="b", model="phi")}
    assert went(Router(aliases, places), model) == ["b: phi"]


@pytest.mark.parametrize(
    ("name", "plain"),
    [("a[1m]", "a"), ("models/a", "a"), ("a[1m][2]", "a"), ("[1m]", "[1m]"), ("a[b]c", "a[b]c"), ("a:toolglot", "a")],
)
def test_what_clients_add_to_a_name_is_taken_away(name: str, plain: str) -> None:
    assert bare(name) == plain


def test_tools_of_mcp_servers_are_given_to_those_who_ask_for_the_alias() -> None:
    aliases = {"helper": Alias(upstream="a", model="big", mcp=("shop",), context_window=5)}
    router = Router(aliases, {"a": RoutedUpstream(name="a", models=("big",))}, "a")
    assert router.resolve("helper")[0].mcp == ("shop",)
    for name in ("big", "a/big", "unknown"):
        assert router.resolve(name)[0].mcp == ()
    assert router.resolve("big")[0].context_window == 5


def test_where_a_name_goes_is_kept_in_mind_and_of_no_more_names_than_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.routing.MAX_RESOLVED", 3)
    router = Router(ALIASES, PLACES)
    assert router.resolve("claude-haiku-4-5") is router.resolve("claude-haiku-4-5")
    for number in range(10):
        assert went(router, f"gpt-{number}") == [f"openai: gpt-{number}"]
    assert len(router._resolved) <= 3
    assert went(router, "claude-haiku-4-5") == ["local: qwen3", "openrouter: anthropic/claude-haiku-4-5"]
