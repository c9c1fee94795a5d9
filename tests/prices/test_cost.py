"""What a model call costs: five counts that do not overlap, times the rates of its size and service tier."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.ir import Usage
from toolglot.prices import (
    Price,
    PriceOverride,
    Rates,
    billed_tokens,
    ceiling_of,
    cost_of,
    format_usd,
    load_prices,
    override_price,
    to_decimal,
    to_nano,
)

NOVEMBER = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()


def price_of(model: str, vendor: str, moment: float = NOVEMBER) -> Price:
    price = load_prices().find(model, vendor=vendor, at=moment)
    assert price is not None
    return price


def usage(fresh: int, read: int = 0, written: int = 0, long: int = 0, output: int = 0) -> Usage:
    """Usage as the dialects decode it, from five counts that do not overlap."""
    return Usage(
        input_tokens=fresh + read + written + long,
        output_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written + long,
        cache_write_long_tokens=long,
    )


def dollars(text: str) -> int:
    return to_nano(text)


MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "vendor", "counts", "tier", "expected"),
    [
        # Each of the five counts alone: a million tokens cost the rate.
        ("claude-opus-5-5", "anthropic", (MILLION,), None, "4"),
        ("claude-opus-5-5", "anthropic", (0, MILLION), None, "0.2"),
        ("claude-opus-5-5", "anthropic", (0, 0, MILLION), None, "5"),
        ("claude-opus-5-5", "anthropic", (0, 0, 0, MILLION), None, "8"),
        ("claude-opus-5-5", "anthropic", (0, 0, 0, 0, MILLION), None, "20"),
        ("claude-opus-5-5", "anthropic", (1000, 2000, 3000, 4000, 500), None, "0.0614"),
        # No rate for the cache: it costs as much as other input.
        ("gpt-5.2-pro", "openai", (0, MILLION), None, "21"),
        ("gpt-5.2", "openai", (0, 0, MILLION), None, "1.75"),
        ("grok-4.3", "xai", (0, 0, 0, 100_000), None, "0.125"),
        # The whole request costs more above a size, and the cache with it.
        ("claude-haiku-5-5", "anthropic", (100_000, 0, 0, 0, 1000), None, "0.0105"),
        ("claude-haiku-5-5", "anthropic", (100_001, 0, 0, 0, 1000), None, "0.0525005"),
        ("claude-haiku-5-5", "anthropic", (1, 50_000, 30_000, 20_000, 0), None, "0.0412505"),
        ("gpt-6-sol", "openai", (272_000, 0, 0, 0, 1000), None, "0.554"),
        ("gpt-6-sol", "openai", (272_001, 0, 0, 0, 1000), None, "1.103004"),
        ("gpt-6-sol", "openai", (0, 0, 300_000), None, "1.5"),
        ("qwen3-coder-plus", "dashscope", (32_000,), None, "0.032"),
        ("qwen3-coder-plus", "dashscope", (128_000,), None, "0.2304"),
        ("qwen3-coder-plus", "dashscope", (200_000,), None, "0.6"),
        ("qwen3-coder-plus", "dashscope", (300_000, 0, 0, 0, 1000), None, "1.86"),
        # Service tiers, and both together.
        ("gpt-6-sol", "openai", (MILLION // 10,), "flex", "0.1"),
        ("gpt-6-sol", "openai", (MILLION // 10,), "priority", "0.4"),
        ("gpt-6-sol", "openai", (MILLION // 10,), "fast", "0.4"),
        ("gpt-6-sol", "openai", (MILLION // 10,), "default", "0.2"),
        ("gpt-6-sol", "openai", (MILLION,), "priority", "8"),
        ("gpt-6-sol", "openai", (0, MILLION), "priority", "0.8"),
        ("gpt-6-sol", "openai", (0, 0, MILLION), "flex", "2.5"),
        ("gpt-6-sol", "openai", (300_000, 0, 0, 0, MILLION), "flex", "8.1"),
        ("openai/gpt-oss-120b", "groq", (MILLION,), "on_demand", "0.15"),
    ],
)
def test_the_price_matrix(model: str, vendor: str, counts: tuple[int, ...], tier: str | None, expected: str) -> None:
    assert cost_of(usage(*counts), price_of(model, vendor), service_tier=tier) == dollars(expected)


def test_cached_tokens_are_not_counted_twice() -> None:
    """BerriAI/litellm#9812, #14849: the input of the usage includes what was read from the cache."""
    price = price_of("claude-sonnet-4-6", "anthropic")
    assert cost_of(usage(0, read=MILLION), price) == dollars("0.3")
    assert billed_tokens(usage(10, 20, 30, 40, 50)) == (10, 20, 30, 40, 50)


