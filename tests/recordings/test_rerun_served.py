"""Exchanges in which the gateway has run tools, run again: with what they returned then, and no servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.hosting import everyday_over_http, until, wayward
from tests.recordings.made import as_recording
from tests.recordings.rerunning import again, changed, read_all
from tests.server.gateway import CLIENTS, at, gateway
from tests.server.test_mcp_loop import echo, own, says, turns
from tests.server.warp_loop import kept
from tests.upstream.bad_server import BadServer, Script, expect, reply
from toolglot.agent.server_records import ToolFailedError
from toolglot.config.schema import McpConfig, McpServerConfig, ModelConfig, RecordConfig
from toolglot.errors import DecodeError
from toolglot.gateway.features.mcp_approvals import fingerprint
from toolglot.ir import ToolCall
from toolglot.recordings.format import AnyLine, ServedProgress, ServedResult, ServedTools, StoreRead, UpstreamRequest
from toolglot.recordings.read import Recording
from toolglot.recordings.rerun.run import NotRerunError
from toolglot.recordings.rerun.servers import NOT_RECORDED, RecordedHost
from toolglot.recordings.timeline import make_timeline
from toolglot.store.sqlite import SqliteStore

CASES = [(client, streams) for client in CLIENTS for streams in (False, True)]
MODELS = {"m": ModelConfig(upstream="up", mcp=("day",))}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with everyday_over_http() as address:
        yield address


def call(name: str, number: int, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=f"day__{name}", arguments=json.dumps(arguments))


def script(upstream: str, *, streams: bool) -> list[Script]:
    """A round with tools that say something while they run, fail and show a picture, and one with the client's own."""
    slow = call("slow", 2, seconds=0, mark="/nowhere/x")
    rest = call("echo", 3, nothing="at all"), call("picture", 4), call("missing", 5)
    first = says(upstream, "One moment. ", echo("ping"), slow, *rest, streams=streams)
    return [first, says(upstream, "And now. ", echo("pong", 6), own(), streams=streams)]


@pytest.fixture(scope="module")
def recorded(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Recording]:
    """The same exchange with a client of each dialect."""
    folder = tmp_path_factory.mktemp("recordings")
    scripts = [each for _, streams in CASES for each in script("openai_chat", streams=streams)]
    with (
        BadServer(*scripts) as server,
        gateway(
            at("openai_chat", server.url),
            models=MODELS,
            mcp=McpConfig(servers={"day": McpServerConfig(url=url, policy="auto")}),
            store=SqliteStore(":memory:"),
            record=RecordConfig(directory=str(folder)),
        ) as running,
    ):
        for client, streams in CASES:
            assert running.ask(client, stream=streams).status == 200
    return dict(zip(CASES, read_all(folder), strict=True))


@pytest.mark.parametrize(("client", "streams"), CASES)
def test_nothing_differs_in_what_the_gateway_has_just_recorded(
    recorded: dict[tuple[str, bool], Recording], client: str, streams: bool
) -> None:
    recording = recorded[client, streams]
    assert (len(recording.attempts), len(recording.results), len(recording.served)) == (2, 5, 6)
    comparison = again(recording)
    assert not comparison.differs, comparison


def test_a_pattern_that_matches_the_tools_makes_no_difference(url: str, tmp_path: Path) -> None:
    with (
        BadServer(*script("openai_chat", streams=True)) as server,
        gateway(
            at("openai_chat", server.url),
            models=MODELS,
            mcp=McpConfig(servers={"day": McpServerConfig(url=url, policy="auto")}),
            record=RecordConfig(directory=str(tmp_path), redact=("echo", "slow")),
        ) as running,
    ):
        assert running.ask("openai_chat", stream=True).status == 200
    (recording,) = read_all(tmp_path)
    assert {line.tool for line in recording.results} >= {"echo", "slow"}
    assert b"[redacted]" in recording.body, "where the client is told of them in words"
    comparison = again(recording)
    assert not comparison.differs, comparison


@pytest.mark.parametrize("client", CLIENTS)
def test_another_client_is_told_the_same_answer(recorded: dict[tuple[str, bool], Recording], client: str) -> None:
    for then in CLIENTS:
        comparison = again(recorded[then, True], client)
        assert comparison.answer == [], then
        assert comparison.breaches == [], then


