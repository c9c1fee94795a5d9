"""Stored responses and conversations over HTTP: a table from method and path to a function.

The functions know nothing of HTTP but the names: an `Ask` in, a `Reply` out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from os import urandom
from typing import Any

from msgspec import Raw, Struct

from toolglot.dialects import STORED, find
from toolglot.errors import ApiError, DecodeError, RefusedError
from toolglot.gateway.features.responses_history import (
    MAX_HISTORY_BYTES,
    MAX_HISTORY_TURNS,
    Expanded,
    Random,
    StreamTap,
    mint_id,
    unavailable,
)
from toolglot.gateway.features.responses_items import (
    api_refusal,
    item_list,
    items_of_history,
    items_of_turn,
    listed,
    not_found,
    output_items,
    paged,
    paging,
    with_ids,
)
from toolglot.store import Store, StoredConversation, StoredItem, StoredTurn, StoreError
from toolglot.translate import Exchange
from toolglot.wire import json, sse

MAX_ITEMS = 20
"""Items that may be added to a conversation at once."""

MAX_PAIRS, MAX_KEY, MAX_VALUE = 16, 64, 512
"""Of metadata: pairs, and characters."""

_JSON = "application/json"
_TRUE = ("1", "true")


class Ask(Struct, frozen=True, kw_only=True):
    store: Store
    owner: str
    values: Mapping[str, str] = {}
    """What stands in the path: `id`, `item`."""
    query: Mapping[str, str] = {}
    body: bytes = b""
    now: float = 0.0
    random: Random = urandom

    @property
    def id(self) -> str:
        return self.values["id"]


class Reply(Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = _JSON


Handler = Callable[[Ask], Awaitable[Reply]]


async def answer(method: str, path: str, ask: Ask) -> Reply:
    """The reply of whatever serves this method and path (a template: `/v1/responses/{id}`).

    Raises:
        RefusedError: there is no such thing (code `response_not_found` for an unknown response), or the request is
            wrong.
    """
    try:
        return await HANDLERS[method, path](ask)
    except StoreError as error:
        raise RefusedError(unavailable(error)) from None


def without_store(path: str, failure: str | None) -> ApiError:
    """What is said of everything that would be stored, where nothing is: SDKs try again what has failed (all from 500
    on), and it is of no use to do so where nothing is to be stored at all."""
    if failure is not None:
        message = f"This gateway stores no responses: its store could not be opened ({failure})"
        return ApiError(kind="overloaded", status=503, code="server_error", message=message)
    what = path.split("/")[2].removesuffix("s")
    message = f"There is no {what} here: this gateway stores nothing, as its configuration says"
    return api_refusal(message, kind="not_found", code=f"{what}_not_found")


async def _turn(ask: Ask) -> StoredTurn:
    turn = await ask.store.turn(ask.owner, ask.id)
    if turn is None:
        raise RefusedError(not_found("response", ask.id))
    return turn


async def get_response(ask: Ask) -> Reply:
    turn = await _turn(ask)
    if ask.query.get("stream", "").lower() not in _TRUE:
        return Reply(200, turn.response)
    after = ask.query.get("starting_after", "-1")
    if not after.removeprefix("-").isdecimal() or len(after) > 18:
        message = f"starting_after: an integer is expected, not '{after}'"
        raise RefusedError(api_refusal(message, code="invalid_value", param="starting_after"))
    return Reply(200, replay(turn, int(after)), "text/event-stream; charset=utf-8")


def replay(turn: StoredTurn, starting_after: int = -1) -> bytes:
    """A stored response as the stream that it could have been, from an event on."""
    stream = Exchange(STORED, STORED).stream()
    tap = StreamTap(
        Expanded(body=b"", id=turn.id, kept=True, store=True, previous=turn.previous, conversation=turn.conversation)
    )
    data = tap.feed(stream.feed(turn.response) + stream.close())
    if starting_after < 0:
        return data
    return b"".join(
        sse.frame(frame, event)
        for event, frame in sse.SseReader(len(data) + 1).feed(data)
        if json.decode_frame(frame).get("sequence_number", 0) > starting_after
    )


async def delete_response(ask: Ask) -> Reply:
    if not await ask.store.delete_turn(ask.owner, ask.id):
        raise RefusedError(not_found("response", ask.id))
    return Reply(200, json.encode({"id": ask.id, "object": "response", "deleted": True}))


async def cancel_response(ask: Ask) -> Reply:
    """What is stored here has ended, and was never in the background."""
    await _turn(ask)
    message = "Only responses created with background set to true can be cancelled; this one was not."
    raise RefusedError(api_refusal(message, code="invalid_value"))


async def list_input_items(ask: Ask) -> Reply:
    """All the items that the response was made from: the history, then those of its own request."""
    wanted = paging(ask.query)
    history = await ask.store.history(ask.owner, ask.id, max_bytes=MAX_HISTORY_BYTES, max_turns=MAX_HISTORY_TURNS)
    if history.missing == ask.id:
        raise RefusedError(not_found("response", ask.id))
    if history.missing is not None or history.too_large:
        # What went before is gone: its own items are still known.
        turns: tuple[StoredTurn, ...] = (await _turn(ask),)
        items = items_of_turn(turns[0])
    else:
        turns, items = history.turns, items_of_history(history)
    own_output = len(output_items(turns[-1].response))
    return Reply(200, item_list(*paged(items[: len(items) - own_output], wanted)))


async def create_conversation(ask: Ask) -> Reply:
    fields = _body(ask)
    name = mint_id(ask.random(24), "conv")
    conversation = StoredConversation(id=name, owner=ask.owner, created=ask.now, metadata=_metadata(fields))
    items = with_ids(_items(fields), mint_id(ask.random(12), name)) if fields.get("items") is not None else []
    await ask.store.create_conversation(conversation, items)
    return Reply(200, _shown(conversation))


async def get_conversation(ask: Ask) -> Reply:
    return Reply(200, _shown(await _conversation(ask)))


async def update_conversation(ask: Ask) -> Reply:
    if not await ask.store.update_conversation(ask.owner, ask.id, _metadata(_body(ask))):
        raise RefusedError(not_found("conversation", ask.id))
    return await get_conversation(ask)


async def delete_conversation(ask: Ask) -> Reply:
    if not await ask.store.delete_conversation(ask.owner, ask.id):
        raise RefusedError(not_found("conversation", ask.id))
    return Reply(200, json.encode({"id": ask.id, "object": "conversation.deleted", "deleted": True}))


async def list_items(ask: Ask) -> Reply:
    wanted = paging(ask.query)
    page = await ask.store.page(ask.owner, ask.id, after=wanted.after, limit=wanted.limit, descending=wanted.descending)
    if page is None:
        await _conversation(ask)
        raise RefusedError(not_found("item", wanted.after or "", param="after"))
    return Reply(200, item_list(page.items, page.more))


async def add_items(ask: Ask) -> Reply:
    items = with_ids(_items(_body(ask)), mint_id(ask.random(12), ask.id))
    added = await ask.store.add_items(ask.owner, ask.id, items)
    if added is None:
        raise RefusedError(not_found("conversation", ask.id))
    return Reply(200, item_list(added, more=False))


async def get_item(ask: Ask) -> Reply:
    await _conversation(ask)
    return Reply(200, json.encode(listed(await _item(ask))))


async def delete_item(ask: Ask) -> Reply:
    conversation = await _conversation(ask)
    if not await ask.store.delete_item(ask.owner, ask.id, ask.values["item"]):
        raise RefusedError(not_found("item", ask.values["item"]))
    return Reply(200, _shown(conversation))


async def _conversation(ask: Ask) -> StoredConversation:
    conversation = await ask.store.conversation(ask.owner, ask.id)
    if conversation is None:
        raise RefusedError(not_found("conversation", ask.id))
    return conversation


async def _item(ask: Ask) -> StoredItem:
    item = await ask.store.item(ask.owner, ask.id, ask.values["item"])
    if item is None:
        raise RefusedError(not_found("item", ask.values["item"]))
    return item


def _shown(conversation: StoredConversation) -> bytes:
    return json.encode(
        {
            "id": conversation.id,
            "object": "conversation",
            "created_at": int(conversation.created),
            "metadata": Raw(conversation.metadata),
        }
    )


def _body(ask: Ask) -> dict[str, Any]:
    """The members of a body. None at all is the empty object: everything in it is optional."""
    value = json.decode(ask.body) if ask.body.strip() else {}
    if not isinstance(value, dict):
        raise DecodeError("$", "an object is expected")
    return value


def _metadata(fields: Mapping[str, Any]) -> bytes:
    metadata = fields.get("metadata")
    if metadata is None:
        return b"{}"
    if not isinstance(metadata, dict) or len(metadata) > MAX_PAIRS:
        raise _wrong("metadata", f"an object of at most {MAX_PAIRS} pairs is expected")
    for key, value in metadata.items():
        if len(key) > MAX_KEY:
            raise _wrong("metadata", f"a key may have {MAX_KEY} characters")
        if not isinstance(value, str) or len(value) > MAX_VALUE:
            raise _wrong(f"metadata.{key}", f"a string of at most {MAX_VALUE} characters is expected")
    return json.encode(metadata)


def _items(fields: Mapping[str, Any]) -> list[Raw]:
    """The `items` of a body, each one that a request could have as input."""
    items = fields.get("items")
    if not isinstance(items, list) or len(items) > MAX_ITEMS:
        raise _wrong("items", f"an array of at most {MAX_ITEMS} items is expected")
    try:
        find(STORED).decode_request(json.encode({"model": "", "input": items}))
    except DecodeError as error:
        raise DecodeError(error.where.replace("$.input", "$.items", 1), error.what) from None
    return [Raw(json.encode(item)) for item in items]


def _wrong(param: str, message: str) -> RefusedError:
    return RefusedError(api_refusal(f"{param}: {message}", code="invalid_value", param=param))


HANDLERS: Mapping[tuple[str, str], Handler] = {
    ("GET", "/v1/responses/{id}"): get_response,
    ("DELETE", "/v1/responses/{id}"): delete_response,
    ("GET", "/v1/responses/{id}/input_items"): list_input_items,
    ("POST", "/v1/responses/{id}/cancel"): cancel_response,
    ("POST", "/v1/conversations"): create_conversation,
    ("GET", "/v1/conversations/{id}"): get_conversation,
    ("POST", "/v1/conversations/{id}"): update_conversation,
    ("DELETE", "/v1/conversations/{id}"): delete_conversation,
    ("GET", "/v1/conversations/{id}/items"): list_items,
    ("POST", "/v1/conversations/{id}/items"): add_items,
    ("GET", "/v1/conversations/{id}/items/{item}"): get_item,
    ("DELETE", "/v1/conversations/{id}/items/{item}"): delete_item,
}
