"""Files of other gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolglot.config.build import OTHER_NAMES
from toolglot.config.documents import GATEWAYS, OtherGateway, recognize_config, recognize_text
from toolglot.config.schema import Config

PAGE = Path(__file__).parent.parent.parent / "docs" / "configuration.md"


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.title)
def test_the_page_that_is_named_says_what_becomes_of_each(gateway: OtherGateway) -> None:
    told = recognize_config(dict.fromkeys(gateway.names))
    assert told is not None
    assert gateway.title in told
    section = PAGE.read_text().partition("## Coming from ")[2]
    assert f"| {gateway.title} (" in section


def test_nothing_of_ours_is_taken_for_another_gateways() -> None:
    assert recognize_config(dict.fromkeys([*Config.__struct_fields__, "providers", "Upstreams"])) is None
    assert recognize_text(b'{"upstreams": {}}') is None
    assert not any(gateway.names & set(Config.__struct_fields__) for gateway in GATEWAYS)
    # A single wrong field is still told the right one.
    assert OTHER_NAMES["providers"] == "upstreams"
