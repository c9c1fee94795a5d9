"""Recording what tools say and return: whatever it is, the call goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from toolglot.agent.runner import CallOutcome, ServedToolCall, ToolRunner
from toolglot.agent.server_records import ServerTool, ToolFailedError
from toolglot.agent.toolbox import OfferedTool
from toolglot.config.schema import McpConfig, RecordConfig
from toolglot.gateway.features.recorded_tools import ToolRecorder
from toolglot.gateway.features.recording import ExchangeRecording
from toolglot.ir import Text, Tool, ToolCall
from toolglot.recordings.format import RecordedClientRequest, RecordingEnd, RecordingHead, ServedProgress, ServedResult
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.writing.recorder import Recorder

DEEP: Any = []
for _ in range(5_000):
    DEEP = [DEEP]


class Returning:
    """A server whose tool does this."""

    def __init__(self, value: Any) -> None:
        self._value = value

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: Any = None,
        generation: int | None = None,
    ) -> dict[str, Any]:
        for done in (1.0, 2.0):
            on_progress(done, 2.0, "so far")
        if isinstance(self._value, Exception):
            raise self._value
        value: dict[str, Any] = self._value
        return value


def served() -> ServedToolCall:
    tool = ServerTool(server="s", name="t", tool=Tool(name="t"))
    call = ToolCall(id="c", name="s__t", arguments='{"a": 1}')
    return ServedToolCall(call, OfferedTool(name="s__t", label="s", tool=tool, policy="auto"))


def recorded(value: Any, folder: Path) -> tuple[CallOutcome, Recording]:
    """What comes of a call whose tool returns this, and what is recorded of it."""

    async def work() -> CallOutcome:
        recorder = Recorder(RecordConfig(directory=str(folder)))
        recorder.start()
        try:
            writing = recorder.begin("req_1", ())
            writing.begin(RecordingHead(version=1), RecordedClientRequest(), b"{}")
            recording = ExchangeRecording(writing, asyncio.get_running_loop().time())
            runner = ToolRunner(Returning(value), McpConfig(), watch=ToolRecorder(recording))
            news: AsyncGenerator[Any, None] = runner.run([served()], asyncio.get_running_loop().time() + 60)
            heard = [each async for each in news]
            writing.end(RecordingEnd())
        finally:
            recorder.close()
        outcome: CallOutcome = heard[-1]
        return outcome

    outcome = asyncio.run(work())
    (file,) = folder.iterdir()
    return outcome, read_recording(file.read_bytes())


def test_a_result_is_recorded_as_it_came_with_what_was_passed_on_of_its_progress(tmp_path: Path) -> None:
    value = {"content": [{"type": "text", "text": "x" * 200_000, "_meta": {"a": 1}}], "later": [1.5]}
    outcome, recording = recorded(value, tmp_path)
    (result,) = recording.results
    assert result.failure is None
    assert b'"_meta":{"a":1}' in result.data
    assert b'"later":[1.5]' in result.data
    assert len(result.data) > 200_000  # the model gets less
    assert isinstance(outcome.result.content[0], Text)
    assert len(outcome.result.content[0].text) < 110_000
    progress = [line for line in recording.lines if isinstance(line, ServedProgress)]
    assert [(line.call, line.done, line.total, line.message) for line in progress] == [("c", 1.0, 2.0, "so far")]


@pytest.mark.parametrize("odd", ["\ud800", {"\udfff": 1}, DEEP], ids=["half a character", "in a name", "deep"])
def test_a_result_that_cannot_be_written_is_a_result_all_the_same(odd: Any, tmp_path: Path) -> None:
    outcome, recording = recorded({"content": [{"type": "text", "text": "fine"}], "later": odd}, tmp_path)
    assert outcome.result.content == (Text(text="fine"),)
    assert not outcome.result.is_error
    (result,) = recording.results
    assert result.failure == "unwritable"
    assert "could not be recorded" in result.message


@pytest.mark.parametrize(
    ("why", "kind", "message"),
    [
        (ToolFailedError("it is gone"), "failed", "it is gone"),
        (TimeoutError(), "late", ""),
        (RuntimeError("a secret of its own"), "broken", ""),
    ],
)
def test_why_there_is_no_result_is_recorded(why: Exception, kind: str, message: str, tmp_path: Path) -> None:
    outcome, recording = recorded(why, tmp_path)
    assert outcome.result.is_error
    (result,) = recording.results
    assert result == ServedResult(
        at=result.at, call="c", server="s", tool="t", arguments='{"a": 1}', failure=kind, message=message
    )
