"""`replay:` where an upstream is configured: on the command line, in a file, after a reload."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from toolglot.config.addresses import address_problem, leads_to
from toolglot.config.assemble import assemble
from toolglot.config.problems import ConfigError
from toolglot.config.schema import Config, RecordConfig, UpstreamConfig
from toolglot.gateway.gateway import Gateway
from toolglot.server.startup import StartedGateway, StartOptions, build_gateway, load_options, start_gateway
from toolglot.upstream.http_client import HttpTransport
from toolglot.upstream.replay.transport import ReplayTransport


def built(config: UpstreamConfig, name: str = "recorded", before: Gateway | None = None) -> Gateway:
    whole = Config(upstreams={name: config}, discover=False, record=RecordConfig(redact=("canary-[0-9]+",)))
    return build_gateway(assemble(whole, {}).config, HttpTransport(environment={}), before=before)


@pytest.mark.parametrize("url", ["replay:./recordings", "replay:/var/with spaces", "replay:~/r", "replay:one.jsonl"])
def test_a_folder_or_a_file_behind_replay_is_an_address(url: str) -> None:
    assert address_problem(url) is None
    assert not leads_to(url, 4141)


@pytest.mark.parametrize("url", ["replay:", "replay: ", "replays:x"])
def test_replay_without_a_place_is_none(url: str) -> None:
    assert address_problem(url) is not None


def test_the_command_line_takes_it_with_its_speed() -> None:
    start_options = StartOptions(upstreams=("openai_chat=replay:./a folder",), replay_speed="real")
    config, _, _ = load_options(start_options, {})
    upstream = config.upstreams["openai_chat"]
    assert (upstream.base_url, upstream.replay_speed) == ("replay:./a folder", "real")
    with pytest.raises(ConfigError, match="directory"):
        load_options(StartOptions(upstreams=("openai_chat=replay:",)), {})


def test_a_file_takes_it_with_its_speed(tmp_path: Path) -> None:
    file = tmp_path / "toolglot.toml"
    file.write_text('[upstreams.r]\nbase_url = "replay:x"\ndialect = "gemini"\nreplay_speed = "real"\n')
    config, _, _ = load_options(StartOptions(file=file), {})
    assert config.upstreams["r"].replay_speed == "real"
    file.write_text('[upstreams.r]\nbase_url = "replay:x"\ndialect = "gemini"\nreplay_speed = "fast"\n')
    with pytest.raises(ConfigError, match="replay_speed"):
        load_options(StartOptions(file=file), {})


def test_nobody_waits_between_tries_unless_the_speed_is_real() -> None:
    at_once, real = (
        built(UpstreamConfig(dialect="openai_chat", base_url="replay:x", replay_speed=speed)).upstreams["recorded"]
        for speed in ("none", "real")
    )
    assert (at_once.retries.first_wait, real.retries.first_wait) == (0.0, 0.5)


def test_no_key_is_missed_where_nothing_is_sent() -> None:
    config = Config(upstreams={"openai": UpstreamConfig(base_url="replay:x")}, discover=False)
    assembled = assemble(config, {})
    assert assembled.told == ()
    assert assembled.config.upstreams["openai"].dialect == "openai_responses"


def test_a_reload_goes_on_where_it_was() -> None:
    config = UpstreamConfig(dialect="openai_chat", base_url="replay:x")
    first = built(config)
    transport = first.upstreams["recorded"].transport
    assert isinstance(transport, ReplayTransport)
    assert built(config, before=first).upstreams["recorded"].transport is transport
    moved = UpstreamConfig(dialect="openai_chat", base_url="replay:y")
    assert built(moved, before=first).upstreams["recorded"].transport is not transport


def test_recordings_that_are_not_there_are_refused_at_the_start(tmp_path: Path) -> None:
    async def begin(place: Path) -> StartedGateway:
        start_options = StartOptions(upstreams=(f"openai_chat=replay:{place}",), discover=False)
        return await start_gateway(start_options, {}, HttpTransport(environment={}))

    with pytest.raises(ConfigError, match="nothere, which does not exist"):
        asyncio.run(begin(tmp_path / "nothere"))
    begun = asyncio.run(begin(tmp_path))
    assert "openai_chat" in begun.gateway.upstreams
    assert f"the upstream openai_chat answers from recordings in {tmp_path}, which has none yet" in begun.notices
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one.exchange.jsonl").touch()
    assert not any("has none yet" in line for line in asyncio.run(begin(tmp_path)).notices)
