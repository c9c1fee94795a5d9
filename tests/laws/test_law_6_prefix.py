"""Law 6: a history with one more turn extends the bytes that the upstream got before; prompt caches live on that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import PER_PAIR
from tests.exchanges import PAIRS
from tests.forms import History, history_of
from tests.strategies import conversations, ids, names, tool_lists
from toolglot.dialects import DIALECTS
from toolglot.ir import Message, Request, Text, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

ROOT = Path(__file__).parents[2]


def sent(client: str, upstream: str, request: Request) -> History:
    """The upstream's request as it stands on the wire."""
    raw = DIALECTS[client].encode_request(request, Receipt())
    return history_of(upstream, ExchangeCore(client, upstream).request(raw, model=request.model))


def turn_ends(messages: tuple[Message, ...]) -> list[int]:
    """Where the history ends and the model is to speak: before each assistant message, and at the end."""
    ends = [
        index
        for index, message in enumerate(messages)
        if message.role == "assistant" and index and _answered(messages, index)
    ]
    return [*ends, len(messages)]


def _answered(messages: tuple[Message, ...], index: int) -> bool:
    return messages[index - 1].role != "assistant"


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(data=st.data())
def test_a_longer_history_extends_the_same_prefix(client: str, upstream: str, data: st.DataObject) -> None:
    offered = data.draw(tool_lists(names, custom=False))
    messages = data.draw(conversations(offered, ids).filter(lambda messages: len(messages) > 2))
    whole = Request(model="gpt-5", tools=offered, messages=messages, max_output_tokens=100)
    previous: History | None = None
    for end in turn_ends(messages):
        now = sent(client, upstream, replace(whole, messages=messages[:end]))
        if previous is not None:
            assert now.items[: len(previous.items)] == previous.items
            assert now.rest == previous.rest
        previous = now


def test_the_same_request_gives_the_same_bytes_in_every_process() -> None:
    """Nothing is random, and no set decides an order: another process with another hash seed writes the same."""
    script = "import sys; from tests.laws.test_law_6_prefix import all_bytes; sys.stdout.buffer.write(all_bytes())"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    other = subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert other.stdout == all_bytes()


def all_bytes() -> bytes:
    return b"\n".join(fixed_bytes(client, upstream) for client, upstream in PAIRS)


def fixed_bytes(client: str, upstream: str) -> bytes:
    """A request in which everything has to be invented or renamed."""
    calls = tuple(ToolCall(id="", name=name, arguments='{"a": 1}') for name in ("a.b", "a" * 100, "日本"))
    messages = (
        Message(role="user", content=(Text(text="Go"),)),
        Message(role="assistant", content=calls),
        Message(role="user", content=(Text(text="And?"),)),
    )
    request = Request(model="gpt-5", messages=messages, max_output_tokens=10)
    raw = DIALECTS[client].encode_request(request, Receipt())
    return ExchangeCore(client, upstream).request(raw, model="gpt-5")


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_every_request_has_its_history_where_the_dialect_says(client: str, upstream: str) -> None:
    assert history_of(upstream, fixed_bytes(client, upstream)).items