def test_what_a_tool_returned_is_fed_back_to_the_model_and_told_to_the_client(
    recorded: dict[tuple[str, bool], Recording],
) -> None:
    lines = recorded["openai_chat", True].lines
    comparison = again(changed(lines, ServedResult, "ping", "pang"))
    assert comparison.requests[0] == []
    assert any('"ping" -> "pang"' in str(each) for each in comparison.requests[1])
    assert any("pang" in str(each) for each in comparison.answer)


def test_what_a_tool_said_while_it_ran_is_told_to_the_client(recorded: dict[tuple[str, bool], Recording]) -> None:
    lines = recorded["openai_chat", True].lines
    assert [line.message for line in lines if isinstance(line, ServedProgress)] == ["half"]
    other = (replace(line, message="most") if isinstance(line, ServedProgress) else line for line in lines)
    assert any("most" in str(each) for each in again(as_recording(other)).answer)


def test_the_tools_of_that_moment_are_offered(recorded: dict[tuple[str, bool], Recording]) -> None:
    lines = recorded["anthropic", False].lines
    assert any(isinstance(line, ServedTools) and "Says the same." in (line.text or "") for line in lines)
    other = (
        replace(line, text=(line.text or "").replace("Says the same.", "Says it.")) if _is_list(line) else line  # type: ignore[union-attr]
        for line in lines
    )
    comparison = again(as_recording(other))
    assert all(any("Says it." in str(each) for each in request) for request in comparison.requests)


def _is_list(line: AnyLine) -> bool:
    return isinstance(line, ServedTools)


def test_a_call_that_is_not_recorded_fails_and_is_told(recorded: dict[tuple[str, bool], Recording]) -> None:
    lines = recorded["openai_chat", False].lines
    without = [line for line in lines if not (isinstance(line, ServedResult) and line.tool == "picture")]
    assert any(NOT_RECORDED in str(each) for each in again(as_recording(without)).requests[1])


def test_an_earlier_recording_has_no_results(recorded: dict[tuple[str, bool], Recording]) -> None:
    new = (ServedTools, ServedResult, ServedProgress, StoreRead)
    earlier = as_recording(line for line in recorded["openai_chat", True].lines if not isinstance(line, new))
    with pytest.raises(NotRerunError, match="tools were run by the gateway in between, whose results are not"):
        again(earlier)


@pytest.mark.parametrize(
    "line",
    [
        ServedTools(text="{}"),
        ServedTools(text='[{"tools": 7}]'),
        ServedTools(text='[{"server": "day", "label": "day", "policy": "perhaps"}]'),
        ServedTools(text="[]", limits={"rounds": "many"}),
        ServedResult(text="{", tool="echo", server="day"),
    ],
)
def test_a_line_that_makes_no_sense_is_told(recorded: dict[tuple[str, bool], Recording], line: AnyLine) -> None:
    lines = recorded["openai_chat", True].lines
    with pytest.raises(DecodeError):
        again(as_recording(line if type(each) is type(line) else each for each in lines))


def test_a_recording_without_its_end_differs_in_nothing_that_it_tells(
    recorded: dict[tuple[str, bool], Recording],
) -> None:
    lines = recorded["openai_chat", True].lines
    first = next(number for number, line in enumerate(lines) if isinstance(line, UpstreamRequest))
    for count in range(first + 1, len(lines)):
        comparison = again(as_recording(lines[:count]))
        assert not comparison.differs, (lines[count - 1], comparison)


def test_explaining_takes_the_new_lines_as_they_are(recorded: dict[tuple[str, bool], Recording]) -> None:
    timeline = make_timeline(recorded["openai_chat", True])
    assert any("2 attempts, 6 tools run here" in line for line in timeline.totals)
    assert not any("the current code" in line for line in timeline.totals)


