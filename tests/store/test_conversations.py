"""Conversations and their items."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.turns import using
from toolglot.store import ItemPage, StoredConversation, StoredItem
from toolglot.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.sqlite3"


def test_the_items_of_a_conversation_come_page_by_page_in_either_order(path: Path) -> None:
    items = [StoredItem(f"msg_{number}", b'{"n":%d}' % number) for number in range(5)]

    async def work(store: SqliteStore) -> None:
        await store.create_conversation(StoredConversation(id="conv_1", owner="me", created=1.0), items[:2])
        assert await store.add_items("me", "conv_1", items[2:]) == tuple(items[2:])
        up = await store.page("me", "conv_1", after=None, limit=3, descending=False)
        assert up == ItemPage(tuple(items[:3]), True)
        rest = await store.page("me", "conv_1", after="msg_2", limit=3, descending=False)
        assert rest == ItemPage(tuple(items[3:]), False)
        down = await store.page("me", "conv_1", after="msg_3", limit=2, descending=True)
        assert down == ItemPage((items[2], items[1]), True)
        assert await store.page("me", "conv_1", after="msg_9", limit=2, descending=True) is None
        assert await store.delete_item("me", "conv_1", "msg_2")
        assert not await store.delete_item("me", "conv_1", "msg_2")
        left = await store.conversation_history("me", "conv_1", max_bytes=999)
        assert [item.id for item in left.items] == ["msg_0", "msg_1", "msg_3", "msg_4"]
        assert left.next == 5
        assert (await store.conversation_history("me", "conv_1", max_bytes=10)).too_large

    using(path, work)


def test_an_item_whose_id_is_taken_gets_another_one(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.create_conversation(
            StoredConversation(id="conv_1", owner="me", created=1.0), [StoredItem("msg_1", b"1")]
        )
        added = await store.add_items("me", "conv_1", [StoredItem("msg_1", b"2"), StoredItem("msg_1", b"3")])
        assert added is not None
        assert len({"msg_1", *(item.id for item in added)}) == 3
        assert all(item.id.startswith("msg_") and len(item.id) <= 64 for item in added)
        assert await store.item("me", "conv_1", added[1].id) == StoredItem(added[1].id, b"3")

    using(path, work)
