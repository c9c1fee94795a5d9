"""Items of the Responses API as raw JSON: in requests, in responses, and in lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from toolglot.dialects import STORED
from toolglot.errors import ApiError, DecodeError, RefusedError
from toolglot.store import History, StoredItem, StoredTurn, StoreError
from toolglot.wire import json

# Prefixes of item ids by type; `item` for all others.
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}

# Types whose listed form has a status, which clients may omit.
_WITH_STATUS = frozenset(_PREFIXES) - {"reasoning"}

T = TypeVar("T")

DEFAULT_LIMIT, MAX_LIMIT = 20, 100


class _ItemHead(Struct):
    """The members that identify an item."""

    type: str | None = None
    id: Any = None


class _ResponseOutput(Struct):
    output: list[Raw] = []


_heads = msgspec.json.Decoder(_ItemHead)
_outputs = msgspec.json.Decoder(_ResponseOutput)
_objects: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_arrays: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])


def split_input(value: Raw) -> list[Raw]:
    """Split a request's `input` into items. Text is a user message; the input may be missing.

    Raises:
        DecodeError: it is neither text nor an array.
    """
    raw = bytes(value).strip()
    if raw in (b"", b"null"):
        return []
    if raw.startswith(b'"'):
        return [Raw(b'{"type":"message","role":"user","content":%b}' % raw)]
    return json.decode_typed(raw, _arrays)


def encode_array(items: Iterable[Raw]) -> bytes:
    return json.encode(list(items))


def split_output(response: bytes) -> list[Raw]:
    """Return the output items of a stored response. Raises `StoreError` if it is damaged."""
    return _read_stored(response, _outputs).output


def _read_stored(value: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode JSON from the store. It was valid when it was written, so an error means that the store is damaged."""
    try:
        return json.decode_typed(value, decoder)
    except (DecodeError, TypeError):  # a damaged row may also hold a value of another type
        raise StoreError("foreign", "its content is damaged") from None


def read_head(item: Raw | bytes) -> tuple[str, str | None]:
    """Return an item's type, and its id if it has one."""
    try:
        found = _heads.decode(item)
    except msgspec.MsgspecError:
        return "unknown", None
    return found.type or "message", found.id if isinstance(found.id, str) and found.id else None


def derive_id(item: Raw | bytes, source: str, place: int) -> str:
    """Return the item's own id, or one derived from its position: always the same for the same item."""
    kind, own = read_head(item)
    if own is not None:
        return own
    return f"{_PREFIXES.get(kind, 'item')}_{sha256(f'{source} {place}'.encode()).hexdigest()[:48]}"


def assign_ids(items: Sequence[Raw], source: str) -> list[StoredItem]:
    return [StoredItem(derive_id(item, source, place), bytes(item)) for place, item in enumerate(items)]


def list_turn_items(turn: StoredTurn) -> list[StoredItem]:
    """Return the items that a turn adds to a conversation: the new items of its request, then its output."""
    return assign_ids([*_read_stored(turn.request_input, _arrays), *split_output(turn.response)], turn.id)


def list_history_items(history: History) -> list[StoredItem]:
    return [*history.items, *(item for turn in history.turns for item in list_turn_items(turn))]


def make_ids_unique(items: Iterable[StoredItem]) -> list[StoredItem]:
    """Give items that repeat an earlier id another one: always the same for the same list, regardless of later items.

    Ids of output items derive from the response's, and some servers give each response the same. A client that asks for
    the items after a repeated id would get the same page forever.
    """
    seen: dict[str, int] = {}
    unique: list[StoredItem] = []
    for item in items:
        name, times = item.id, seen.get(item.id, 0)
        seen[item.id] = times + 1
        while times and name in seen:
            digest = sha256(f"{item.id} {times}".encode()).hexdigest()[:48]
            name, times = f"{item.id.partition('_')[0]}_{digest}", times + 1
        seen.setdefault(name, 1)
        unique.append(item if name == item.id else StoredItem(name, item.item))
    return unique


