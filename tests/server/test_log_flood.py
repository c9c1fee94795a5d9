"""What strangers can write into the log: little, however much they send."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import socket
from pathlib import Path
from time import monotonic

import pytest

from tests.server.gateway import request
from tests.server.loopback import status_of, until_response
from tests.server.process import serving
from tests.waiting import FAILSAFE
from toolglot.server import log_throttle
from toolglot.server.log_throttle import BURST_LINES, LINES_PER_SECOND, REPORT_SECONDS, LogThrottle

KEY = "sk-gateway-0123456789"
COUNT = 600
PATH, BODY = request("openai_chat", model="demo")
REFUSED = {
    "without a key": (f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}", 401),
    "with a long wrong key": (f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nx-api-key: {'k' * 5000}\r\n\r\n", 401),
    "to another host": ("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
    "to no route": (f"GET /{'a' * 5000} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {'b' * 5000}\r\n\r\n", 401),
    "that is not HTTP": ("GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "to the page for everybody": ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
    "for permission": ("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n", 403),
}


@pytest.mark.parametrize("case", REFUSED)
def test_requests_of_strangers_write_few_lines_and_are_summed_up(tmp_path: Path, case: str) -> None:
    data, status = REFUSED[case]
    config = f'[server]\nkeys = ["{KEY}"]\n'
    with serving(tmp_path, config, arguments=["--log", "json"]) as running:
        before, began = len(running.log), monotonic()
        for _ in range(COUNT):
            with socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE) as connection:
                connection.sendall(data.encode())
                answer = until_response(connection)
            assert status_of(answer) == status
        allowed = BURST_LINES + LINES_PER_SECOND * (monotonic() - began) + 1
        # Who is let in is logged all the same.
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        for _ in range(3):
            assert running.call("POST", PATH, BODY, headers).status == 200
        running.until_logged('"key":"', times=3)
        running.signal(signal.SIGTERM)
        running.wait()
        lines = [json.loads(line) for line in running.log[before:].splitlines() if line.startswith("{")]
        size = len(running.log) - before
    sums = [line["message"] for line in lines if "not logged one by one" in line["message"]]
    left_out = sum(int(number) for text in sums for number in re.findall(rf"(\d+) with status {status}", text))
    told = [line for line in lines if line.get("status") == status and "key" not in line]
    told += [line for line in lines if line["message"].startswith("refused a request")]
    assert len(told) + left_out == COUNT
    assert left_out >= COUNT - allowed
    assert size < 100_000


def test_a_throttle_lets_a_burst_through_then_a_few_a_second_and_sums_up(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    throttle = LogThrottle(clock=lambda: now)
    with caplog.at_level(logging.WARNING):
        assert [throttle.allows(401) for _ in range(BURST_LINES + 7)] == [True] * BURST_LINES + [False] * 7
        assert not throttle.allows(404)
        now += 1.0
        assert [throttle.allows(401) for _ in range(3)] == [True] * int(LINES_PER_SECOND) + [False]
        assert caplog.messages == []
        now += REPORT_SECONDS
        assert throttle.allows(401)
    told = "9 refused requests were not logged one by one: 8 with status 401, 1 with status 404"
    assert caplog.messages == [told]
    throttle.report()
    assert caplog.messages == [told]


def test_a_sum_is_written_although_nobody_comes_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_throttle, "REPORT_SECONDS", 0.01)

    async def test() -> None:
        written = asyncio.Event()

        class Waiting(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                assert record.getMessage().endswith(": 1 with status 401")
                written.set()

        handler = Waiting()
        log_throttle.log.addHandler(handler)
        try:
            throttle = LogThrottle()
            while throttle.allows(401):
                pass
            async with asyncio.timeout(FAILSAFE):
                await written.wait()
        finally:
            log_throttle.log.removeHandler(handler)

    asyncio.run(test())
