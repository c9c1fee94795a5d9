"""Recording the MCP tools of an exchange: the available tools, their results, and the outcome of each call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from toolglot.agent.runner import CallOutcome, ServedToolCall
from toolglot.agent.server_records import ToolFailedError
from toolglot.agent.tool_results import value_size
from toolglot.agent.toolbox import AttachedServer
from toolglot.config.schema import McpConfig
from toolglot.gateway.features.recording import ExchangeRecording
from toolglot.receipt import Receipt
from toolglot.recordings import format as lines
from toolglot.recordings.served_servers import RECORDED_LIMITS, AvailableServer, write_servers
from toolglot.tools.mcp import encode_tools
from toolglot.upstream.offload import offload
from toolglot.wire import json

DEFINITION_BYTES = 1_000
"""Approximate bytes of a tool's definition."""


class ToolRecorder:
    """Records the tool calls of one exchange. It is the `watch` of a `ToolRunner`."""

    def __init__(self, recording: ExchangeRecording) -> None:
        self._recording = recording

    def record_servers(
        self, attached: Sequence[AttachedServer], missing: Sequence[str | None], limits: McpConfig, *, keeps: bool
    ) -> None:
        """Record the servers of this exchange, and the reasons for missing ones."""
        recorded = {name: getattr(limits, name) for name in RECORDED_LIMITS}
        line = lines.ServedTools(at=self._recording.at, limits=recorded, keeps=keeps)
        size = DEFINITION_BYTES * sum(len(each.tools) for each in attached)
        self._recording.writing.deferred_line(line, size, partial(_encode_servers, tuple(attached), tuple(missing)))

    def on_progress(self, served: ServedToolCall, done: float, total: float | None, message: str | None) -> None:
        self._recording.writing.line(
            lines.ServedProgress(**self._call_fields(served), done=done, total=total, message=message)
        )

    async def on_result(self, served: ServedToolCall, value: dict[str, Any]) -> None:
        line = lines.ServedResult(**self._call_fields(served), arguments=served.call.arguments)
        body = b""
        try:
            body = await offload(value_size(value), json.encode, value)
        except (ValueError, TypeError, RecursionError) as error:  # a lone surrogate, for example; the call continues
            line = replace(line, failure="unwritable", message=f"what it returned could not be recorded: {error}")
        self._recording.writing.line(line, body)

    def on_failure(self, served: ServedToolCall, why: Exception) -> None:
        kind = "failed" if isinstance(why, ToolFailedError) else "late" if isinstance(why, TimeoutError) else "broken"
        message = str(why) if kind == "failed" else ""
        about = self._call_fields(served)
        self._recording.writing.line(
            lines.ServedResult(**about, arguments=served.call.arguments, failure=kind, message=message)
        )

    def record_call(self, outcome: CallOutcome) -> None:
        """Record the end of a call, whether its tool ran or not."""
        self._recording.writing.line(
            lines.ServedToolLine(
                **self._call_fields(outcome.served),
                arguments=outcome.served.call.arguments,
                failed=bool(outcome.result.is_error),
                seconds=round(outcome.seconds, 6),
            )
        )

    def _call_fields(self, served: ServedToolCall) -> dict[str, Any]:
        tool = served.offered.tool
        return {"at": self._recording.at, "call": served.call.id, "server": tool.server, "tool": tool.name}


def _encode_servers(attached: Sequence[AttachedServer], missing: Sequence[str | None]) -> bytes:
    return write_servers(
        [
            AvailableServer(
                label=each.label,
                server=each.server,
                policy=each.config.policy,
                tool_policies=dict(each.config.tools),
                tools=encode_tools([known.tool for known in each.tools], Receipt()),
                missing=why,
            )
            for each, why in zip(attached, missing, strict=True)
        ]
    )
