"""Law 9: running a pass, or all of them, a second time changes nothing more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from tests.examples import PER_PAIR
from tests.exchanges import NAMES, PAIRS
from tests.strategies import event_streams, requests
from toolglot.dialect import capabilities
from toolglot.dialects import DIALECTS
from toolglot.events import Event
from toolglot.ir import Request
from toolglot.passes import Context, RequestPass
from toolglot.passes.event_passes import EventPass
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.passes.sequence import Sequencer
from toolglot.passes.settle import Settler
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore


def context(source: str, target: str, request: Request) -> Context:
    return Context(
        source=source,
        target=target,
        can=capabilities(DIALECTS[target], request.model),
        receipt=Receipt(),
        source_can=DIALECTS[source].can,
    )


def name_of(request_pass: RequestPass) -> str:
    return f"{request_pass.__module__.rpartition('.')[2]}.{getattr(request_pass, '__name__', 'pass')}"


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(request=requests())
def test_all_passes_together_are_idempotent(client: str, upstream: str, request: Request) -> None:
    once = ExchangeCore(client, upstream).rewrite(request)
    assert ExchangeCore(client, upstream).rewrite(once) == once


@pytest.mark.parametrize("target", NAMES)
@given(request=requests())
def test_each_request_pass_is_idempotent(target: str, request: Request) -> None:
    """Each pass sees what the passes before it have made, as it does in the pipeline."""
    source = next(name for name in NAMES if name != target)
    shared = context(source, target, request)
    for request_pass in REQUEST_PASSES:
        once = request_pass(request, shared)
        assert request_pass(once, context(source, target, request)) == once, name_of(request_pass)
        request = once


EVENT_PASSES: dict[str, Callable[[], EventPass]] = {"settle": lambda: Settler(Receipt()), "sequence": Sequencer}


@pytest.mark.parametrize("name", EVENT_PASSES)
@given(events=event_streams())
def test_an_event_pass_is_idempotent(name: str, events: list[Event]) -> None:
    first, second = EVENT_PASSES[name](), EVENT_PASSES[name]()
    once = [out for event in events for out in first.feed(event)]
    assert [out for event in once for out in second.feed(event)] == once