def find_references(items: Sequence[Raw]) -> list[str]:
    """Find the ids of items that are referenced instead of repeated.

    Raises:
        RefusedError: a reference has no id.
    """
    heads = ((place, read_head(item)) for place, item in enumerate(items) if b"item_reference" in bytes(item))
    names: list[str] = []
    for place, (kind, own) in heads:
        if kind == "item_reference" and own is None:
            param = f"input[{place}].id"
            message = f"{param}: the id of an earlier item is expected, as a string"
            raise RefusedError(refusal_error(message, code="missing_required_parameter", param=param))
        if kind == "item_reference" and own is not None:
            names.append(own)
    return names


def resolve_references(items: Sequence[Raw], holders: Mapping[str, bytes]) -> list[Raw]:
    """Replace each reference with the item of a stored response.

    Raises:
        RefusedError: no response has the item.
    """
    found = {
        own: item
        for response in set(holders.values())
        for item in split_output(response)
        if (own := read_head(item)[1]) is not None
    }
    resolved: list[Raw] = []
    for item in items:
        kind, own = read_head(item) if b"item_reference" in bytes(item) else ("", None)
        if kind == "item_reference" and own not in found:
            raise RefusedError(not_found_error("item", own or "", param="input"))
        resolved.append(found[own] if kind == "item_reference" and own is not None else item)
    return resolved


_TITLES = {"response": "Response", "conversation": "Conversation", "item": "Item"}


def not_found_error(what: str, wanted: str, param: str | None = None) -> ApiError:
    return refusal_error(
        f"{_TITLES[what]} with id '{wanted}' not found.", kind="not_found", code=f"{what}_not_found", param=param
    )


def refusal_error(message: str, *, kind: Any = "bad_request", code: str, param: str | None = None) -> ApiError:
    """Return an error in the API's own form, so that its code reaches the client unchanged."""
    native = {STORED: {"type": "invalid_request_error"}}
    status = 404 if kind == "not_found" else 400
    return ApiError(kind=kind, status=status, code=code, message=message, param=param, native=native)


def format_item(item: StoredItem) -> dict[str, Any]:
    """Format an item as the API lists it: with an id, and with the members that a client may omit."""
    fields = _read_stored(item.item, _objects)
    kind = fields.get("type") or "message"
    if kind == "message" and isinstance(fields.get("content"), str):
        fields["content"] = [_text_part(fields["content"], fields.get("role"))]
    if kind in _WITH_STATUS and not fields.get("status"):
        fields["status"] = "completed"
    return {**fields, "id": item.id, "type": kind}


def _text_part(text: str, role: Any) -> dict[str, Any]:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


class Paging(Struct, frozen=True):
    limit: int
    descending: bool
    after: str | None


def parse_paging(query: Mapping[str, str]) -> Paging:
    """Parse `limit`, `order` and `after` of a list.

    Raises:
        RefusedError: a value is invalid.
    """
    limit, order = query.get("limit", str(DEFAULT_LIMIT)), query.get("order", "desc")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 4 and 1 <= int(limit) <= MAX_LIMIT):
        message = f"limit: an integer from 1 to {MAX_LIMIT} is expected, not '{limit}'"
        raise RefusedError(refusal_error(message, code="invalid_value", param="limit"))
    if order not in ("asc", "desc"):
        message = f"order: 'asc' or 'desc' is expected, not '{order}'"
        raise RefusedError(refusal_error(message, code="invalid_value", param="order"))
    return Paging(int(limit), order == "desc", query.get("after") or None)


def slice_page(items: Sequence[StoredItem], wanted: Paging) -> tuple[Sequence[StoredItem], bool]:
    """Return one page of a complete list, and whether more items follow."""
    ordered = list(reversed(items)) if wanted.descending else list(items)
    if wanted.after is not None:
        places = [place for place, item in enumerate(ordered) if item.id == wanted.after]
        if not places:
            raise RefusedError(not_found_error("item", wanted.after, param="after"))
        ordered = ordered[places[0] + 1 :]
    return ordered[: wanted.limit], len(ordered) > wanted.limit


def encode_item_list(items: Sequence[StoredItem], more: bool) -> bytes:
    names = [item.id for item in items] or [""]
    return json.encode(
        {
            "object": "list",
            "data": [format_item(item) for item in items],
            "first_id": names[0],
            "last_id": names[-1],
            "has_more": more,
        }
    )
