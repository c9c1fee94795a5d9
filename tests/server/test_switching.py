"""One conversation, several models: the next turn may be any model's, and each gets its own state back.

Every model here refuses what its real API refuses. All ordered pairs are tried, with the switch at every turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.server.switching import CLIENTS, KINDS, NAMES, Stage, Talk
from toolglot.store.sqlite import MEMORY, SqliteStore

T = TypeVar("T")
TURNS = 5
"""Of the conversation; a sixth is the first model's again."""


def staged(work: Callable[[Stage], Awaitable[T]], path: Path | str | None = MEMORY) -> T:
    """The work with a stage whose store is at this path, if it has one."""

    async def run() -> T:
        store = None if path is None else SqliteStore(path)
        try:
            return await work(Stage(store))
        finally:
            if store is not None:
                await store.close()

    return asyncio.run(run())


async def there_and_back(stage: Stage, client: str, keeps: bool, switches: Iterable[int]) -> list[str]:
    """What went wrong in all conversations that one model begins, another goes on with, and the first one ends."""
    wrong: list[str] = []
    for first in NAMES:
        begun = Talk(stage, client, keeps=keeps, about=f" ({first})")
        for turn in range(1, TURNS):
            wrong += [f"{first}, turn {turn}: {lost}" for lost in await begun.turn(first) if stage.store]
            for other in NAMES if turn in switches else ():
                if other != first:
                    talk = begun.fork()
                    for by in [other] * (TURNS - turn) + [first]:
                        lost = await talk.turn(by)
                        if (lost and stage.store) or stage.refused:
                            what = stage.refused or f"no state of {lost}"
                            wrong.append(f"{first} to {other} after {turn}, {by} in turn {talk.number}: {what}")
                            stage.refused.clear()
    return wrong


@pytest.mark.parametrize(("client", "keeps"), KINDS)
def test_no_model_refuses_a_switch_at_any_turn_and_all_state_comes_back(client: str, keeps: bool) -> None:
    assert staged(lambda stage: there_and_back(stage, client, keeps, range(1, TURNS))) == []


@pytest.mark.parametrize(("client", "keeps"), KINDS)
def test_without_a_store_no_model_refuses_a_switch(client: str, keeps: bool) -> None:
    """In the middle of a turn, and behind one; what is lost is told, and nobody is asked for what is not there."""
    assert staged(lambda stage: there_and_back(stage, client, keeps, (2, 4)), None) == []


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    "order",
    [
        ("claude", "gpt", "gemini", "claude", "gpt", "gemini"),
        ("gemini", "claude", "gemini", "gpt", "deepseek", "claude"),
        ("gpt", "plain", "gpt", "warp", "claude", "gpt"),
    ],
)
def test_a_chat_client_that_echoes_its_messages_needs_no_store(order: tuple[str, ...], streams: bool) -> None:
    async def work(stage: Stage) -> list[set[int]]:
        talk = Talk(stage, "openai_chat", keeps=True, streams=streams)
        lost = [await talk.turn(by) for by in order]
        assert stage.refused == []
        return lost

    assert staged(work, None) == [set()] * len(order)


AROUND = ("claude", "gpt", "gemini", "plain", "warp", "claude")


async def go_around(stage: Stage, client: str, keeps: bool, order: tuple[str, ...]) -> list[tuple[str, set[int]]]:
    talk = Talk(stage, client, keeps=keeps)
    lost = [(by, await talk.turn(by)) for by in order]
    assert stage.refused == []
    return lost


@pytest.mark.parametrize("order", [AROUND, AROUND[::-1], ("warp", "deepseek", "gemini", "gpt", "claude", "gemini")])
@pytest.mark.parametrize(("client", "keeps"), KINDS)
def test_one_conversation_goes_around_all_models(client: str, keeps: bool, order: tuple[str, ...]) -> None:
    assert staged(lambda stage: go_around(stage, client, keeps, order)) == [(by, set()) for by in order]


@pytest.mark.parametrize(("client", "keeps"), KINDS)
def test_conversations_in_the_same_words_do_not_get_each_others_state(client: str, keeps: bool) -> None:
    async def work(stage: Stage) -> list[set[int]]:
        orders = [("claude", "gemini", "gpt"), ("gpt", "claude", "gemini"), ("deepseek", "gpt", "claude")]
        talks = [Talk(stage, client, keeps=keeps) for _ in orders]
        lost = [
            await talk.turn(order[turn % 3]) for turn in range(6) for talk, order in zip(talks, orders, strict=True)
        ]
        assert stage.refused == []
        return lost

    assert staged(work) == [set()] * 18


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("client", CLIENTS)
def test_state_is_kept_of_streams_and_of_whole_answers(client: str, streams: bool) -> None:
    async def work(stage: Stage) -> list[set[int]]:
        talk = Talk(stage, client, keeps=False, streams=streams)
        return [await talk.turn(by) for by in ("gemini", "gpt", "gemini", "gpt", "deepseek", "gemini")]

    assert staged(work) == [set()] * 6


