"""Recorded exchanges, read and run again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from tests.recordings.made import as_recording
from toolglot.recordings.comparison import Comparison
from toolglot.recordings.format import AnyLine, ClientData, ServedResult, StoreRead, UpstreamData, UpstreamRequest
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.rerun.run import rerun

WithBody = TypeVar("WithBody", ClientData, ServedResult, StoreRead, UpstreamData, UpstreamRequest)


def again(recording: Recording, client: str | None = None) -> Comparison:
    return asyncio.run(rerun(recording, client)).comparison


def read_all(folder: Path) -> list[Recording]:
    return [read_recording(file.read_bytes()) for file in sorted(folder.iterdir())]


def changed(lines: Iterable[AnyLine], kind: type[WithBody], old: str, new: str) -> Recording:
    """The recording with another text in some of its lines."""
    return as_recording(
        replace(line, text=(line.text or "").replace(old, new)) if isinstance(line, kind) else line for line in lines
    )