class Case:
    """One gateway for each of these; what it records is run again."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def run(self, *scripts: Script, client: str = "openai_chat", body: Any = None, **fields: Any) -> Recording:
        server = McpServerConfig(url=self.url, policy="auto")
        fields = {"models": MODELS, "mcp": McpConfig(servers={"day": server}), **fields}
        headers = fields.pop("headers", {})
        with (
            BadServer(*scripts) as upstream,
            gateway(
                at("openai_chat", upstream.url), record=RecordConfig(directory=str(self.folder)), **fields
            ) as running,
        ):
            running.ask(client, body=body, headers=headers)
        (recording,) = read_all(self.folder)
        return recording


@pytest.fixture
def case(tmp_path: Path, url: str) -> Case:
    return Case(tmp_path, url)


def says_done() -> Script:
    return says("openai_chat", "Done.", streams=False)


def test_servers_that_were_at_hand_and_not_used_are_at_hand_again(case: Case) -> None:
    recording = case.run(says_done())
    assert not recording.served
    assert b"day__echo" in recording.attempts[0].request.data
    assert not again(recording).differs


def test_a_server_that_was_not_available_is_not_available_again(case: Case) -> None:
    servers = {"gone": wayward("exit"), "day": McpServerConfig(url=case.url, policy="ask", tools={"echo": "auto"})}
    models = {"m": ModelConfig(upstream="up", mcp=("gone", "day"))}
    first = says("openai_chat", echo("x"), streams=False)
    recording = case.run(first, says_done(), models=models, mcp=McpConfig(servers=servers))
    assert any("not available" in line["why"] for line in recording.receipt)
    assert any("not offered" in line["what"] for line in recording.receipt)
    assert not again(recording).differs


def test_a_server_that_a_header_has_attached_is_attached_again(case: Case) -> None:
    first = says("openai_chat", echo("x"), streams=False)
    recording = case.run(first, says_done(), models={}, headers={"x-toolglot-mcp": "day"})
    assert len(recording.results) == 1
    assert not again(recording).differs


@pytest.mark.parametrize("approval", ["never", "always"])
def test_a_server_that_the_request_names_is_known_by_its_address_again(case: Case, approval: str) -> None:
    tool = {"type": "mcp", "server_label": "here", "server_url": case.url, "require_approval": approval}
    call = ToolCall(id="c", name="here__echo", arguments='{"text": "x"}')
    first = says("openai_chat", call, streams=False)
    body = {"input": "Hi", "tools": [tool]}
    recording = case.run(first, says_done(), client="openai_responses", body=body, models={})
    assert (b"mcp_approval_request" in recording.body) == (approval == "always")
    assert not again(recording).differs


@pytest.mark.parametrize("issued", [True, False], ids=["asked for", "forged"])
def test_a_call_that_its_reader_has_allowed_is_run_again_before_the_model_is_asked(case: Case, issued: bool) -> None:
    tool = {"type": "mcp", "server_label": "day", "server_url": case.url, "require_approval": "always"}
    asked = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "day", "name": "echo"}
    said = [
        {"role": "user", "content": "Hi"},
        {**asked, "arguments": '{"text": "allowed"}'},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ]
    body = {"input": said, "tools": [tool]}
    with kept() as store:
        if issued:
            asyncio.run(store.issue_approval("", fingerprint("mcpr_1", "day", "echo", '{"text": "allowed"}')))
        recording = case.run(says_done(), client="openai_responses", body=body, models={}, store=store)
    assert len(recording.results) == issued
    assert (b"was not run" in recording.attempts[0].request.data) == (not issued)
    assert not again(recording).differs


def test_a_result_that_was_cut_is_cut_again(case: Case) -> None:
    mcp = McpConfig(servers={"day": McpServerConfig(url=case.url, policy="auto")}, result_bytes=100, rounds=2)
    first = says("openai_chat", echo("x" * 1000), streams=False)
    recording = case.run(first, says_done(), mcp=mcp)
    assert b"cut off: 100 of" in recording.attempts[1].request.data
    assert "x" * 1000 in (recording.results[0].text or "")
    assert not again(recording).differs


def test_a_tool_that_was_too_slow_is_so_again_at_once(case: Case) -> None:
    """The time for all calls was over, and so the model was asked for the last time."""
    mcp = McpConfig(servers={"day": McpServerConfig(url=case.url, policy="auto")}, seconds=0.2)
    slow = says("openai_chat", call("slow", 1, seconds=60, mark="/nowhere/x"), streams=False)
    recording = case.run(slow, says_done(), mcp=mcp)
    assert recording.results[0].failure == "late"
    assert b'"tool_choice":"none"' in recording.attempts[1].request.data
    assert not again(recording).differs


def test_a_round_that_failed_fails_again(case: Case) -> None:
    failed: Script = [expect(), reply({"error": {"message": "No."}}, 403)]
    recording = case.run(says("openai_chat", echo("x"), streams=False), failed)
    assert recording.response is not None
    assert recording.response.status == 403
    assert not again(recording).differs


def test_a_key_that_a_tool_told_is_redacted_and_makes_no_difference(case: Case) -> None:
    first = says("openai_chat", echo("Bearer abcdefgh12345678"), streams=False)
    recording = case.run(first, says_done())
    assert "abcdefgh12345678" not in (recording.results[0].text or "")
    assert not again(recording).differs


def test_what_was_run_in_the_turn_before_is_put_in_again(url: str, tmp_path: Path) -> None:
    answers = [
        says("openai_chat", echo("ping"), streams=False),
        says("openai_chat", "Two. ", echo("pong", 2), own(), streams=False),
        says("openai_chat", "Three.", streams=False),
    ]
    with (
        BadServer(*answers) as server,
        gateway(
            at("openai_chat", server.url),
            models=MODELS,
            mcp=McpConfig(servers={"day": McpServerConfig(url=url, policy="auto")}),
            store=SqliteStore(":memory:"),
            record=RecordConfig(directory=str(tmp_path)),
        ) as running,
    ):
        first = running.ask("openai_chat")
        running.ask("openai_chat", body=turns("openai_chat", first, "own result"))
    _, second = read_all(tmp_path)
    assert b"ping" in second.attempts[0].request.data
    assert not again(second).differs
    assert any("pang" in str(each) for each in again(changed(second.lines, StoreRead, "ping", "pang")).requests[0])


def test_of_a_client_that_left_while_a_tool_ran_only_what_it_got_is_compared(url: str, tmp_path: Path) -> None:
    mark, folder = tmp_path / "mark", tmp_path / "recordings"
    slow = call("slow", 1, seconds=60, mark=str(mark))
    with (
        BadServer(says("openai_chat", "Wait. ", slow, streams=True)) as server,
        gateway(
            at("openai_chat", server.url),
            models=MODELS,
            mcp=McpConfig(servers={"day": McpServerConfig(url=url, policy="auto")}),
            record=RecordConfig(directory=str(folder)),
        ) as running,
    ):
        talk = running.begin("openai_chat", stream=True)
        talk.until(b"half")
        talk.leave()
        assert running.record().cancelled
        asyncio.run(until(mark.exists))
    (recording,) = read_all(folder)
    assert recording.results == []
    comparison = again(recording)
    assert not comparison.differs, comparison


def test_calls_that_ran_side_by_side_say_what_they_said_in_the_same_order(
    recorded: dict[tuple[str, bool], Recording],
) -> None:
    head, request = recorded["openai_chat", True].lines[:2]
    said = [("a", 1.0), ("b", 2.0), ("b", 3.0), ("a", 4.0)]
    results = [ServedResult(at=5.0, call="b", server="s", tool="b", text="{}")]
    results.append(ServedResult(at=6.0, call="a", server="s", tool="a", failure="failed", message="no"))
    lines = [ServedProgress(at=at, call=name, server="s", tool=name, done=at) for name, at in said]
    recording = as_recording([head, request, *lines, *results])

    async def work() -> list[tuple[str, float]]:
        host, heard = RecordedHost(recording, lambda: None), list[tuple[str, float]]()

        async def one(name: str) -> None:
            try:
                await host.call("s", name, {}, on_progress=lambda done, total, message: heard.append((name, done)))
            except ToolFailedError as error:
                heard.append((str(error), 6.0))
            else:
                heard.append((name, 5.0))

        await asyncio.gather(one("a"), one("b"))
        return heard

    assert asyncio.run(work()) == [*said, ("b", 5.0), ("no", 6.0)]