def test_state_survives_a_restart_and_is_shared_by_gateways_with_one_file(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"

    async def work(stage: Stage) -> list[set[int]]:
        assert stage.store is not None
        talk = Talk(stage, "openai_chat", keeps=False)
        lost = [await talk.turn(by) for by in ("claude", "gpt", "gemini")]
        await stage.store.close()
        stage.store = SqliteStore(path)
        lost.append(await talk.turn("claude"))
        other = stage.store = SqliteStore(path)
        lost += [await talk.turn(by) for by in ("gpt", "gemini")]
        await other.close()
        return lost

    assert staged(work, path) == [set()] * 6


def lines(talk: Talk) -> list[str]:
    return [f"{line.severity} {line.where} {line.what}: {line.why}" for line in talk.receipt]


def test_each_steps_receipt_says_what_became_of_the_state() -> None:
    async def work(stage: Stage) -> list[list[str]]:
        talk = Talk(stage, "anthropic", keeps=True)
        told = []
        for by in ("gpt", "claude", "deepseek", "gpt"):
            await talk.turn(by)
            told.append(lines(talk))
        return told

    _, to_claude, to_deepseek, back = staged(work)
    assert "loss messages[1] reasoning: reasoning of another model cannot be given back" in to_claude
    assert "note messages[1] reasoning state: signatures go back only to the model that made them" in to_deepseek
    assert "note messages[1].content[0] reasoning state: the client carried it for openai_responses" in back
    assert not [line for line in back if "was kept here" in line]  # it has carried the phase, too


@pytest.mark.parametrize(
    ("client", "where", "kept", "alone"),
    [
        (
            "openai_chat",
            "it is carried in reasoning_details of the client's message",
            "; it is kept here for gemini as well",
            "note",
        ),
        ("warp", "the client's API has no field that carries it", "; it is kept here for gemini", "loss"),
    ],
)
def test_a_client_is_told_where_its_state_is(client: str, where: str, kept: str, alone: str) -> None:
    async def work(stage: Stage) -> list[tuple[str, str]]:
        talk = Talk(stage, client, keeps=False)
        await talk.turn("gemini")
        return [(line.severity, line.why) for line in talk.receipt if line.what == "reasoning state"]

    assert staged(work) == [("note", where + kept)]
    assert staged(work, None) == [(alone, where)]


def test_what_nobody_kept_is_made_up_for_and_told() -> None:
    """A client that drops everything, no store: each API is told what it accepts instead."""

    async def work(stage: Stage) -> dict[str, list[str]]:
        told = {}
        for by in ("gemini", "claude", "deepseek", "gpt"):
            talk = Talk(stage, "openai_responses", keeps=False)
            await talk.turn("plain")
            await talk.turn(by)
            told[by] = lines(talk)
        return told

    told = staged(work, None)
    marked = "marked as another model's call, because its origin is unknown"
    assert f"note messages[2].content[0] no thought signature: {marked}" in told["gemini"]
    off = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    assert f"loss reasoning thinking: {off}" in told["claude"]
    assert "note messages[1] no reasoning: the target requires the field, even if empty" in told["deepseek"]
    freed = "note messages[2] item id: the target did not create it, or its reasoning was lost"
    assert freed in told["gpt"]


@pytest.mark.parametrize("repeats", [False, True], ids=["says_it_once", "repeats"])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    ("by", "keeps"),
    [(by, keeps) for by in ("claude", "gpt", "gemini") for keeps in (True, False)] + [("deepseek", False)],
)
def test_state_comes_back_from_a_client_that_splits_batches_of_calls(
    by: str, keeps: bool, streams: bool, repeats: bool
) -> None:
    """Each call of a batch is in a message of its own, with its result behind it. Some clients repeat text and
    reasoning in each of them."""

    async def work(stage: Stage) -> list[set[int]]:
        talk = Talk(stage, "openai_chat", keeps=keeps, streams=streams, splits=True, repeats=repeats)
        lost = []
        for _ in range(TURNS):
            lost.append(await talk.turn(by))
            assert talk.receipt.losses == ()
        assert stage.refused == []
        return lost

    assert staged(work) == [set()] * TURNS
    if keeps:
        assert staged(work, None) == [set()] * TURNS
