"""The demo upstream as a newcomer meets it: with every official SDK, whichever dialect it speaks behind the gateway."""

from __future__ import annotations

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.recordings import STOPS
from tests.e2e.wires import WIRES

from .all_clients import CLIENTS
from .clients import Client
from .script import OUTCOMES, Wish

WISH = Wish(model="demo")


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("client", [pytest.param(client, id=client.name) for client in CLIENTS])
def test_two_calls_at_once_and_a_report_of_their_results(gateways: Gateways, client: Client, dialect: str) -> None:
    calling, reporting = client.run(gateways.to(dialect).base_url, WISH)
    assert [call.name for call in calling.calls] == ["get_weather", "get_time"]
    weather, time = (call.arguments for call in calling.calls)
    assert weather["city"] == "Zürich"
    assert isinstance(time["timezone"], str)
    assert calling.stop == STOPS["tool_calls"][client.dialect]
    assert calling.thinking or not client.thinking
    assert reporting.calls == []
    assert reporting.stop == STOPS["end"][client.dialect]
    for name in ("get_weather", "get_time"):
        assert OUTCOMES[name].text in reporting.text
    assert reporting.input_tokens > (calling.input_tokens if client.usage else 0)
    assert reporting.output_tokens > 0
