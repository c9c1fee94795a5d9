"""The rows of vendors are sound."""

from __future__ import annotations

import re

import pytest

from toolglot.capabilities import PLACES
from toolglot.config.addresses import address_problem, is_loopback, leads_to
from toolglot.dialects import DIALECTS
from toolglot.routing import Pattern
from toolglot.upstream.upstream import join_url
from toolglot.upstream.vendors import LOCAL_SERVERS, VENDORS, Vendor

rows = pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda vendor: vendor.name)


@rows
def test_a_row_can_be_used_as_it_stands(vendor: Vendor) -> None:
    assert re.fullmatch(r"[a-z]+", vendor.name)
    assert vendor.dialect in DIALECTS
    assert vendor.elsewhere is None or vendor.elsewhere in DIALECTS
    assert vendor.base_url is None or address_problem(vendor.base_url) is None
    assert vendor.base_url is not None or vendor.base_url_variables
    assert vendor.quirks.keys() <= PLACES.keys()
    if vendor.is_local:
        assert leads_to(vendor.base_url or "", vendor.port)
    elif vendor.name != "demo":
        assert vendor.keys
        assert (vendor.base_url or "https:").startswith("https:")


def test_no_variable_and_no_port_means_two_vendors() -> None:
    names = [key.name for vendor in VENDORS.values() for key in vendor.keys]
    names += [name for vendor in VENDORS.values() for name in vendor.base_url_variables]
    assert len(set(names)) == len(names)
    assert len({server.port for server in LOCAL_SERVERS}) == len(LOCAL_SERVERS)


@pytest.mark.parametrize(
    ("model", "owner"),
    [
        ("claude-opus-4-1-20250805", "anthropic"),
        ("gpt-5.2-codex", "openai"),
        ("o3-mini", "openai"),
        ("codex-mini-latest", "openai"),
        ("gemini-3-pro", "gemini"),
        ("deepseek-reasoner", "deepseek"),
        ("devstral-medium", "mistral"),
        ("grok-4", "xai"),
        ("kimi-k2", "moonshot"),
        ("glm-4.6", "zai"),
        ("qwen3-coder-plus", "dashscope"),
        ("anthropic/claude-x", "openrouter"),
        ("accounts/fireworks/models/glm-4p5", "fireworks"),
    ],
)
def test_a_known_name_belongs_to_its_vendor_first(model: str, owner: str) -> None:
    owned = [(Pattern(pattern), vendor.name) for vendor in VENDORS.values() for pattern in vendor.models]
    matching = [(pattern.literal, name) for pattern, name in owned if pattern.match(model) is not None]
    assert max(matching, key=lambda pair: pair[0])[1] == owner


@pytest.mark.parametrize(
    ("vendor", "path", "url"),
    [
        ("zai", "/v1/chat/completions", "https://api.z.ai/api/paas/v4/chat/completions"),
        ("openrouter", "/v1/chat/completions", "https://openrouter.ai/api/v1/chat/completions"),
        ("openai", "/v1/responses", "https://api.openai.com/v1/responses"),
        ("anthropic", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("ollama", "/api/chat", "http://127.0.0.1:11434/api/chat"),
    ],
)
def test_a_path_below_a_vendors_address_has_one_version(vendor: str, path: str, url: str) -> None:
    assert join_url(VENDORS[vendor].base_url or "", path) == url


def test_loopback_is_known_by_name_and_number() -> None:
    known = ("localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "127.0.0.1.", "::1", "[::1]", "::ffff:127.0.0.1")
    assert all(map(is_loopback, known))
    # A name below `localhost` leads wherever the system's name servers say.
    others = ("", ".", "example.com", "a.localhost", "localhost.example.com", "10.0.0.1", "0.0.0.0", "::ffff:10.0.0.1")
    assert not any(map(is_loopback, others))
    assert leads_to("http://a.localhost:4141", 4141)
    assert leads_to("http://localhost", 80)
    assert leads_to("https://[::1]/v1", 443)
    assert not leads_to("http://localhost:1", None)
