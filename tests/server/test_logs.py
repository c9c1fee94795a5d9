"""One line a request: what it says, to whom, and what it never says."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest
from msgspec.structs import replace

from toolglot.config.schema import LogConfig
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Usage
from toolglot.receipt import Loss
from toolglot.server import logs, request_log
from toolglot.server.request_log import MAX_PENDING, RequestLog


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(**changes: object) -> RequestRecord:
    fields: dict[str, object] = {
        "id": "req_1",
        "method": "POST",
        "path": "/v1/messages",
        "started": 10.0,
        "route": "/v1/messages",
        "key": "key-1",
        "client": "anthropic",
        "model": "claude-x",
        "upstream": "local",
        "upstream_dialect": "openai_chat",
        "upstream_model": "qwen3",
        "stream": True,
        "status": 200,
        "calls": {"local": 2},
        "usage": Usage(input_tokens=12, output_tokens=3, cached_tokens=4),
        "losses": 1,
        "receipt": (10.0, (Loss("top_k", "top_k 5", "unknown"),), 1),
        "first_byte": 10.25,
        "ended": 11.5,
    }
    return RequestRecord(**{**fields, **changes})  # type: ignore[arg-type]


def logged(config: LogConfig, entry: RequestRecord, stream: io.StringIO) -> str:
    RequestLog(config, lambda: ["sk-canary"], stream)(entry)
    return stream.getvalue()


def test_a_request_is_one_line_of_json_where_no_terminal_is() -> None:
    line = logged(LogConfig(), record(), io.StringIO())
    assert line.count("\n") == 1
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "info",
        "message": "request",
        "id": "req_1",
        "key": "key-1",
        "method": "POST",
        "route": "/v1/messages",
        "status": 200,
        "client": "anthropic",
        "model": "claude-x",
        "upstream": "local",
        "upstream_dialect": "openai_chat",
        "upstream_model": "qwen3",
        "stream": True,
        "attempts": 2,
        "input_tokens": 12,
        "cached_tokens": 4,
        "output_tokens": 3,
        "losses": 1,
        "seconds": 1.5,
        "first_byte_seconds": 0.25,
        "bytes_in": 0,
        "bytes_out": 0,
    }


def test_a_terminal_gets_a_line_for_people() -> None:
    line = logged(LogConfig(), record(), Terminal())
    clock, status, *rest = line.strip().split("  ")
    assert clock.count(":") == 2
    assert status == "\x1b[32m200\x1b[0m"
    assert rest == [
        "POST /v1/messages",
        "claude-x -> local/qwen3",
        "[anthropic -> openai_chat, stream]",
        "12+3 tokens",
        "1.50s",
        "2 attempts",
        "lost: top_k",
    ]


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        (["top_k", "top_k", "messages[0].content[1]"], "lost: top_k, messages[0].content[1]"),
        ([f"f{number}" for number in range(8)], "lost: f0, f1, f2, f3, f4 and 3 more"),
        (["a\x1b[2J\n"], "lost: a?[2J?"),
        ([], "lost: 1"),
    ],
)
def test_a_terminal_is_told_what_was_lost(losses: list[str], told: str) -> None:
    lines = (*(Loss(where, "", "") for where in losses), Loss("seed", "", "", "note"))
    entry = record(receipt=(0.0, lines, len(lines)))
    assert logged(LogConfig(format="text"), entry, io.StringIO()).endswith(f"  {told}\n")


def test_the_form_can_be_chosen() -> None:
    assert json.loads(logged(LogConfig(format="json"), record(), Terminal()))["id"] == "req_1"
    assert "\x1b" not in logged(LogConfig(format="text"), record(), io.StringIO())


def test_an_error_and_a_client_that_went_away_are_told() -> None:
    failed = record(status=502, error="server", message="no sk-canary\nhere")
    told = json.loads(logged(LogConfig(), failed, io.StringIO()))
    assert (told["level"], told["error"], told["status"]) == ("warning", "server", 502)
    assert told["error_message"] == "no [redacted]?here"
    assert logged(LogConfig(format="text"), failed, io.StringIO()).endswith("  server: no [redacted]?here\n")
    cut = record(error="server", message="cut")
    assert "\x1b[31m200" in logged(LogConfig(), cut, Terminal())
    assert json.loads(logged(LogConfig(), record(cancelled=True), io.StringIO()))["cancelled"] is True
    assert "  gone  " in logged(LogConfig(format="text"), record(cancelled=True), io.StringIO())


@pytest.mark.parametrize("level", ["warning", "error"])
def test_at_a_higher_level_only_failures_are_told(level: str) -> None:
    config = LogConfig(level=level)  # type: ignore[arg-type]
    assert logged(config, record(), io.StringIO()) == ""
    assert logged(config, record(error="server"), io.StringIO()) != ""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_secret_in_a_name_or_a_header_is_not_written(form: str) -> None:
    said = record(
        model="sk-canary", user_agent="sk-canary " + "x" * 10_000, path="/sk-canary", upstream_model="sk-canary"
    )
    line = logged(LogConfig(format=form), said, io.StringIO())  # type: ignore[arg-type]
    assert "canary" not in line
    assert len(line) < 2_000


def test_a_path_that_is_no_route_is_told_as_it_came() -> None:
    told = json.loads(logged(LogConfig(), record(route="", path="/v1/nothing\x1b"), io.StringIO()))
    assert told["path"] == "/v1/nothing?"
    assert "path" not in json.loads(logged(LogConfig(), record(), io.StringIO()))


def test_probes_are_told_at_level_debug_alone() -> None:
    probe = record(route="/health", path="/health")
    assert logged(LogConfig(), probe, io.StringIO()) == ""
    assert logged(LogConfig(level="debug"), probe, io.StringIO()) != ""


def test_a_name_from_a_client_can_neither_forge_a_line_nor_move_the_cursor() -> None:
    line = logged(LogConfig(format="text"), record(model="x\n12:00:00  200\x1b[2J"), io.StringIO())
    assert line.count("\n") == 1
    assert "\x1b" not in line


VARIANTS: dict[str, dict[str, object]] = {
    "usual": {},
    "whole": {"stream": False, "first_byte": None},
    "without a key or a user agent": {"key": None, "user_agent": None},
    "of a strange user agent": {"user_agent": 'a "b" \\ \x1b é sk-canary'},
    "of a long name": {"model": "x" * 10_000},
    "without usage": {"usage": None},
    "usage in part": {"usage": Usage(output_tokens=3)},
    "a history that came before": {"prefix_reuse": (("local", 0.123456),)},
    "very quick": {"ended": 10.00001, "first_byte": 10.0},
}


def simple(**changes: object) -> RequestRecord:
    return record(calls={"local": 1}, is_simple=True, losses=0, **changes)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_the_lines_of_simple_requests_are_written_together_and_say_what_each_would_alone(
    changes: dict[str, object],
) -> None:
    others = {"id": "req_2", "bytes_in": 7, "upstream_dialect": "gemini"}  # the same upstream after a reload
    entries = [simple(**changes), simple(**{**changes, **others})]

    async def write() -> str:
        stream = io.StringIO()
        log = RequestLog(LogConfig(), lambda: ["sk-canary"], stream)
        for entry in entries:
            log(entry)
        assert stream.getvalue() == ""
        log.flush()
        return stream.getvalue()

    lines = [json.loads(line) for line in asyncio.run(write()).splitlines()]
    alone = [logged(LogConfig(), replace(entry, is_simple=False), io.StringIO()) for entry in entries]
    assert [list(line.items())[1:] for line in lines] == [list(json.loads(line).items())[1:] for line in alone]
    assert all(len(line["time"]) == len("2026-11-17T12:00:00.000Z") for line in lines)


def test_lines_that_wait_are_written_after_a_moment_before_a_failure_and_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_log, "FLUSH_SECONDS", 0)

    async def count() -> list[int]:
        stream = io.StringIO()
        log = RequestLog(LogConfig(), stream=stream)
        counts: list[int] = []
        log(simple())
        for _ in range(3):
            await asyncio.sleep(0)
        counts.append(stream.getvalue().count("\n"))
        log(simple())
        log(record(error="overloaded", status=529))
        counts.append(stream.getvalue().count("\n"))
        for _ in range(MAX_PENDING):
            log(simple())
        counts.append(stream.getvalue().count("\n"))
        return counts

    assert asyncio.run(count()) == [1, 3, 3 + MAX_PENDING]


def test_a_secret_that_became_one_while_lines_waited_is_not_written() -> None:
    """A configuration was loaded again."""

    async def write() -> str:
        stream, secrets = io.StringIO(), ["sk-before"]
        log = RequestLog(LogConfig(), lambda: secrets, stream)
        log(simple(model="sk-canary"))
        secrets.append("sk-canary")
        log.flush()
        log(simple(model="sk-canary"))
        log.flush()
        return stream.getvalue()

    lines = asyncio.run(write())
    assert lines.count("\n") == 2
    assert "canary" not in lines


@pytest.fixture
def restored() -> object:
    logger = logging.getLogger("toolglot")
    before = (logger.handlers, logger.propagate, logger.level)
    yield
    logger.handlers, logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


@pytest.mark.usefixtures("restored")
def test_what_else_is_logged_has_the_same_form_and_no_secret() -> None:
    stream = io.StringIO()
    logs.set_up(LogConfig(), lambda: ["sk-canary"], stream)
    try:
        raise ValueError("with sk-canary in it")
    except ValueError:
        logging.getLogger("toolglot.server").exception("failed with %s", "sk-canary")
    told = json.loads(stream.getvalue())
    assert told["level"] == "error"
    assert told["message"] == "failed with [redacted]"
    assert "ValueError: with [redacted] in it" in told["traceback"]
    assert "canary" not in stream.getvalue()
