"""Convert results of a store to JSON for recordings, and back. Stored JSON is preserved byte for byte.

Owner and issuer are omitted: both are derived from keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from toolglot.store import History, StoredItem, StoredReplay, StoredRounds, StoredState, StoredTurn
from toolglot.wire import json

StoredKind: TypeAlias = Literal["history", "holders", "rounds", "states", "replay"]
T = TypeVar("T")

_PRIVATE = frozenset({"owner", "issuer", "upstream"})


class _ItemForm(Struct, frozen=True):
    id: str
    item: Raw


class _TurnForm(Struct, frozen=True, kw_only=True):
    id: str
    created: float = 0.0
    model: str = ""
    previous: str | None = None
    conversation: str | None = None
    before: int = 0
    request_input: Raw = Raw(b"[]")
    response: Raw = Raw(b"{}")


class _HistoryForm(Struct, frozen=True, kw_only=True):
    items: list[_ItemForm] = []
    turns: list[_TurnForm] = []
    next: int = 0
    missing: str | None = None
    too_large: bool = False


class _RoundsForm(Struct, frozen=True):
    hash: str
    value: Raw


class _StateForm(Struct, frozen=True, kw_only=True):
    calls: str
    hash: str
    value: Raw


class _ReplayForm(Struct, frozen=True, kw_only=True):
    hash: str
    conversation: str
    value: Raw
    calls: tuple[str, ...] = ()


def encode_stored(value: Any) -> bytes:
    """Encode the result of a store method of one of these kinds."""
    return json.encode(_to_form(value))


def stored_size(value: Any) -> int:
    """Return the number of stored bytes in it."""
    match value:
        case bytes():
            return len(value)
        case Struct():
            return sum(map(stored_size, asdict(value).values()))
        case Mapping():
            return sum(map(stored_size, value.values()))
        case list() | tuple():
            return sum(map(stored_size, value))
    return 0


def _to_form(value: Any) -> Any:
    match value:
        case bytes():
            return Raw(value)
        case Struct():
            return {name: _to_form(each) for name, each in asdict(value).items() if name not in _PRIVATE}
        case Mapping():
            return {name: _to_form(each) for name, each in value.items()}
        case list() | tuple():
            return [_to_form(each) for each in value]
    return value


def decode_stored(kind: StoredKind, data: bytes) -> Any:
    """Decode a recorded result. Raises: DecodeError: it has another form."""
    return _READERS[kind](data)


def _make_reader(form: Any, made: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(form)
    return lambda data: made(json.decode_typed(data, decoder))


def _from_form(kind: type[T], form: Struct, **more: Any) -> T:
    told = {name: bytes(value) if isinstance(value, Raw) else value for name, value in asdict(form).items()}
    return kind(**{**told, **more})


def _history(form: _HistoryForm) -> History:
    items = tuple(_from_form(StoredItem, item) for item in form.items)
    return _from_form(
        History, form, items=items, turns=tuple(_from_form(StoredTurn, turn, owner="") for turn in form.turns)
    )


_READERS: dict[StoredKind, Callable[[bytes], Any]] = {
    "history": _make_reader(_HistoryForm, _history),
    "holders": _make_reader(dict[str, Raw], lambda form: {name: bytes(value) for name, value in form.items()}),
    "rounds": _make_reader(list[_RoundsForm], lambda form: [_from_form(StoredRounds, each) for each in form]),
    "states": _make_reader(
        list[_StateForm], lambda form: [_from_form(StoredState, each, owner="", issuer="") for each in form]
    ),
    "replay": _make_reader(
        _ReplayForm | None, lambda form: None if form is None else _from_form(StoredReplay, form, owner="", upstream="")
    ),
}

RECORDED_READS: Mapping[str, StoredKind] = {
    "history": "history",
    "conversation_history": "history",
    "holders": "holders",
    "rounds": "rounds",
    "states": "states",
    "replay": "replay",
}
"""The store methods that provide data that a request does not contain itself, and their return types."""
