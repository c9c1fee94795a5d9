"""Requests of the Responses API, their answers, and whole turns of the two."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.store.turns import using
from toolglot.errors import ApiError, RefusedError
from toolglot.gateway.features.responses_history import ExpandedRequest, add_state_members, expand, store_turn
from toolglot.store.sqlite import MEMORY, SqliteStore

T = TypeVar("T")

HELLO = {"type": "message", "role": "user", "content": "Hello"}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}, separators=(",", ":")).encode()


def message(text: str, item_id: str = "msg_1") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def response(*output: dict[str, Any], status: str = "completed") -> bytes:
    fields = {"id": "upstream_1", "object": "response", "created_at": 7, "model": "m", "status": status}
    return json.dumps({**fields, "output": list(output), "temperature": 1.0, "store": True}).encode()


def in_memory(work: Callable[[SqliteStore], Awaitable[T]]) -> T:
    return using(MEMORY, work)


async def take_turn(
    store: SqliteStore, request: bytes, answer: bytes, owner: str = "me"
) -> tuple[ExpandedRequest, str]:
    expanded = await expand(request, store, owner)
    told = add_state_members(expanded, answer)
    await store_turn(expanded, told, store, owner, now=1.0)
    return expanded, json.loads(told)["id"]


async def refused(
    request: bytes, store: SqliteStore, owner: str = "me", *, upstream_keeps_state: bool = False
) -> ApiError:
    with pytest.raises(RefusedError) as raised:
        await expand(request, store, owner, upstream_keeps_state=upstream_keeps_state)
    return raised.value.error
