"""Deltas that no pass looks at take a short way; it must be the same as the long one, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents import DOCUMENTS
from tests.exchanges import PAIRS
from toolglot import Exchange
from toolglot.events import Event
from toolglot.streaming import StreamTranslation


class LongWay(StreamTranslation):
    """Never notices that a block's deltas could go the short way."""

    def _track_block(self, event: Event, passed: Sequence[Event]) -> None:
        pass


def translated(client: str, upstream: str, stream: bytes, *, short: bool) -> tuple[bytes, str]:
    exchange = Exchange(client, upstream)
    exchange.verbatim = False
    translation = StreamTranslation(exchange) if short else LongWay(exchange)
    written = translation.feed(stream) + translation.close()
    return written, str(exchange.receipt)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@given(data=st.data())
def test_the_short_way_of_a_delta_gives_the_same_bytes(client: str, upstream: str, data: st.DataObject) -> None:
    stream = data.draw(DOCUMENTS[upstream].streams).encode()
    assert translated(client, upstream, stream, short=True) == translated(client, upstream, stream, short=False)
