"""`toolglot prices`: what models cost, and what is said about those that are unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run import run
from toolglot.prices import load_prices


def test_every_model_has_a_line() -> None:
    result = run("prices")
    assert result.exit_code == 0
    for vendor, model in load_prices().models():
        assert f"{vendor}/{model} " in result.stdout


def test_a_model_is_shown_with_sizes_tiers_source_and_date() -> None:
    result = run("prices", "gpt-6-sol-2026-10-01")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["openai/gpt-6-sol"]
    assert ["standard", "2", "10", "0.2", "2.5", "-"] in lines
    assert ["priority,", "above", "272,000", "input", "tokens", "8", "30", "0.8", "10", "-"] in lines
    assert "read 2026-11-16" in result.stdout
    assert "https://developers.openai.com/api/docs/pricing" in result.stdout


def test_a_model_of_several_vendors_is_shown_for_each() -> None:
    result = run("prices", "openai/gpt-oss-120b", "--json")
    assert [price["vendor"] for price in json.loads(result.stdout)] == ["groq", "together"]
    assert [price["vendor"] for price in json.loads(run("prices", "groq/openai/gpt-oss-120b", "--json").stdout)] == [
        "groq"
    ]


def test_json_has_every_rate_and_null_for_an_unknown_one() -> None:
    (price,) = json.loads(run("prices", "gpt-5.2", "--json").stdout)
    assert price["rates"][0] == {
        "above": 0,
        "service_tier": None,
        "input": 1.75,
        "output": 14.0,
        "cache_read": 0.175,
        "cache_write": None,
        "cache_write_long": None,
    }
    assert (price["unit"], price["date"]) == ("USD per million tokens", "2026-11-16")


@pytest.mark.parametrize(
    ("model", "nearest"),
    [("gpt-5.2-proo", "; the nearest is gpt-5.2-pro\n"), ("zzzzzz", "is unknown\n")],
)
def test_an_unknown_model_is_said_to_be_unknown_with_the_nearest_name(model: str, nearest: str) -> None:
    result = run("prices", model)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"toolglot: the price of {model} is unknown")
    assert result.stderr.endswith(nearest)


def test_prices_of_the_configuration_come_first(tmp_path: Path) -> None:
    file = tmp_path / "toolglot.toml"
    file.write_text('[prices."openai/gpt-5.2"]\ninput = 1\n[prices.mine]\ninput = 0\noutput = 0\n')
    first, second = json.loads(run("prices", "gpt-5.2", "--config", str(file), "--json").stdout)
    assert (first["model"], first["rates"][0]["input"], first["rates"][0]["output"]) == ("openai/gpt-5.2", 1.0, 14.0)
    assert first["source"].startswith("configuration; ")
    assert second["rates"][0]["input"] == 1.75
    (mine,) = json.loads(run("prices", "mine", "--config", str(file), "--json").stdout)
    assert (mine["source"], mine["rates"][0]["output"]) == ("configuration", 0.0)
