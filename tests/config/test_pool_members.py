"""Members of a pool: what they take from their upstream, what is wrong with them, and what a reload keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolglot.config.assemble import assemble, complete_upstream
from toolglot.config.load import load_config
from toolglot.config.problems import ConfigError
from toolglot.config.schema import BreakerConfig, Config, PoolMemberConfig, UpstreamConfig
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.gateway.gateway import Gateway
from toolglot.ir import replace
from toolglot.server.startup import build_gateway
from toolglot.upstream.demo.transport import DemoTransport

OWN = "https://own.example/v1"
ENVIRON = {"OPENAI_API_KEY": "from-the-environment"}


def member(**fields: object) -> PoolMemberConfig:
    return PoolMemberConfig(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("upstream", "keys", "urls"),
    [
        ({"pool": (member(key="a"), member())}, ["a", "from-the-environment"], ["https://api.openai.com/v1"] * 2),
        ({"pool": (member(base_url=OWN), member(key="b"))}, [None, "b"], [OWN, "https://api.openai.com/v1"]),
        ({"key": "k", "pool": (member(base_url=OWN), member())}, ["k", "k"], [OWN, "https://api.openai.com/v1"]),
        ({"base_url": OWN, "pool": (member(), member(key="b"))}, [None, "b"], [OWN, OWN]),
    ],
)
def test_a_member_takes_from_its_upstream_what_it_does_not_set(
    upstream: dict[str, object], keys: list[str | None], urls: list[str]
) -> None:
    """A key from the environment goes to the vendor's own address only."""
    pool = complete_upstream("openai", UpstreamConfig(**upstream), ENVIRON).pool  # type: ignore[arg-type]
    assert [each.key for each in pool] == keys
    assert [each.base_url for each in pool] == urls
    assert [each.name for each in pool] == ["1", "2"]


def test_headers_of_a_member_are_added_to_those_of_its_upstream() -> None:
    config = UpstreamConfig(
        dialect="openai_chat", headers={"X-A": "1", "X-B": "1"}, pool=(member(base_url=OWN, headers={"x-b": "2"}),)
    )
    (made,) = complete_upstream("up", config, {}).pool
    assert made.headers == {"x-a": "1", "x-b": "2"}


HEAD = '[upstreams.up]\ndialect = "openai_chat"\nbase_url = "https://own.example/v1"\n'
MEMBER = "[[upstreams.up.pool]]\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (MEMBER + 'name = "a b"', "toolglot.toml:5:1: upstreams.up.pool[0].name: a name may contain only letters"),
        (MEMBER + 'base_url = "ftp://x"', "pool[0].base_url: a base URL must start with http:// or https://"),
        (MEMBER + "weight = 0", "pool[0].weight: expected a number > 0"),
        (MEMBER + 'key = "a\\nb"', "pool[0].key: invalid header value"),
        (MEMBER + 'model = "m"', "pool[0].model: unknown field"),
        (MEMBER + 'name = "2"\n' + MEMBER + 'key = "k"', "pool[1].name: another member has the name `2`"),
        (
            MEMBER + 'key = "k"\n' + MEMBER + 'key = "k"',
            "pool[1]: another member has the same key, address and headers",
        ),
        (
            'refresh_token = "t"\nrefresh_key = "k"\n' + MEMBER + 'key = "k"',
            "up.pool: `pool` and `refresh_token` exclude each other",
        ),
    ],
)
def test_a_wrong_member_is_reported_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "toolglot.toml"
    file.write_text(HEAD + text)
    with pytest.raises(ConfigError) as raised:
        load_config(file, {})
    assert problem in str(raised.value)


def gateway_of(upstream: UpstreamConfig, before: Gateway | None = None) -> Gateway:
    config = Config(upstreams={"up": upstream}, discover=False)
    return build_gateway(assemble(config, {}).config, DemoTransport(DIALECTS["openai_chat"]), before=before)


def test_a_reload_keeps_the_cool_downs_of_members_that_stay() -> None:
    config = UpstreamConfig(
        dialect="openai_chat", base_url=OWN, pool=(member(key="a" * 9, quota_group="g"), member(key="b" * 9))
    )
    first = gateway_of(config)
    pool = first.pools["up"].state
    ticket = pool.enter(0, "m", 0.0)
    assert ticket is not None
    pool.settle(ticket, ApiError(kind="rate_limit", message=""), 0.0, named=60.0)
    assert gateway_of(replace(config, default_model="m"), first).pools["up"].state is pool
    for change in (
        {"breaker": BreakerConfig(failures=9)},
        {"pool": config.pool[:1]},
        {"pool": (replace(config.pool[0], key="c" * 9), config.pool[1])},
    ):
        assert gateway_of(replace(config, **change), first).pools["up"].state is not pool


def test_the_secrets_of_all_members_are_known_to_the_log() -> None:
    config = UpstreamConfig(
        dialect="openai_chat",
        base_url=OWN,
        pool=(member(key="first-secret"), member(key="second-secret", headers={"x-token": "third-secret"})),
    )
    secrets = gateway_of(config).secrets
    assert {"first-secret", "second-secret", "third-secret"} <= {*secrets}
    assert "secret" not in repr(config)
