"""From what is written to what is used: vendors, keys, what was discovered, and `--upstream`."""

from __future__ import annotations

import pytest

from toolglot.config.assemble import assemble, complete_upstream, make_router
from toolglot.config.command_line import cli_config, parse_upstream
from toolglot.config.problems import ConfigError
from toolglot.config.schema import Config, ModelConfig, ServerConfig, UpstreamConfig
from toolglot.upstream.discovery import Discovery

KEYS = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_AUTH_TOKEN": "token"}


def test_an_upstream_named_after_a_vendor_needs_nothing_more() -> None:
    made = complete_upstream("openai", UpstreamConfig(), KEYS)
    assert (made.vendor, made.dialect, made.base_url, made.key) == (
        "openai",
        "openai_responses",
        "https://api.openai.com/v1",
        "sk-openai",
    )


def test_a_key_of_the_environment_goes_to_the_vendors_own_address_only() -> None:
    made = complete_upstream("openai", UpstreamConfig(base_url="https://elsewhere.example/v1"), KEYS)
    assert (made.key, made.dialect) == (None, "openai_chat")


def test_a_token_goes_in_the_header_that_is_its_own() -> None:
    assert complete_upstream("work", UpstreamConfig(vendor="anthropic"), KEYS).key_header == "authorization"
    assert complete_upstream("anthropic", UpstreamConfig(key="sk-ant"), KEYS).key_header is None
    azure = complete_upstream("azure", UpstreamConfig(key="k"), {"AZURE_OPENAI_ENDPOINT": "https://me.example/"})
    assert (azure.key_header, azure.base_url) == ("api-key", "https://me.example/openai/v1")


def test_what_is_written_counts_more_than_the_row() -> None:
    written = UpstreamConfig(
        vendor="mistral", dialect="openai-chat", key_header="X-Key", headers={"X-A": "1"}, quirks={"id_length": 7}
    )
    made = complete_upstream("m", written, {})
    assert (made.dialect, made.key_header, made.headers) == ("openai_chat", "x-key", {"x-a": "1"})
    assert made.quirks == {"id_pattern": "[A-Za-z0-9]{9}", "id_length": 7}


def test_a_row_of_another_dialect_leaves_its_quirks_behind() -> None:
    assert complete_upstream("m", UpstreamConfig(vendor="mistral", dialect="anthropic"), {}).quirks == {}


def test_a_local_server_is_where_its_variable_says() -> None:
    assert complete_upstream("ollama", UpstreamConfig(), {"OLLAMA_HOST": "box:1"}).base_url == "http://box:1"


def test_the_demo_is_always_there_and_answers_for_everything_when_alone() -> None:
    assembled = assemble(Config(), {})
    (demo,) = assembled.config.upstreams.values()
    assert (demo.vendor, demo.dialect, demo.base_url) == ("demo", "openai_chat", "demo:")
    assert assembled.told == (
        "no API key found: the demo answers for every model, unless a local server is found at startup",
    )
    assert make_router(assembled.config).resolve("claude-x")[0].upstream == "demo"


def test_only_what_was_looked_for_is_called_not_found() -> None:
    (probed,) = assemble(Config(), {}, Discovery()).told
    assert probed == "no API key and no local server found: the demo answers for every model"
    for local in (None, Discovery()):
        (off,) = assemble(Config(discover=False), KEYS, local).told
        assert off == "no upstream is configured and discovery is off: the demo answers for every model"


def test_the_demo_may_speak_another_dialect() -> None:
    config = Config(upstreams={"demo": UpstreamConfig(dialect="anthropic")})
    assert assemble(config, {}).config.upstreams["demo"].dialect == "anthropic"


def test_what_is_configured_is_not_discovered_again() -> None:
    config = Config(upstreams={"work": UpstreamConfig(vendor="openai", key="k")})
    local = Discovery(
        {"vllm": UpstreamConfig(vendor="vllm", dialect="openai_chat", base_url="http://127.0.0.1:8000/v1")},
        ("vLLM is there",),
        {"m": ModelConfig(upstream="vllm", context_window=7)},
    )
    assembled = assemble(config, {**KEYS, "GROQ_API_KEY": "k"}, local)
    assert list(assembled.config.upstreams) == ["work", "anthropic", "groq", "vllm", "demo"]
    assert "vLLM is there" in assembled.told
    assert make_router(assembled.config).resolve("m")[0].context_window == 7
    assert make_router(assembled.config).resolve("gpt-5")[0].upstream == "work"


def test_a_local_server_that_is_configured_is_used_as_configured() -> None:
    url = "http://127.0.0.1:8000/v1"
    config = Config(upstreams={"mine": UpstreamConfig(dialect="anthropic", base_url=url)})
    local = Discovery({"vllm": UpstreamConfig(vendor="vllm", base_url=url)}, (), {"m": ModelConfig(upstream="vllm")})
    assembled = assemble(config, {}, local)
    assert list(assembled.config.upstreams) == ["mine", "demo"]
    assert assembled.config.models == {}
    assert assembled.told == (f"{url}: not used: the configuration already has this upstream",)


