"""The gateway of the tests, with nothing going wrong: every client's stream and whole answer from every upstream."""

from __future__ import annotations

import pytest

from tests.exchanges import PAIRS
from tests.lint.streams import SOUND
from tests.server.gateway import at, gateway
from tests.upstream.bad_server import BadServer, expect, stream
from toolglot.lint import lint


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_every_client_streams_from_every_upstream(client: str, upstream: str) -> None:
    with BadServer([expect(), stream(SOUND[upstream])]) as server, gateway(at(upstream, server.url)) as running:
        answer = running.ask(client, stream=True)
        assert (answer.status, answer.complete) == (200, True)
        assert lint(client, [answer.body]) == []
        assert running.record().error is None
