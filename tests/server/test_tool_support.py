"""What a gateway knows of models: from its store, and from what happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import time
from typing import Literal

import pytest

from tests.store.turns import using
from toolglot.dialects import find
from toolglot.gateway import tool_support
from toolglot.gateway.tool_support import MAX_MODELS, ToolSupport
from toolglot.store import ToolVerdict
from toolglot.store.sqlite import MEMORY, SqliteStore
from toolglot.upstream.demo.stream import NO_PAUSES
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.upstream import Upstream

CHAT = find("openai_chat")
TRANSPORT = DemoTransport(CHAT, pace=NO_PAUSES)
LOCAL = Upstream(name="local", dialect=CHAT, base_url="http://127.0.0.1:1/v1", transport=TRANSPORT)
VENDOR = Upstream(
    name="vendor", dialect=CHAT, base_url="https://vendor.example/v1", transport=TRANSPORT, native_tools=True
)


def found(tools: Literal["native", "text"], seconds: float = 1000.0, upstream: Upstream = LOCAL) -> ToolVerdict:
    now = time()
    return ToolVerdict(upstream=upstream.base_url, model="m", tools=tools, found=now, until=now + seconds)


def test_what_the_store_has_is_known(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.remember(found("text"))
        assert await ToolSupport().look_up(LOCAL, "m", store) == "text"
        assert await ToolSupport().look_up(LOCAL, "another", store) is None

    using(tmp_path / "s", work)


def test_a_refusal_is_known_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async def refuse(store: SqliteStore) -> None:
        known = ToolSupport()
        assert await known.look_up(LOCAL, "m", store) is None
        await known.store_refusal(LOCAL, "m", store)
        assert await known.look_up(LOCAL, "m", store) == "text"

    using(tmp_path / "s", refuse)
    assert using(tmp_path / "s", lambda store: ToolSupport().look_up(LOCAL, "m", store)) == "text"


def test_without_a_store_a_refusal_is_known_until_the_end() -> None:
    async def work() -> None:
        known = ToolSupport()
        await known.store_refusal(LOCAL, "m", None)
        assert await known.look_up(LOCAL, "m", None) == "text"
        assert await known.look_up(LOCAL, "n", None) is None

    asyncio.run(work())


def test_a_store_that_is_closed_is_no_failure() -> None:
    async def work() -> None:
        store = SqliteStore(MEMORY)
        await store.close()
        known = ToolSupport()
        assert await known.look_up(LOCAL, "m", store) is None
        await known.store_refusal(LOCAL, "m", store)
        assert await known.look_up(LOCAL, "m", store) == "text"

    asyncio.run(work())


def test_what_another_process_writes_is_seen_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: SqliteStore) -> None:
        known = ToolSupport()
        assert await known.look_up(LOCAL, "m", store) is None
        await store.remember(found("text"))
        assert await known.look_up(LOCAL, "m", store) is None  # looked up a moment ago
        monkeypatch.setattr(tool_support, "MAX_AGE", 0.0)
        assert await known.look_up(LOCAL, "m", store) == "text"
        await store.remember(found("native"))
        assert await known.look_up(LOCAL, "m", store) == "native"

    using(tmp_path / "s", work)


def test_what_is_too_old_is_not_known() -> None:
    async def work() -> None:
        store = SqliteStore(MEMORY)
        known = ToolSupport()
        await known.store_refusal(LOCAL, "m", None)
        known._remember((LOCAL.base_url, "m"), time(), found("text", seconds=-1))
        assert await known.look_up(LOCAL, "m", store) is None
        await store.close()

    asyncio.run(work())


def test_of_a_vendor_whose_models_take_tools_only_a_refusal_counts() -> None:
    async def work() -> None:
        store = SqliteStore(MEMORY)
        await store.remember(found("text", upstream=VENDOR))
        known = ToolSupport()
        assert await known.look_up(VENDOR, "m", store) is None
        await known.store_refusal(VENDOR, "m", store)
        assert await known.look_up(VENDOR, "m", store) == "text"
        await store.close()

    asyncio.run(work())


def test_no_number_of_models_fills_the_memory() -> None:
    async def work() -> None:
        known = ToolSupport()
        for number in range(MAX_MODELS + 10):
            await known.store_refusal(LOCAL, f"m{number}", None)
        assert len(known._known) == MAX_MODELS
        assert await known.look_up(LOCAL, "m0", None) is None
        assert await known.look_up(LOCAL, f"m{MAX_MODELS}", None) == "text"

    asyncio.run(work())
