"""What a store has found, as JSON to be recorded, and back. Stored JSON stays as it is, byte for byte.

Whose it is and for whom is left out: both are made of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from toolglot.store import History, Item, Replay, Rounds, State, Turn
from toolglot.wire import json

Kind: TypeAlias = Literal["history", "holders", "rounds", "states", "replay"]
T = TypeVar("T")

_PRIVATE = frozenset({"owner", "issuer", "upstream"})


class _Item(Struct, frozen=True):
    id: str
    item: Raw


class _Turn(Struct, frozen=True, kw_only=True):
    id: str
    created: float = 0.0
    model: str = ""
    previous: str | None = None
    conversation: str | None = None
    before: int = 0
    request_input: Raw = Raw(b"[]")
    response: Raw = Raw(b"{}")


class _History(Struct, frozen=True, kw_only=True):
    items: list[_Item] = []
    turns: list[_Turn] = []
    next: int = 0
    missing: str | None = None
    too_large: bool = False


class _Rounds(Struct, frozen=True):
    hash: str
    value: Raw


class _State(Struct, frozen=True, kw_only=True):
    calls: str
    hash: str
    value: Raw


class _Replay(Struct, frozen=True, kw_only=True):
    hash: str
    conversation: str
    value: Raw
    calls: tuple[str, ...] = ()


def written(value: Any) -> bytes:
    """Anything that a store returns when it is asked for one of these kinds."""
    return json.encode(_written(value))


def size_of(value: Any) -> int:
    """Bytes of what is stored in it."""
    match value:
        case bytes():
            return len(value)
        case Struct():
            return sum(map(size_of, asdict(value).values()))
        case Mapping():
            return sum(map(size_of, value.values()))
        case list() | tuple():
            return sum(map(size_of, value))
    return 0


def _written(value: Any) -> Any:
    match value:
        case bytes():
            return Raw(value)
        case Struct():
            return {name: _written(each) for name, each in asdict(value).items() if name not in _PRIVATE}
        case Mapping():
            return {name: _written(each) for name, each in value.items()}
        case list() | tuple():
            return [_written(each) for each in value]
    return value


def read(kind: Kind, data: bytes) -> Any:
    """What was written.

    Raises:
        DecodeError: it is something else.
    """
    return _READERS[kind](data)


def _reader(form: Any, made: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(form)
    return lambda data: made(json.typed(data, decoder))


def _made(kind: type[T], form: Struct, **more: Any) -> T:
    told = {name: bytes(value) if isinstance(value, Raw) else value for name, value in asdict(form).items()}
    return kind(**{**told, **more})


def _history(form: _History) -> History:
    items = tuple(_made(Item, item) for item in form.items)
    return _made(History, form, items=items, turns=tuple(_made(Turn, turn, owner="") for turn in form.turns))


_READERS: dict[Kind, Callable[[bytes], Any]] = {
    "history": _reader(_History, _history),
    "holders": _reader(dict[str, Raw], lambda form: {name: bytes(value) for name, value in form.items()}),
    "rounds": _reader(list[_Rounds], lambda form: [_made(Rounds, each) for each in form]),
    "states": _reader(list[_State], lambda form: [_made(State, each, owner="", issuer="") for each in form]),
    "replay": _reader(
        _Replay | None, lambda form: None if form is None else _made(Replay, form, owner="", upstream="")
    ),
}

READS: Mapping[str, Kind] = {
    "history": "history",
    "conversation_history": "history",
    "holders": "holders",
    "rounds": "rounds",
    "states": "states",
    "replay": "replay",
}
"""The methods of a store by which a request gets what it does not say itself, and what they return."""
