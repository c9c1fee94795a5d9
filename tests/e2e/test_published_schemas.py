"""Answers fit the published schemas: a conformance suite finds nothing, and each object has every required member."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from .gateway import serving
from .needs import MISSING_SUITE

pytestmark = pytest.mark.skipif(bool(MISSING_SUITE), reason="the conformance suite is not installed")

FORMATS = {
    "open-responses": "/v1",
    "openai-chat": "/v1",
    "anthropic": "/v1",
    "google-genai": "/v1beta",
}
"""The suite's name of an API, and where the gateway serves it."""
DEMO_DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")


@pytest.fixture(scope="module", params=DEMO_DIALECTS)
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway whose model `demo` answers in this dialect."""
    options = ("--demo-dialect", request.param, "--demo-pace", "none", "--store", ":memory:")
    with serving(tmp_path_factory.mktemp("comply"), *options) as base_url:
        yield base_url


def comply(base_url: str, name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "llm_comply.cli", "--base-url", f"{base_url}{FORMATS[name]}", "--api-key", "none"]
    options = ["--model", "demo", "--format", name, "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("name", FORMATS)
def test_a_conformance_suite_finds_nothing(gateway: str, name: str) -> None:
    results = comply(gateway, name)["results"]
    assert len(results) >= 9
    assert [result for result in results if result["status"] not in ("passed", "skipped")] == []
