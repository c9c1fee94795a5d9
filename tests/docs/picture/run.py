"""What one run of an agent leaves behind: screens of its terminal, and the tool calls and results on both wires."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tests.docs.markdown import ROOT

RUN = ROOT / "docs" / "images" / "claude-code.json"

Json = dict[str, Any]


class WireTurn(Struct, frozen=True, kw_only=True):
    """One request and its answer on one wire."""

    path: str
    messages: int
    tools: int
    results: list[Json]
    """The tool results that are new in this request."""
    calls: list[Json]
    """The tool calls of the answer, put together from its stream."""
    text: str
    """The text of the answer."""


class Turn(Struct, frozen=True, kw_only=True):
    client: WireTurn
    upstream: WireTurn
    receipt: list[dict[str, str]]


class Run(Struct, frozen=True, kw_only=True):
    """`screens` are lines with escape sequences: the command, the ready agent, the typed prompt, then the screen while
    the model is asked in each turn, and the last one."""

    date: str
    agent: str
    size: tuple[int, int]
    screens: list[list[str]]
    turns: list[Turn]


def load(file: Path = RUN) -> Run:
    return msgspec.json.decode(file.read_bytes(), type=Run)


def save(run: Run, file: Path = RUN) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