def test_nothing_is_discovered_when_that_is_switched_off() -> None:
    assembled = assemble(Config(discover=False), KEYS, Discovery({"x": UpstreamConfig()}, ("x",)))
    assert list(assembled.config.upstreams) == ["demo"]


def test_a_missing_key_is_told() -> None:
    told = assemble(Config(upstreams={"groq": UpstreamConfig()}), {}).told
    assert told == ("upstreams.groq: no key: set GROQ_API_KEY, or `key`",)


@pytest.mark.parametrize(
    ("upstream", "noted"),
    [
        (UpstreamConfig(base_url="https://elsewhere.example/v1"), True),
        (UpstreamConfig(base_url="https://elsewhere.example/v1", key="k"), False),
        (UpstreamConfig(base_url="https://elsewhere.example/v1", headers={"Authorization": "Bearer k"}), False),
        (UpstreamConfig(base_url="http://127.0.0.1:8000/v1"), False),
    ],
)
def test_a_vendors_upstream_elsewhere_that_gets_no_key_is_told(upstream: UpstreamConfig, noted: bool) -> None:
    told = assemble(Config(discover=False, upstreams={"openai": upstream}), KEYS).told
    line = "upstreams.openai: no key is sent to its `base_url`: OPENAI_API_KEY goes to OpenAI's own address only"
    assert told == ((f"{line}; set `key`",) if noted else ())


def test_the_whole_configuration_can_be_strict() -> None:
    config = assemble(Config(strict=True), {}).config
    assert make_router(config).resolve("demo")[0].strict


def test_an_upstream_of_the_command_line_gets_everything() -> None:
    base = Config(server=ServerConfig(port=9), models={"claude-x": ModelConfig(upstream="demo")})
    config = cli_config([parse_upstream("openai-chat=http://127.0.0.1:8000/v1")], ["KEY"], {"KEY": "k", **KEYS}, base)
    assert (config.server.port, config.discover) == (9, False)
    assert config.upstreams["openai_chat"].key == "k"
    routes = make_router(assemble(config, KEYS).config)
    assert [(target.upstream, target.model) for target in routes.resolve("claude-x")] == [("openai_chat", "claude-x")]
    assert routes.resolve("gpt-5")[0].upstream == "openai_chat"


def test_several_upstreams_of_the_command_line_have_names_and_keys_in_order() -> None:
    texts = ["gemini=http://a", "openai_chat=http://b", "gemini=http://c", "anthropic=demo:"]
    config = cli_config([parse_upstream(text) for text in texts], ["A", "B"], {"A": "1", "B": "2"})
    assert {name: upstream.key for name, upstream in config.upstreams.items()} == {
        "gemini": "1",
        "openai_chat": "2",
        "gemini-2": None,
        "anthropic": None,
    }
    assert config.default_upstream == "gemini"
    assert assemble(config, {}).config.upstreams["anthropic"].vendor == "demo"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://x", "--upstream: expected DIALECT=URL, such as openai_chat=http://127.0.0.1:8000/v1"),
        ("openai=http://x", "--upstream: there is no dialect `openai`; did you mean `openai_chat`?"),
        ("gemini=x", "--upstream: a base URL must start with http:// or https://"),
    ],
)
def test_a_wrong_upstream_of_the_command_line_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_upstream(text)
    assert str(caught.value) == why


def test_a_key_of_the_command_line_must_be_set() -> None:
    with pytest.raises(
        ConfigError, match="--upstream-key-env: the environment variable KEYS is not set; did you mean `KEY`"
    ):
        cli_config([("gemini", "http://a")], ["KEYS"], {"KEY": "secret"})
    with pytest.raises(ConfigError, match="--upstream-key-env: 2 names for 1 upstreams"):
        cli_config([("gemini", "http://a")], ["A", "B"], {})


@pytest.mark.parametrize(
    ("settings", "dialect", "choices"),
    [
        ({}, "ollama", None),
        ({"base_url": "http://box:1"}, "ollama", None),
        ({"base_url": "http://box:1/v1"}, "openai_chat", frozenset({"auto"})),
        ({"base_url": "http://box:1/v1/"}, "openai_chat", frozenset({"auto"})),
        ({"dialect": "openai-chat"}, "openai_chat", frozenset({"auto"})),
    ],
)
def test_ollama_speaks_its_own_dialect_unless_the_address_or_the_configuration_says_otherwise(
    settings: dict[str, str], dialect: str, choices: frozenset[str] | None
) -> None:
    completed = complete_upstream("local", UpstreamConfig(vendor="ollama", **settings), {})  # type: ignore[arg-type]
    assert completed.dialect == dialect
    assert completed.quirks.get("tool_choices") == choices
