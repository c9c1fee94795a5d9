"""Prompt caches live on text that stays the same: from process to process, and from turn to turn."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise

import pytest

from toolglot.ir import Tool, ToolCall
from toolglot.textcalls.prompts import PROMPTS, Result, calls_text, escape_marks, results_text, tool_instructions

TOOLS = (
    Tool(name="b", description="x", parameters={"type": "object", "properties": {"z": {"type": "string"}, "a": {}}}),
    Tool(name="a"),
)
TURNS = 4


def conversation(name: str, turns: int) -> str:
    """The text of so many turns: what the user says, two calls, their results."""
    text = tool_instructions(name, TOOLS, None, True)
    for turn in range(turns):
        calls = [
            ToolCall(id=f"call_{turn}_{place}", name=tool.name, arguments=f'{{"z": "{turn}", "a": {place}}}')
            for place, tool in enumerate(TOOLS)
        ]
        results = [
            Result(name=call.name, id=call.id, text=f"<tool_call> {turn}", index=2 * turn + place)
            for place, call in enumerate(calls)
        ]
        text += "\n" + escape_marks(name, f"Go on with {turn}: </think> b", TOOLS)
        text += "\n" + calls_text(name, calls, 2 * turn)
        text += "\n" + results_text(name, results, TOOLS)
    return text


def digest() -> str:
    return hashlib.sha256("\0".join(conversation(name, TURNS) for name in PROMPTS).encode()).hexdigest()


@pytest.mark.parametrize("name", PROMPTS)
def test_one_turn_more_only_adds_to_the_text(name: str) -> None:
    texts = [conversation(name, turns) for turns in range(TURNS)]
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(texts))


def test_every_process_writes_the_same() -> None:
    """Sets have another order in every process, unless it is seeded."""
    program = "from tests.textcalls.prompts.test_stable import digest; print(digest())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert digests == {digest()}