def test_hour_long_writes_have_their_own_rate() -> None:
    """BerriAI/litellm#27781: writes for an hour at the rate of five minutes."""
    price = price_of("claude-sonnet-4-6", "anthropic")
    assert cost_of(usage(0, written=MILLION), price) == dollars("3.75")
    assert cost_of(usage(0, long=MILLION), price) == dollars("6")


def test_writes_follow_the_size_of_the_request() -> None:
    """BerriAI/litellm#18988, Helicone/helicone#5766: cache writes at the rate of small requests."""
    price = price_of("claude-haiku-5-5", "anthropic")
    assert cost_of(usage(0, written=200_000), price) == dollars("0.125")
    assert cost_of(usage(0, long=200_000), price) == dollars("0.2")


def test_openai_cache_writes_are_billed() -> None:
    """BerriAI/litellm#33772: `cache_write_tokens` of OpenAI were dropped."""
    assert cost_of(usage(0, written=100_000), price_of("gpt-5.6-sol", "openai")) == dollars("0.5")


def test_a_service_tier_has_its_own_rates_above_a_size() -> None:
    """BerriAI/litellm PR#30450: the tier of small requests was used for large ones."""
    price = price_of("gpt-6-sol", "openai")
    assert cost_of(usage(300_000), price, service_tier="priority") == dollars("2.4")


@pytest.mark.parametrize(
    ("model", "vendor", "used", "tier"),
    [
        ("gpt-5.4", "openai", usage(300_000), "priority"),  # no such rate is published
        ("gpt-5.4", "openai", usage(1000), "scale"),
        ("claude-opus-5-5", "anthropic", usage(1000), "priority"),
        ("gpt-5.6-sol", "openai", usage(0, long=1000), None),  # twelve hours: dearer, but unknown
        ("gpt-5.4", "openai", Usage(input_tokens=1000), None),
        ("gpt-5.4", "openai", Usage(output_tokens=1000), None),
        ("gpt-5.4", "openai", Usage(), None),
    ],
)
def test_a_cost_that_cannot_be_known_is_none_and_not_zero(
    model: str, vendor: str, used: Usage, tier: str | None
) -> None:
    assert cost_of(used, price_of(model, vendor), service_tier=tier) is None


def test_an_explicit_zero_costs_nothing() -> None:
    """BerriAI/litellm#37992: a count of 0 was replaced by an estimate."""
    assert cost_of(usage(0), price_of("gpt-5.4", "openai")) == 0


def test_a_cost_is_rounded_once() -> None:
    rates = Rates(input=1, output=1)
    price = Price(vendor=None, model="x", rates=(rates,), ceilings=(rates,))
    assert cost_of(Usage(input_tokens=499_999, output_tokens=0), price) == 0
    assert cost_of(Usage(input_tokens=250_000, output_tokens=250_000), price) == 1


# Ceilings


