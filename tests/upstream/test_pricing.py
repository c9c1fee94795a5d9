"""Which upstreams have a price, and how long it is known."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from toolglot.config.schema import PriceConfig
from toolglot.upstream import pricing
from toolglot.upstream.pricing import Payee, Pricing, find_payee

PAID = {"up": Payee("deepseek", is_paid=True), "own": Payee(None, is_paid=False), "far": Payee(None, is_paid=True)}


@pytest.mark.parametrize(
    ("vendor", "url", "expected"),
    [
        ("openai", "https://api.openai.com/v1", Payee("openai", True)),
        ("openai", "http://127.0.0.1:9/v1", Payee("openai", True)),  # a proxy before it
        (None, "https://api.openai.com/v1", Payee("openai", True)),
        (None, "https://openrouter.ai/api/v1/", Payee("openrouter", True)),
        (None, "https://models.example.com/v1", Payee(None, True)),
        (None, "https://203.0.113.7.example/v1", Payee(None, True)),
        ("ollama", "http://127.0.0.1:11434", Payee("ollama", False)),
        ("vllm", "https://gpu.example.com/v1", Payee("vllm", False)),
        (None, "http://127.0.0.1:8000/v1", Payee(None, False)),
        (None, "http://[::1]:8000/v1", Payee(None, False)),
        (None, "http://10.1.2.3:8000/v1", Payee(None, False)),
        (None, "http://vllm:8000/v1", Payee(None, False)),
        (None, "http://gpu.internal:8000/v1", Payee(None, False)),
        ("demo", "demo:", Payee("demo", False)),
        ("openai", "replay:recordings", Payee("openai", False)),
    ],
)
def test_local_servers_recordings_and_the_demo_have_no_price(vendor: str | None, url: str, expected: Payee) -> None:
    assert find_payee(vendor, url) == expected


class Clock:
    now = datetime(2026, 11, 18, 0, 30, tzinfo=UTC).timestamp()

    def __call__(self) -> float:
        return self.now


def test_a_price_is_looked_up_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    find = pricing.find_price

    def count(model: str, *rest: object) -> object:
        looked_up.append(model)
        return find(model, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pricing, "find_price", count)
    clock = Clock()
    prices = Pricing({}, PAID, clock)
    cheap = [prices.find("up", "deepseek-v4-pro").price for _ in range(3)]
    clock.now += 30 * 60  # it is one o'clock in the morning, where the peak begins
    dear = [prices.find("up", "deepseek-v4-pro").price for _ in range(3)]
    assert len(looked_up) == 2
    assert cheap[0] is not None
    assert dear[0] is not None
    assert dear[0].base.input == 2 * cheap[0].base.input


def test_clients_cannot_fill_the_memory_with_names_of_models() -> None:
    prices = Pricing({}, PAID)
    for number in range(pricing.MOST_MODELS + 5):
        assert prices.find("up", f"model-{number}").price is None
    assert len(prices._known) == 5


@pytest.mark.parametrize(
    ("upstream", "model", "expected", "is_due"),
    [
        ("up", "deepseek-v4-flash", "deepseek-v4-flash", True),
        ("up", "deepseek-v9", None, True),
        ("far", "gpt-6-sol", None, True),  # nobody knows what this server asks for it
        ("own", "gpt-6-sol", None, False),
        ("own", "priced", "own/priced", True),
        ("far", "priced", None, True),
        ("far", "everywhere", "everywhere", True),
        ("own", "everywhere", "everywhere", True),
        ("gone", "deepseek-v4-flash", None, False),
    ],
)
def test_a_price_comes_from_the_table_or_the_configuration(
    upstream: str, model: str, expected: str | None, is_due: bool
) -> None:
    configured = {
        "own/priced": PriceConfig(input=0.25, output=1.0),
        "everywhere": PriceConfig(input=1.0, output=1.0),
    }
    found = Pricing(configured, PAID).find(upstream, model)
    assert (found.price and found.price.model, found.is_due) == (expected, is_due)


def test_an_entry_for_an_upstream_changes_the_entry_for_the_model() -> None:
    configured = {"m": PriceConfig(input=1.5, output=2.0), "up/m": PriceConfig(output=0.0375)}
    price = Pricing(configured, PAID).find("up", "m").price
    assert price is not None
    assert (price.base.input, price.base.output) == (1_500_000_000, 37_500_000)
