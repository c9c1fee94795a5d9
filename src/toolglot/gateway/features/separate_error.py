"""Errors in a separate chunk: some clients understand an error inside a stream only if it arrives alone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from toolglot.gateway.commands import BeginStream, Flow, Outcome, Result, Shutdown, Steps, StreamEnd, Write
from toolglot.gateway.flow import FlowContext, StoppedError, await_result

GAP = 0.05
"""Seconds before the error: Node joins chunks that arrive together."""


def with_separate_error(flow: Flow, context: FlowContext, beginning: bytes) -> Flow:
    """Separate errors from answers. Errors are documents that begin with `beginning`."""
    mark = b"\n\n" + beginning
    outcome: Outcome = None
    is_stopping = False
    try:
        while True:
            command = flow.send(outcome)
            if type(command) is bytes or type(command) is Write:
                data = command if type(command) is bytes else command.data  # type: ignore[union-attr]
                if mark in data:
                    data = yield from separate(context, data, mark)
                    command = Write(data) if type(command) is Write else data
            outcome = yield command
            is_stopping = is_stopping or type(outcome) is Shutdown
    except StopIteration as end:
        result: Result = end.value
    finally:
        flow.close()
    if not isinstance(result, StreamEnd) or is_stopping or mark not in result.data:
        return result
    if result.upstream_headers is not None and not context.begun:
        context.begun = True
        yield BeginStream(result.upstream_headers)
    return replace(result, data=(yield from separate(context, result.data, mark)), upstream_headers=None)


def separate(context: FlowContext, data: bytes, mark: bytes) -> Steps[bytes]:
    """Write the data before the error, and return the error once it can be written alone."""
    end = data.find(mark) + 2
    yield Write(data[:end])
    with suppress(StoppedError):  # the server no longer waits for anything
        yield from await_result(context, partial(asyncio.sleep, GAP))
    return data[end:]
