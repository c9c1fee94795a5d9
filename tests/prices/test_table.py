"""The table of prices, and how a model is found in it."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from toolglot.prices import PriceTable, load_prices
from toolglot.prices.table import PriceRow
from toolglot.upstream.vendors import VENDORS

NOVEMBER = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def rows() -> list[PriceRow]:
    return list(load_prices().rows())


def found(model: str, vendor: str | None = None, moment: float = NOVEMBER) -> str | None:
    price = load_prices().find(model, vendor=vendor, at=moment)
    return None if price is None else f"{price.vendor}/{price.model}"


# The table itself


def test_every_row_has_a_source_and_the_day_it_was_read() -> None:
    for row in rows():
        assert row.source, row
        assert datetime.fromisoformat(row.date) <= datetime(2100, 1, 1), row


def test_no_two_rows_of_a_model_apply_under_the_same_conditions() -> None:
    seen = defaultdict(list)
    for row in rows():
        seen[row.vendor, row.model, row.rates.above, row.rates.service_tier, row.hours].append(row)
    for same in seen.values():
        spans = sorted((row.starts or float("-inf"), row.ends or float("inf")) for row in same)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), same


@pytest.mark.parametrize(
    "moment", ["2026-10-19", "2026-11-16", "2026-11-30T23:59:59", "2026-12-01", "2027-06-01T03:00"]
)
def test_every_model_has_a_price_at_every_time(moment: str) -> None:
    table = load_prices()
    for vendor, model in table.models():
        price = table.find(model, vendor=vendor, at=at(moment))
        assert price is not None, (vendor, model)
        assert price.base.input > 0, (vendor, model)
        assert price.base.output > 0, (vendor, model)
        assert (price.base.above, price.base.service_tier) == (0, None), (vendor, model)


def test_every_size_has_rates_in_the_standard_tier() -> None:
    for vendor, model in load_prices().models():
        price = load_prices().find(model, vendor=vendor, at=NOVEMBER)
        assert price is not None
        standard = {rates.above for rates in price.rates if rates.service_tier is None}
        assert {rates.above for rates in price.rates} == standard, (vendor, model)


def test_the_vendors_of_the_table_are_vendors_of_the_gateway() -> None:
    others = {"google", "bedrock", "meta"}  # Google's key is `gemini`; the gateway does not call the other two
    assert {vendor for vendor, _ in load_prices().models()} - others <= VENDORS.keys()


# Finding a model


@pytest.mark.parametrize(
    ("model", "vendor", "expected"),
    [
        ("claude-opus-5-5", "anthropic", "anthropic/claude-opus-5-5"),
        ("claude-haiku-4-5-20251001", "anthropic", "anthropic/claude-haiku-4-5"),
        ("claude-haiku-4-5@20251001", "anthropic", "anthropic/claude-haiku-4-5"),
        ("claude-haiku-4-5@default", "anthropic", "anthropic/claude-haiku-4-5"),
        ("gpt-5.4-2026-04-23", "openai", "openai/gpt-5.4"),
        ("gemini-2.5-pro", "gemini", "google/gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "gemini", "google/gemini-2.5-pro"),
        ("openai/gpt-oss-120b", "groq", "groq/openai/gpt-oss-120b"),
        ("openai/gpt-oss-120b", "together", "together/openai/gpt-oss-120b"),
        ("gpt-4o-2024-05-13", "openai", "openai/gpt-4o-2024-05-13"),  # dearer than its successors
        ("gpt-4o-2024-08-06", "openai", "openai/gpt-4o"),
        ("anthropic/claude-opus-4.8", "openrouter", "anthropic/claude-opus-4-8"),
        ("anthropic/claude-opus-4-8", "vercel", "anthropic/claude-opus-4-8"),
        ("openai/gpt-5.2", "openrouter", "openai/gpt-5.2"),
        ("x-ai/grok-4.7", "openrouter", "xai/grok-4.7"),
        ("claude-opus-5-5", None, "anthropic/claude-opus-5-5"),
        ("google/gemini-2.5-pro", None, "google/gemini-2.5-pro"),
    ],
)
def test_a_model_is_found_by_its_name_with_or_without_a_date(model: str, vendor: str | None, expected: str) -> None:
    assert found(model, vendor) == expected


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("gpt-5.2-codex", "openai"),
        ("gpt-5.2-pro-preview", "openai"),
        ("gpt-5", "anthropic"),
        ("gpt-5.4-20261399", "openai"),  # not a date
        ("gpt-5.4-2026", "openai"),
        ("GPT-5.4", "openai"),
        ("", "openai"),
        ("openai/gpt-5.4", "openai"),  # OpenAI itself knows no such name
        ("anthropic/claude-opus-4.8:free", "openrouter"),
        ("deepseek/deepseek-v4-pro", "openrouter"),  # open weights: several providers, several prices
        ("openai/gpt-oss-120b", "openrouter"),
        ("openai/gpt-oss-120b", None),  # two vendors have it
        ("gpt-5.4", "azure"),  # a deployment has any name
        ("claude-opus-5-5", "ollama"),
    ],
)
def test_an_unknown_model_has_no_price(model: str, vendor: str | None) -> None:
    assert found(model, vendor) is None


def test_a_model_is_never_priced_by_the_beginning_of_its_name() -> None:
    """`gpt-5.2-pro` costs twelve times as much as `gpt-5.2`."""
    small = load_prices().find("gpt-5.2", vendor="openai", at=NOVEMBER)
    large = load_prices().find("gpt-5.2-pro-2026-04-23", vendor="openai", at=NOVEMBER)
    assert small is not None
    assert large is not None
    assert large.base.input == 12 * small.base.input


# Time


@pytest.mark.parametrize(
    ("moment", "dollars"),
    [
        ("2026-11-18T00:59:59", "0.66"),
        ("2026-11-18T01:00:00", "1.32"),
        ("2026-11-18T03:59:59", "1.32"),
        ("2026-11-18T04:00:00", "0.66"),
        ("2026-11-18T06:00:00", "1.32"),
        ("2026-11-18T10:00:00", "0.66"),
        ("2026-11-20T09:30:00", "1.32"),  # a Friday
        ("2026-11-21T09:30:00", "0.66"),  # a Saturday
        ("2026-11-22T01:30:00", "0.66"),  # a Sunday
        ("2026-11-23T01:30:00", "1.32"),  # a Monday
    ],
)
def test_peak_hours_of_weekdays_cost_more(moment: str, dollars: str) -> None:
    price = load_prices().find("deepseek-v4-pro", vendor="deepseek", at=at(moment))
    assert price is not None
    assert price.base.input == round(float(dollars) * 10**9)
    assert price.until is not None
    before = load_prices().find("deepseek-v4-pro", vendor="deepseek", at=price.until - 1)
    after = load_prices().find("deepseek-v4-pro", vendor="deepseek", at=price.until)
    assert before is not None
    assert after is not None
    assert before.base == price.base != after.base


@pytest.mark.parametrize(
    ("model", "vendor", "moment", "billion", "until"),
    [
        ("gemini-4-argon", "gemini", "2026-11-30T23:59:59", 2, "2026-12-01"),
        ("gemini-4-argon", "gemini", "2026-12-01", 4, None),
        ("gemini-4-argon", "gemini", "2027-05-01", 4, None),
        ("gemini-3.8-flash", "gemini", "2026-12-31T23:59:59", 0.75, "2027-01-01"),
        ("gemini-3.8-flash", "gemini", "2027-01-01", 1.5, None),
        ("mistral-large-4", "mistral", "2026-10-19", 0.68, "2026-10-20"),
        ("mistral-large-4", "mistral", "2026-10-20", 1.36, None),
    ],
)
def test_a_price_changes_on_its_day(model: str, vendor: str, moment: str, billion: float, until: str | None) -> None:
    price = load_prices().find(model, vendor=vendor, at=at(moment))
    assert price is not None
    assert price.base.input == billion * 10**9
    assert price.until == (None if until is None else at(until))


def test_a_table_with_another_unit_is_refused() -> None:
    head = "vendor model from to unit above hours service_tier input output cache_read cache_write cache_write_long"
    columns = [*head.split(), "source", "date"]
    row = ["x", "y", "", "", "USD/token", "", "", "", "1", "2", "", "", "", "a page", "2026-11-16"]
    table = PriceTable.parse("\t".join(columns) + "\n" + "\t".join(row))
    with pytest.raises(ValueError, match="unknown unit: 'USD/token'"):
        table.find("y", vendor="x", at=NOVEMBER)
