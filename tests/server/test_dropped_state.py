"""Reasoning state through clients that drop, move or rename the place where it travels.

Each client is a function from the message that it was given to the one that it sends back, as the real one was seen to
do it. State comes back out of what is left of the message, or out of the store; where there is neither, the receipt
says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.switching import CLIENTS, Stage, Talk
from toolglot.store.sqlite import MEMORY, SqliteStore

Message = dict[str, Any]


def gemini_cli(content: Message) -> Message:
    """Drops thoughts, glues texts together, puts the tool's name before the ids of calls."""
    parts: list[Message] = []
    for part in content["parts"]:
        if part.get("thought"):
            continue
        if "text" in part and parts and "text" in parts[-1]:
            parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
        elif "functionCall" in part:
            call = part["functionCall"]
            parts.append({**part, "functionCall": {**call, "id": f"{call['name']}__{call['id']}"}})
        else:
            parts.append(part)
    return {**content, "parts": parts}


def without_ids(content: Message) -> Message:
    """opencode: thoughts and signatures stay, ids of calls do not."""
    parts = [
        {**part, "functionCall": {key: value for key, value in part["functionCall"].items() if key != "id"}}
        if "functionCall" in part
        else part
        for part in content["parts"]
    ]
    return {**content, "parts": parts}


def litellm(content: Message) -> Message:
    """Drops ids, and moves the first signature that stood on a thought or a text to the text."""
    first = next((part["thoughtSignature"] for part in content["parts"] if "thoughtSignature" in part), None)
    said = "".join(part["text"] for part in content["parts"] if "text" in part and not part.get("thought"))
    calls = [part for part in without_ids(content)["parts"] if "functionCall" in part]
    text = {"text": said, **({"thoughtSignature": first} if first else {})}
    return {**content, "parts": [*([text] if said else []), *calls]}


def moving(content: Message) -> Message:
    """The same, without the signatures of calls."""
    parts = [{**part} for part in litellm(content)["parts"]]
    for part in parts:
        if "functionCall" in part:
            part.pop("thoughtSignature", None)
    return {**content, "parts": parts}


def bare(content: Message) -> Message:
    """Drops ids, thoughts and signatures."""
    parts = [part for part in without_ids(content)["parts"] if not part.get("thought")]
    return {**content, "parts": [{k: v for k, v in part.items() if k != "thoughtSignature"} for part in parts]}


class Reshaped(Talk):
    """A Gemini client that sends its answers back so."""

    def __init__(self, stage: Stage, reshape: Callable[[Message], Message], *, streams: bool) -> None:
        super().__init__(stage, "gemini", streams=streams)
        self._reshape = reshape

    async def turn(self, by: str) -> set[int]:
        lost = await super().turn(by)
        self.history[-1] = self._reshape(self.history[-1])
        calls = [part["functionCall"] for part in self.history[-1]["parts"] if "functionCall" in part]
        self._calls = [(call.get("id", ""), call["name"]) for call in calls]
        return lost


def play(reshape: Callable[[Message], Message], by: str, *, streams: bool, keeps: bool) -> tuple[list[set[int]], Talk]:
    """Four turns, two of them with calls in parallel or after text; what was lost in each."""

    async def run() -> tuple[list[set[int]], Talk]:
        store = SqliteStore(MEMORY) if keeps else None
        talk = Reshaped(Stage(store), reshape, streams=streams)
        talk.stage.vendors[by].minds_ids = False
        try:
            lost = [await talk.turn(by) for _ in range(5)]
        finally:
            if store is not None:
                await store.close()
        assert talk.stage.refused == []
        return lost, talk

    return asyncio.run(run())


BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
EVERY_OWNER = pytest.mark.parametrize("by", ["claude", "gpt", "deepseek"])
NOTHING_LOST: list[set[int]] = [set()] * 5


@BOTH
@EVERY_OWNER
@pytest.mark.parametrize("reshape", [gemini_cli, without_ids, litellm, moving, bare])
def test_state_comes_back_to_its_owner_with_a_store(
    reshape: Callable[[Message], Message], by: str, streams: bool
) -> None:
    lost, _ = play(reshape, by, streams=streams, keeps=True)
    assert lost == NOTHING_LOST


CALLING = {0, 1, 3}
"""The turns of the script with calls; the one between them only speaks."""


@BOTH
@EVERY_OWNER
@pytest.mark.parametrize("reshape", [gemini_cli, without_ids, litellm])
def test_state_comes_back_to_its_owner_without_a_store(
    reshape: Callable[[Message], Message], by: str, streams: bool
) -> None:
    lost, talk = play(reshape, by, streams=streams, keeps=False)
    assert not any(each & CALLING for each in lost), lost
    if reshape is without_ids:  # the others keep one signature of an answer without calls, or none
        assert lost == NOTHING_LOST
    assert any(line.why == f"the client carried it for {talk.stage.vendors[by].dialect}" for line in talk.receipt)


TOLD = {
    "claude": "thinking: this turn has tool calls without the target's own reasoning; it is off until the turn ends",
    "gpt": "of calls: no reasoning of the target is known for some of them",
    "deepseek": "no reasoning: the target requires the field, even if empty",
    "gemini": "no thought signature: marked as another model's call, because its origin is unknown",
}
# Within one dialect a history goes through as it is. Chat clients return Gemini's signatures with their calls.
DROPPING = [
    (client, by)
    for client in CLIENTS
    if client != "warp"
    for by in TOLD
    if client != Stage(None).vendors[by].dialect and (client, by) != ("openai_chat", "gemini")
]


@pytest.mark.parametrize(("client", "by"), DROPPING)
def test_the_receipt_says_so_where_nobody_has_kept_anything(client: str, by: str) -> None:
    """A client that sends back words, calls and results alone, and a gateway without a store."""

    async def run() -> list[str]:
        talk = Talk(Stage(None), client, keeps=False)
        for _ in range(2):
            await talk.turn(by)
        assert talk.stage.refused == []
        return [f"{line.what}: {line.why}" for line in talk.receipt]

    lines = asyncio.run(run())
    assert TOLD[by] in lines, lines
