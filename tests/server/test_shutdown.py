"""SIGTERM while streams are running: what can end in time does, and what cannot is told so in its own dialect.

The number is that of `tests/server/fault_cases.py`. The gateway is a process of its own.
"""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import error_told, fault_told, good_end, mid_call, type_of
from tests.server.gateway import CLIENTS, at, gateway
from tests.server.process import serving
from tests.upstream.bad_server import LAST_CHUNK, BadServer, Gate, chunk, expect, gone, pause, send, stream
from tests.waiting import FAILSAFE
from toolglot.streaming import StreamTranslation

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
STREAMS = 40
ENDED = (0, -signal.SIGTERM)


def config(url: str, drain: float) -> str:
    return f"""
[limits]
drain = {drain}
[upstreams.up]
dialect = "openai_chat"
base_url = "{url}"
"""


def test_44_streams_that_end_in_time_end_well_and_nobody_new_is_let_in(tmp_path: Path) -> None:
    seen = Gate()
    began = mid_call("openai_chat")
    rest = SOUND["openai_chat"].removeprefix(began)
    script = [expect(), stream(began, complete=False), pause(seen), send(chunk(rest), LAST_CHUNK)]
    with BadServer(script) as server, serving(tmp_path, config(server.url, FAILSAFE)) as running:
        talks = {client: running.begin(client, stream=True) for client in CLIENTS}
        for talk in talks.values():
            talk.until(b"Hel")
        running.signal(signal.SIGTERM)
        _until_refused(running.port)
        seen.open()
        for client, talk in talks.items():
            good_end(client, talk.rest())
        assert running.wait() in ENDED
        assert "Traceback" not in running.log


def test_44_streams_that_do_not_end_in_time_end_in_their_dialects_error(tmp_path: Path) -> None:
    script = [expect(), stream(mid_call("openai_chat"), complete=False), gone(Gate())]
    with BadServer(script) as server, serving(tmp_path, config(server.url, 0.5)) as running:
        talks = [(CLIENTS[number % 4], running.begin(CLIENTS[number % 4], stream=True)) for number in range(STREAMS)]
        for _, talk in talks:
            talk.until(b"Hel")
        running.signal(signal.SIGTERM)
        for client, talk in talks:
            told = fault_told(client, talk.rest())
            assert "shutting down" in told.message
        assert running.wait() in ENDED
        assert "Traceback" not in running.log


def test_44_requests_that_have_no_answer_in_time_are_told_to_ask_again(tmp_path: Path) -> None:
    asked = [Gate() for _ in CLIENTS]
    scripts = [[expect(seen=gate), gone(Gate())] for gate in asked]
    with BadServer(*scripts) as server, serving(tmp_path, config(server.url, 0.3)) as running:
        talks = []
        for client, gate in zip(CLIENTS, asked, strict=True):
            talks.append((client, running.begin(client)))
            gate.wait_blocking()
        running.signal(signal.SIGTERM)
        for client, talk in talks:
            answer = talk.rest()
            told = error_told(client, answer)
            assert (told.type, answer.headers["retry-after"]) == (type_of(client, "overloaded"), "1")
            assert answer.status == (529 if client == "anthropic" else 503)
        assert running.wait() in ENDED
        assert "Traceback" not in running.log


def _until_refused(port: int) -> None:
    """The listening socket is closed soon after the signal; no new client is taken after that."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:  # it was waiting to be taken when the socket was closed
            continue


@EVERY_CLIENT
def test_44_while_it_drains_health_is_good_readiness_is_not_and_requests_are_refused(client: str) -> None:
    with gateway() as running:
        running.service.is_accepting = False
        assert running.call("GET", "/health").status == 200
        assert running.call("GET", "/ready").status == 503
        answer = running.ask(client)
        assert "shutting down" in error_told(client, answer).message
        assert answer.headers["retry-after"] == "1"


@EVERY_CLIENT
def test_a_fault_of_our_own_in_mid_stream_ends_in_the_dialects_error(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Gate()
    script = [expect(), stream(mid_call("openai_chat"), complete=False), pause(seen), send(chunk(SOUND["openai_chat"]))]

    def broken(self: StreamTranslation, data: bytes) -> bytes:
        raise ZeroDivisionError("a secret detail")

    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        monkeypatch.setattr(StreamTranslation, "feed", broken)
        seen.open()
        answer = talk.rest()
        assert "toolglot failed to handle this request" in fault_told(client, answer).message
        assert b"secret detail" not in answer.body
        assert running.record().error == "server"
