"""What is kept of calls that a client did not see, and how it comes back into a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from toolglot.agent.loop import LoopProgress
from toolglot.gateway.features.mcp_rounds import McpRounds, RecentFailures
from toolglot.ir import Block, Message, Opaque, Request, Text, Thinking, ToolCall, ToolResult, replace
from toolglot.store.sqlite import SqliteStore

HI = Message(role="user", content=(Text(text="Hi"),))
SERVED = ToolCall(id="a", name="s__t", arguments="{}")
OWN = ToolCall(id="b", name="f", arguments='{"x": 1.0}')
ROUNDS = (
    Message(role="assistant", content=(Text(text="Both."), SERVED, OWN)),
    Message(role="tool", content=(ToolResult(call_id="a", content=(Text(text="21"),)),)),
)
NOW = 1763164800.0
SEEN = (Text(text="Both."), OWN)
ANSWER = Message(role="tool", content=(ToolResult(call_id="b", content=(Text(text="ok"),)),))


def rounds_of(store: SqliteStore | None) -> McpRounds:
    return McpRounds(store, "me", RecentFailures())


def told(*messages: Message) -> Request:
    return Request(model="m", messages=messages)


def after(path: Path, request: Request, asked: Sequence[Message] = (HI,), seen: Sequence[Block] = SEEN) -> Request:
    """The request, once an answer has been kept."""

    async def work() -> Request:
        store = SqliteStore(str(path))
        try:
            assert await rounds_of(store).store(asked, seen, ROUNDS)
            return (await rounds_of(store).restore(request, NOW))[0]
        finally:
            await store.close()

    return asyncio.run(work())


BOTH = Message(role="tool", content=(*ROUNDS[1].content, *ANSWER.content))
"""The results of one turn stand in one message."""


def test_the_answer_is_told_in_full_whatever_the_client_made_of_its_form(tmp_path: Path) -> None:
    call = ToolCall(id="other id", name="f", arguments='{"x":1}')
    said = Message(role="assistant", content=(Thinking(text="whatever"), Text(text=" Both.\n\n"), call))
    result = ToolResult(call_id="other id", content=(Text(text="ok"),))
    restored = after(tmp_path / "s", told(HI, said, Message(role="tool", content=(result,))))
    # The client's own calls have the ids that the client knows them by.
    full = replace(ROUNDS[0], content=(Text(text="Both."), SERVED, replace(OWN, id="other id")))
    assert restored.messages == (HI, full, replace(BOTH, content=(*ROUNDS[1].content, result)))


def test_several_messages_of_one_answer_are_one(tmp_path: Path) -> None:
    parts = (Message(role="assistant", content=(Text(text="Both."),)), Message(role="assistant", content=(OWN,)))
    assert after(tmp_path / "s", told(HI, *parts, ANSWER)).messages == (HI, ROUNDS[0], BOTH)


def test_system_text_may_change_and_stays_where_it_is(tmp_path: Path) -> None:
    first, second = (Message(role="system", content=(Text(text=day),)) for day in ("Monday", "Tuesday"))
    said = Message(role="assistant", content=SEEN)
    restored = after(tmp_path / "s", told(second, HI, said, second, ANSWER), asked=(first, HI))
    assert restored.messages == (second, HI, *ROUNDS, second, ANSWER)


def test_another_conversation_is_left_alone(tmp_path: Path) -> None:
    said = Message(role="assistant", content=SEEN)
    bye = Message(role="user", content=(Text(text="Bye"),))
    request = told(bye, said, ANSWER)
    assert after(tmp_path / "s", request) == request


def test_conversations_that_say_the_same_are_told_apart_by_the_ids_of_their_calls(tmp_path: Path) -> None:
    """An id that nobody knows stands for the one that was kept last."""
    results = [replace(ROUNDS[1].content[0], content=(Text(text=text),)) for text in ("first", "second")]

    async def work() -> list[Request]:
        store = SqliteStore(str(tmp_path / "s"))
        try:
            for own, result in zip("bc", results, strict=True):
                rounds = (
                    replace(ROUNDS[0], content=(Text(text="Both."), SERVED, replace(OWN, id=own))),
                    Message(role="tool", content=(result,)),
                )
                await rounds_of(store).store((HI,), (SEEN[0], replace(OWN, id=own)), rounds)
            return [
                (
                    await rounds_of(store).restore(
                        told(HI, Message(role="assistant", content=(SEEN[0], replace(OWN, id=own))), HI), NOW
                    )
                )[0]
                for own in "bcd"
            ]
        finally:
            await store.close()

    restored = asyncio.run(work())
    assert [request.messages[2].content for request in restored] == [(results[0],), (results[1],), (results[1],)]


def test_an_answer_with_words_for_served_calls_is_known_by_its_ids_alone(tmp_path: Path) -> None:
    """Its client has said all of it; what another conversation had run is none of its business."""
    seen = (Opaque("anthropic", {"type": "mcp_tool_use", "id": "mcptoolu_a"}), *SEEN)
    request = told(HI, Message(role="assistant", content=seen), ANSWER)
    assert after(tmp_path / "s", request, seen=seen).messages == (HI, ROUNDS[0], BOTH)
    other = (Opaque("anthropic", {"type": "mcp_tool_use", "id": "mcptoolu_z"}), *SEEN)
    request = told(HI, Message(role="assistant", content=other), ANSWER)
    assert after(tmp_path / "t", request, seen=seen) == request


def test_what_cannot_be_read_any_more_changes_nothing(tmp_path: Path) -> None:
    said = Message(role="assistant", content=SEEN)
    request = told(HI, said, ANSWER)

    async def work() -> Request:
        store = SqliteStore(str(tmp_path / "s"))
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(msgspec.json, "encode", lambda rounds: b"{broken")
                await rounds_of(store).store((HI,), SEEN, ROUNDS)
            return (await rounds_of(store).restore(request, NOW))[0]
        finally:
            await store.close()

    assert asyncio.run(work()) == request


def test_the_first_answer_of_a_long_conversation_is_still_told_in_full(tmp_path: Path) -> None:
    later = [HI, Message(role="assistant", content=(Text(text="Yes."),))] * 600
    request = told(HI, Message(role="assistant", content=SEEN), ANSWER, *later, HI)
    assert after(tmp_path / "s", request).messages == (HI, ROUNDS[0], BOTH, *later, HI)


def test_without_a_store_nothing_is_kept() -> None:
    async def work() -> bool:
        return await rounds_of(None).store((HI,), SEEN, ROUNDS)

    assert asyncio.run(work()) is False


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    big = (Message(role="tool", content=(ToolResult(call_id="a", content=(Text(text="x" * (17 << 20)),)),)),)

    async def work() -> bool:
        store = SqliteStore(str(tmp_path / "s"))
        try:
            return await rounds_of(store).store((HI,), SEEN, big)
        finally:
            await store.close()

    assert asyncio.run(work()) is False


PROGRESS = LoopProgress(ROUNDS, SEEN, asks=False)


@pytest.mark.parametrize("stored", [True, False], ids=["store", "no store"])
def test_the_progress_of_a_failed_answer_is_returned_once_and_only_to_the_same_request(
    tmp_path: Path, stored: bool
) -> None:
    same, system = told(HI), Message(role="system", content=(Text(text="Today is Monday."),))
    others = [replace(same, model="other"), told(HI, HI), told(replace(HI, content=(Text(text="hi"),)))]

    async def work() -> None:
        store = SqliteStore(str(tmp_path / "s")) if stored else None
        rounds, other_key = rounds_of(store), McpRounds(store, "other key", RecentFailures())
        try:
            assert await rounds.store_progress(same, PROGRESS, NOW)
            assert [(await rounds.restore(request, NOW))[1] for request in others] == [None] * len(others)
            assert (await other_key.restore(same, NOW))[1] is None
            assert await rounds.restore(told(system, HI), NOW + 120) == (told(system, HI), PROGRESS)
            assert (await rounds.restore(same, NOW))[1] is None
            assert await rounds.store_progress(same, PROGRESS, NOW)
            assert (await rounds.restore(same, NOW + 120.5))[1] is None
        finally:
            if store is not None:
                await store.close()

    asyncio.run(work())


def test_a_process_forgets_the_oldest_failed_answers() -> None:
    recent = RecentFailures()
    for number in range(5):
        recent.add("me", str(number), bytes(16 << 20))
    assert [recent.take("me", str(number)) is not None for number in range(5)] == [False, True, True, True, True]
    recent.add("me", "new", b"1")
    recent.add("me", "new", b"22")
    assert [recent.take("me", "new"), recent.take("me", "new")] == [b"22", None]


THOUGHT = Thinking(text="Hm.")
LATER = Text(text="And then")


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ([], [THOUGHT, SEEN[0], OWN]),
        ([SEEN[0]], [THOUGHT, OWN]),
        ([THOUGHT, SEEN[0]], [OWN]),
        ([THOUGHT, SEEN[0], LATER], [OWN]),
        ([LATER], None),
    ],
    ids=["nothing", "the text", "text and reasoning", "also of the failed round", "words of its own"],
)
def test_a_client_may_keep_a_part_of_the_failed_answer(kept: list[Block], shown: list[Block] | None) -> None:
    progress = LoopProgress(ROUNDS, (THOUGHT, SEEN[0], OWN), asks=False)
    again = told(HI, *[Message(role="assistant", content=(block,)) for block in kept])

    async def work() -> tuple[Request, LoopProgress | None]:
        rounds = rounds_of(None)
        assert await rounds.store_progress(told(HI), progress, NOW)
        return await rounds.restore(again, NOW)

    request, restored = asyncio.run(work())
    if shown is None:
        assert (request, restored) == (again, None)
    else:
        assert (request, restored) == (told(HI), replace(progress, shown=tuple(shown)))
