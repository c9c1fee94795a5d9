"""Endpoints for stored responses and conversations: a table from method and path to a function.

The functions are independent of the server: each takes a `ResponsesRequest` and returns a `ResponsesReply`.
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
    ExpandedRequest,
    Random,
    StreamRewriter,
    make_id,
    unavailable_error,
)
from toolglot.gateway.features.responses_items import (
    assign_ids,
    encode_item_list,
    format_item,
    list_history_items,
    list_turn_items,
    make_ids_unique,
    not_found_error,
    parse_paging,
    refusal_error,
    slice_page,
    split_output,
)
from toolglot.store import Store, StoredConversation, StoredItem, StoredTurn, StoreError
from toolglot.translate import ExchangeCore
from toolglot.wire import json, sse

MAX_ITEMS = 20
"""Maximum items that one request may add to a conversation."""

MAX_PAIRS, MAX_KEY, MAX_VALUE = 16, 64, 512
"""Limits of metadata: pairs, characters of a key, characters of a value."""

_JSON = "application/json"
_TRUE = ("1", "true")


class ResponsesRequest(Struct, frozen=True, kw_only=True):
    store: Store
    owner: str
    values: Mapping[str, str] = {}
    """Path parameters: `id`, `item`."""
    query: Mapping[str, str] = {}
    body: bytes = b""
    now: float = 0.0
    random: Random = urandom

    @property
    def id(self) -> str:
        return self.values["id"]


class ResponsesReply(Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = _JSON


Handler = Callable[[ResponsesRequest], Awaitable[ResponsesReply]]


async def handle_request(method: str, path: str, request: ResponsesRequest) -> ResponsesReply:
    """Serve a request to this method and path (a template: `/v1/responses/{id}`).

    Raises:
        RefusedError: it is not found (code `response_not_found` for an unknown response), or the request is invalid.
    """
    try:
        return await HANDLERS[method, path](request)
    except StoreError as error:
        raise RefusedError(unavailable_error(error)) from None


def no_store_error(path: str, failure: str | None) -> ApiError:
    """Return the error of these endpoints on a gateway without a store. SDKs retry a status from 500 on, which is
    useless if the configuration disables the store: then it is a 404.
    """
    if failure is not None:
        message = f"This gateway stores no responses: its store could not be opened ({failure})"
        return ApiError(kind="overloaded", status=503, code="server_error", message=message)
    what = path.split("/")[2].removesuffix("s")
    message = f"There is no {what} here: this gateway stores nothing, as its configuration says"
    return refusal_error(message, kind="not_found", code=f"{what}_not_found")


async def _require_turn(request: ResponsesRequest) -> StoredTurn:
    turn = await request.store.turn(request.owner, request.id)
    if turn is None:
        raise RefusedError(not_found_error("response", request.id))
    return turn


async def get_response(request: ResponsesRequest) -> ResponsesReply:
    turn = await _require_turn(request)
    if request.query.get("stream", "").lower() not in _TRUE:
        return ResponsesReply(200, turn.response)
    after = request.query.get("starting_after", "-1")
    if not after.removeprefix("-").isdecimal() or len(after) > 18:
        message = f"starting_after: an integer is expected, not '{after}'"
        raise RefusedError(refusal_error(message, code="invalid_value", param="starting_after"))
    return ResponsesReply(200, replay_as_stream(turn, int(after)), "text/event-stream; charset=utf-8")


def replay_as_stream(turn: StoredTurn, starting_after: int = -1) -> bytes:
    """Encode a stored response as a stream, after the event with this sequence number."""
    stream = ExchangeCore(STORED, STORED).stream()
    rewriter = StreamRewriter(
        ExpandedRequest(
            body=b"", id=turn.id, is_local=True, store=True, previous=turn.previous, conversation=turn.conversation
        )
    )
    data = rewriter.feed(stream.feed(turn.response) + stream.close())
    if starting_after < 0:
        return data
    return b"".join(
        sse.frame(frame, event)
        for event, frame in sse.SseReader(len(data) + 1).feed(data)
        if json.decode_frame(frame).get("sequence_number", 0) > starting_after
    )


async def delete_response(request: ResponsesRequest) -> ResponsesReply:
    if not await request.store.delete_turn(request.owner, request.id):
        raise RefusedError(not_found_error("response", request.id))
    return ResponsesReply(200, json.encode({"id": request.id, "object": "response", "deleted": True}))


async def cancel_response(request: ResponsesRequest) -> ResponsesReply:
    """Refuse: stored responses have ended, and never ran in the background."""
    await _require_turn(request)
    message = "Only responses created with background set to true can be cancelled; this one was not."
    raise RefusedError(refusal_error(message, code="invalid_value"))


async def list_input_items(request: ResponsesRequest) -> ResponsesReply:
    """List the input of a response: the history, then the items of its own request."""
    wanted = parse_paging(request.query)
    history = await request.store.history(
        request.owner, request.id, max_bytes=MAX_HISTORY_BYTES, max_turns=MAX_HISTORY_TURNS
    )
    if history.missing == request.id:
        raise RefusedError(not_found_error("response", request.id))
    if history.missing is not None or history.too_large:
        # The history is gone. The items of its own request are still known.
        turns: tuple[StoredTurn, ...] = (await _require_turn(request),)
        items = list_turn_items(turns[0])
    else:
        turns, items = history.turns, list_history_items(history)
    own_output = len(split_output(turns[-1].response))
    listed = make_ids_unique(items[: len(items) - own_output])
    return ResponsesReply(200, encode_item_list(*slice_page(listed, wanted)))


async def create_conversation(request: ResponsesRequest) -> ResponsesReply:
    fields = _decode_body(request)
    name = make_id(request.random(24), "conv")
    conversation = StoredConversation(
        id=name, owner=request.owner, created=request.now, metadata=_encode_metadata(fields)
    )
    items = (
        assign_ids(_decode_items(fields), make_id(request.random(12), name)) if fields.get("items") is not None else []
    )
    await request.store.create_conversation(conversation, items)
    return ResponsesReply(200, _encode_conversation(conversation))


async def get_conversation(request: ResponsesRequest) -> ResponsesReply:
    return ResponsesReply(200, _encode_conversation(await _require_conversation(request)))


async def update_conversation(request: ResponsesRequest) -> ResponsesReply:
    if not await request.store.update_conversation(request.owner, request.id, _encode_metadata(_decode_body(request))):
        raise RefusedError(not_found_error("conversation", request.id))
    return await get_conversation(request)


async def delete_conversation(request: ResponsesRequest) -> ResponsesReply:
    if not await request.store.delete_conversation(request.owner, request.id):
        raise RefusedError(not_found_error("conversation", request.id))
    return ResponsesReply(200, json.encode({"id": request.id, "object": "conversation.deleted", "deleted": True}))


async def list_items(request: ResponsesRequest) -> ResponsesReply:
    wanted = parse_paging(request.query)
    page = await request.store.page(
        request.owner, request.id, after=wanted.after, limit=wanted.limit, descending=wanted.descending
    )
    if page is None:
        await _require_conversation(request)
        raise RefusedError(not_found_error("item", wanted.after or "", param="after"))
    return ResponsesReply(200, encode_item_list(page.items, page.more))


async def add_items(request: ResponsesRequest) -> ResponsesReply:
    items = assign_ids(_decode_items(_decode_body(request)), make_id(request.random(12), request.id))
    added = await request.store.add_items(request.owner, request.id, items)
    if added is None:
        raise RefusedError(not_found_error("conversation", request.id))
    return ResponsesReply(200, encode_item_list(added, more=False))


async def get_item(request: ResponsesRequest) -> ResponsesReply:
    await _require_conversation(request)
    return ResponsesReply(200, json.encode(format_item(await _require_item(request))))


async def delete_item(request: ResponsesRequest) -> ResponsesReply:
    conversation = await _require_conversation(request)
    if not await request.store.delete_item(request.owner, request.id, request.values["item"]):
        raise RefusedError(not_found_error("item", request.values["item"]))
    return ResponsesReply(200, _encode_conversation(conversation))


async def _require_conversation(request: ResponsesRequest) -> StoredConversation:
    conversation = await request.store.conversation(request.owner, request.id)
    if conversation is None:
        raise RefusedError(not_found_error("conversation", request.id))
    return conversation


async def _require_item(request: ResponsesRequest) -> StoredItem:
    item = await request.store.item(request.owner, request.id, request.values["item"])
    if item is None:
        raise RefusedError(not_found_error("item", request.values["item"]))
    return item


def _encode_conversation(conversation: StoredConversation) -> bytes:
    return json.encode(
        {
            "id": conversation.id,
            "object": "conversation",
            "created_at": int(conversation.created),
            "metadata": Raw(conversation.metadata),
        }
    )


def _decode_body(request: ResponsesRequest) -> dict[str, Any]:
    """Decode a body. An empty body is an empty object: all members are optional."""
    value = json.decode(request.body) if request.body.strip() else {}
    if not isinstance(value, dict):
        raise DecodeError("$", "an object is expected")
    return value


def _encode_metadata(fields: Mapping[str, Any]) -> bytes:
    metadata = fields.get("metadata")
    if metadata is None:
        return b"{}"
    if not isinstance(metadata, dict) or len(metadata) > MAX_PAIRS:
        raise _invalid_value("metadata", f"an object of at most {MAX_PAIRS} pairs is expected")
    for key, value in metadata.items():
        if len(key) > MAX_KEY:
            raise _invalid_value("metadata", f"a key may have {MAX_KEY} characters")
        if not isinstance(value, str) or len(value) > MAX_VALUE:
            raise _invalid_value(f"metadata.{key}", f"a string of at most {MAX_VALUE} characters is expected")
    return json.encode(metadata)


def _decode_items(fields: Mapping[str, Any]) -> list[Raw]:
    """Decode the `items` of a body. Each must be valid as input of a request."""
    items = fields.get("items")
    if not isinstance(items, list) or len(items) > MAX_ITEMS:
        raise _invalid_value("items", f"an array of at most {MAX_ITEMS} items is expected")
    try:
        find(STORED).decode_request(json.encode({"model": "", "input": items}))
    except DecodeError as error:
        raise DecodeError(error.where.replace("$.input", "$.items", 1), error.what) from None
    return [Raw(json.encode(item)) for item in items]


def _invalid_value(param: str, message: str) -> RefusedError:
    return RefusedError(refusal_error(f"{param}: {message}", code="invalid_value", param=param))


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
