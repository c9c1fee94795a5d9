"""Long chains: what they ask of the upstream, and what they cost the store."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.server.responses_turns import body, in_memory, message, response, take_turn
from tests.store.turns import using
from toolglot.gateway.features.responses_history import add_state_members, expand, store_turn
from toolglot.store import StoredConversation
from toolglot.store.sqlite import SqliteStore


def test_a_chain_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    _, first = using(path, lambda store: take_turn(store, body(input="Hello"), response(message("Hi"))))
    expanded = using(path, lambda store: expand(body(previous_response_id=first, input="?"), store, "me"))
    assert [item.get("role") for item in json.loads(expanded.body)["input"]] == ["user", "assistant", "user"]


def test_two_hundred_turns_cost_the_store_as_much_as_two_hundred_first_ones(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> int:
        previous: str | None = None
        for number in range(200):
            asked = {"previous_response_id": previous} if previous else {}
            answer = response(message("a" * 500, f"msg_{number}"))
            expanded, previous = await take_turn(store, body(input="q" * 500, **asked), answer)
            assert len(json.loads(expanded.body)["input"] if asked else [1]) == 2 * number + 1
        return (await store.size()).bytes

    one = using(tmp_path / "one", lambda store: _size_of_one(store))
    assert using(tmp_path / "all", work) < 200 * (one + 200)


async def _size_of_one(store: SqliteStore) -> int:
    await take_turn(store, body(input="q" * 500), response(message("a" * 500)))
    return (await store.size()).bytes


TEXTS = st.text(max_size=8)
INPUTS = TEXTS | st.lists(
    st.builds(lambda text: {"role": "user", "content": text}, TEXTS)
    | st.builds(lambda text: {"type": "function_call_output", "call_id": "c", "output": text}, TEXTS),
    max_size=3,
)
OUTPUTS = st.lists(
    st.builds(message, TEXTS)
    | st.builds(lambda text: {"type": "function_call", "call_id": "c", "name": "f", "arguments": text}, TEXTS),
    max_size=3,
)


@given(st.lists(st.tuples(INPUTS, OUTPUTS, st.integers(0, 9)), min_size=1, max_size=8), st.booleans())
def test_a_chain_asks_the_same_as_the_whole_history_by_hand(
    turns: list[tuple[Any, list[dict[str, Any]], int]], in_conversation: bool
) -> None:
    """Each turn goes on from any earlier one (or from the conversation), and asks what a client would that kept
    everything itself.
    """

    async def work(store: SqliteStore) -> None:
        numbers = count()
        await store.create_conversation(StoredConversation(id="conv_1", owner="me", created=1.0))
        made: list[tuple[str, list[Any]]] = []
        for given_input, output, choice in turns:
            link: dict[str, Any] = {}
            before: list[Any] = []
            if in_conversation:
                link, before = {"conversation": "conv_1"}, made[-1][1] if made else []
            elif made:
                name, before = made[choice % len(made)]
                link = {"previous_response_id": name}
            expanded = await expand(
                body(input=given_input, **link), store, "me", random=lambda size: next(numbers).to_bytes(size, "big")
            )
            items = given_input
            if isinstance(given_input, str):
                items = [{"type": "message", "role": "user", "content": given_input}]
            asked = json.loads(expanded.body)
            assert asked["input"] == ([*before, *items] if link else given_input)
            assert asked.keys() == {"model", "input"}
            told = add_state_members(expanded, response(*output))
            assert await store_turn(expanded, told, store, "me", now=1.0)
            made.append((json.loads(told)["id"], [*before, *items, *output]))

    in_memory(work)
