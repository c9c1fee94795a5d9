"""The Responses API's memory with OpenAI's own SDK, over an upstream of a dialect that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.gateway import Gateways, serving
from tests.e2e.python_ways import PROMPT, openai_client

from .python_openai import RESPONSES_TOOLS

DEMO = ("--demo-dialect", "anthropic", "--demo-pace", "none")


def client_of(base_url: str) -> openai.OpenAI:
    return openai_client().with_options(base_url=f"{base_url}/v1")


def results_of(response: Any) -> Any:
    calls = [item for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]


def test_a_response_is_fetched_listed_and_deleted(gateways: Gateways) -> None:
    client = client_of(gateways.to("anthropic").base_url)
    first = client.responses.create(model="demo", input=PROMPT, tools=RESPONSES_TOOLS)
    second = client.responses.create(model="demo", input=results_of(first), previous_response_id=first.id)
    assert client.responses.retrieve(first.id).output == first.output
    assert client.responses.retrieve(second.id).output_text == second.output_text
    listed = [item.type for item in client.responses.input_items.list(second.id, order="asc")]
    assert listed == ["message", "function_call", "function_call", "function_call_output", "function_call_output"]
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_what_was_not_stored_cannot_be_gone_on_from(gateways: Gateways) -> None:
    client = client_of(gateways.to("anthropic").base_url)
    unstored = client.responses.create(model="demo", input=PROMPT, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unstored.id)
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as refused:
        client.responses.create(model="demo", input="And now?", previous_response_id=unstored.id)
    assert unstored.id in str(refused.value)


def test_a_conversation_goes_on_after_a_restart_of_the_gateway(tmp_path: Path) -> None:
    with serving(tmp_path, *DEMO) as base_url:
        first = client_of(base_url).responses.create(model="demo", input=PROMPT, tools=RESPONSES_TOOLS)
    (tmp_path / "address").unlink()
    with serving(tmp_path, *DEMO) as base_url:
        client = client_of(base_url)
        second = client.responses.create(
            model="demo", input=results_of(first), previous_response_id=first.id, tools=RESPONSES_TOOLS
        )
        assert client.responses.retrieve(first.id).output == first.output
    assert "rain" in second.output_text