COUNTS = st.integers(0, 2_000_000)
USAGES = st.builds(usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
MODELS = sorted(load_prices().models())
MOMENTS = st.floats(NOVEMBER, NOVEMBER + 60 * 86400)
TIERS = st.sampled_from([None, "default", "flex", "priority", "fast", "ultrafast", "scale"])


def exact(used: Usage, rates: Rates) -> Fraction:
    """The exact cost by these rates, written independently."""
    read, written = used.cached_tokens or 0, used.cache_write_tokens or 0
    long = used.cache_write_long_tokens or 0
    rest = (used.input_tokens or 0) - read - written

    def rate(found: int | None) -> int:
        return rates.input if found is None else found

    dearer = rates.cache_write_long if rates.cache_write is not None else rates.input
    parts = (
        (rest, rates.input),
        (read, rate(rates.cache_read)),
        (written - long, rate(rates.cache_write)),
        (long, dearer or 0),
        (used.output_tokens or 0, rates.output),
    )
    return sum((Fraction(count * each, MILLION) for count, each in parts), Fraction())


@given(USAGES, st.sampled_from(MODELS), MOMENTS, TIERS)
def test_a_cost_is_exact_to_half_a_nano(used: Usage, known: tuple[str, str], moment: float, tier: str | None) -> None:
    price = price_of(known[1], known[0], moment)
    cost = cost_of(used, price, service_tier=tier)
    if cost is not None:
        assert min(abs(exact(used, rates) - cost) for rates in price.rates) <= Fraction(1, 2)


@given(USAGES, st.sampled_from(MODELS), MOMENTS, TIERS, st.floats(0, 86400))
def test_a_ceiling_is_never_below_a_cost(
    used: Usage, known: tuple[str, str], moment: float, tier: str | None, later: float
) -> None:
    """BerriAI/litellm PR#40002: what was held used the rate of small requests. The answer may end a day later, in
    another hour or at another price."""
    vendor, model = known
    before, after = price_of(model, vendor, moment), price_of(model, vendor, moment + later)
    cost = cost_of(used, after, service_tier=tier)
    tokens, output = used.input_tokens or 0, used.output_tokens or 0
    if cost is not None:
        assert ceiling_of(before, input_tokens=tokens, output_tokens=output) >= cost
        assert ceiling_of(before, input_tokens=tokens, output_tokens=output, service_tier=tier) >= cost


@given(COUNTS, COUNTS, COUNTS, st.sampled_from(MODELS))
def test_a_larger_request_has_no_lower_ceiling(tokens: int, more: int, output: int, known: tuple[str, str]) -> None:
    price = price_of(known[1], known[0])
    small = ceiling_of(price, input_tokens=tokens, output_tokens=output)
    assert ceiling_of(price, input_tokens=tokens + more, output_tokens=output) >= small


def test_a_ceiling_without_other_tiers_is_lower() -> None:
    price = price_of("gpt-6-astra", "openai")
    assert ceiling_of(price, input_tokens=1000, output_tokens=1000, service_tier=None) == dollars("0.0625")
    assert ceiling_of(price, input_tokens=1000, output_tokens=1000, service_tier="priority") == dollars("0.125")
    assert ceiling_of(price, input_tokens=1000, output_tokens=1000) == dollars("0.375")


# Overrides


def test_an_override_replaces_single_rates_at_every_size_and_tier() -> None:
    price = override_price(price_of("gpt-6-sol", "openai"), PriceOverride(input=dollars("1")), "gpt-6-sol")
    assert price is not None
    assert cost_of(usage(MILLION), price) == dollars("1")
    assert cost_of(usage(1000), price, service_tier="priority") == dollars("0.001")
    assert cost_of(usage(0, read=100_000), price) == dollars("0.02")
    assert ceiling_of(price, input_tokens=1000, output_tokens=0, service_tier=None) == dollars("0.0025")
    assert price.source.startswith("configuration; ")


def test_an_unknown_model_needs_input_and_output() -> None:
    assert override_price(None, PriceOverride(input=1), "mine") is None
    assert override_price(None, PriceOverride(cache_read=0), "mine") is None
    price = override_price(None, PriceOverride(input=0, output=0), "mine")
    assert price is not None
    assert cost_of(usage(10, 10, 10, 10, 10), price) == 0
    assert (price.vendor, price.model, price.source) == (None, "mine", "configuration")


@pytest.mark.parametrize("tier", [None, "default", "scale", "priority"])
def test_a_configured_price_is_that_of_every_service_tier(tier: str | None) -> None:
    both = PriceOverride(input=dollars("1"), output=dollars("2"))
    for known in (None, price_of("gpt-6-sol", "openai"), price_of("claude-opus-5-5", "anthropic")):
        price = override_price(known, both, "mine")
        assert price is not None
        for fresh in (1000, 300_000):
            used = usage(fresh, output=500)
            assert cost_of(used, price, service_tier=tier) == fresh * 1000 + 500 * 2000
            assert ceiling_of(price, input_tokens=fresh, output_tokens=500) >= fresh * 1000 + 500 * 2000


# Amounts


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "$0.00"),
        (1, "$0.000000001"),
        (1_234_567, "$0.001235"),
        (50_000_000, "$0.05"),
        (500_000_000, "$0.50"),
        (999_999_999, "$1.00"),
        (3_100_000_000, "$3.10"),
        (3_105_000_000, "$3.11"),
        (1_234_567_890_000_000, "$1,234,567.89"),
        (-5_000_000_000, "-$5.00"),
    ],
)
def test_amounts_for_people(nano: int, text: str) -> None:
    assert format_usd(nano) == text


@given(st.integers(0, 10**18))
def test_amounts_are_written_and_read_exactly(nano: int) -> None:
    assert to_nano(to_decimal(nano)) == nano


@pytest.mark.parametrize("text", ["", "-1", "1e-6", ".5", "0.0000000001", "a", "1.2.3"])
def test_other_amounts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        to_nano(text)
