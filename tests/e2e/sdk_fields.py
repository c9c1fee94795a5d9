"""Every field of an SDK's answer types, each as a pair of documents that differ in that field alone.

The types are pydantic models. The walk goes through each arm of each union. Where the sample document has an object,
its fields are varied in place; an object that it does not have is introduced first, in its smallest legal form.
"""

from __future__ import annotations

import datetime
import enum
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from zlib import crc32

import typing_extensions
from pydantic import BaseModel

ABSENT: Any = object()
DEEPEST = 12


@dataclass(frozen=True)
class Change:
    """A field that is set: the value that holds it with and without it. `within`: the paths of the changes that
    introduce the objects around it."""

    path: str
    after: Any
    before: Any
    within: tuple[str, ...] = ()
    is_empty: bool = False
    """What is set says nothing by itself."""

    def put(self, after: Any, before: Any) -> Change:
        """The same change, seen from the value around it."""
        return Change(self.path, after, before, self.within, self.is_empty)


def says_nothing(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(says_nothing, value.values()))
    return value is None or value is False or value in ("", [])


def fields_of(model: type[BaseModel]) -> Iterator[tuple[str, Any, bool]]:
    """The JSON name, the type and whether it is required, of each field."""
    for name, field in model.model_fields.items():
        yield field.serialization_alias or field.alias or name, field.annotation, field.is_required()


@cache
def arms(annotation: Any) -> tuple[Any, ...]:
    """The types that a value may have, without null."""
    origin = get_origin(annotation)
    if isinstance(annotation, typing_extensions.TypeAliasType):
        return arms(annotation.__value__)
    if origin is typing_extensions.Annotated:
        return arms(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(dict.fromkeys(arm for part in get_args(annotation) for arm in arms(part)))
    return () if annotation is NoneType else (annotation,)


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


SCALARS: Mapping[Any, Callable[[int], Any]] = {
    str: lambda number: f"mark_{number}",
    int: lambda number: number,
    float: lambda number: number / 100_000,
    bool: lambda number: True,
    bytes: lambda number: b64encode(f"mark_{number}".encode()).decode(),
    datetime.datetime: lambda number: f"20{30 + number % 60}-05-06T07:08:09Z",
    object: lambda number: f"mark_{number}",
    Any: lambda number: f"mark_{number}",
}
"""A value of this type for each number."""


def number_of(path: str) -> int:
    """Another number for another path."""
    return 10_000 + crc32(path.encode()) % 80_000


def choices(annotation: Any) -> tuple[Any, ...] | None:
    """The values of a literal or an enumeration."""
    if get_origin(annotation) in (Literal, typing_extensions.Literal):
        return get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return tuple(member.value for member in annotation)
    return None


class Walk:
    """The changes of one SDK. `samples`: the smallest legal form of a type where its required fields are not enough.
    `apart`: fields of a type that an object has alone; they are set in an object of their own."""

    def __init__(
        self,
        samples: Mapping[type[BaseModel], Mapping[str, Any]],
        apart: Mapping[type[BaseModel], frozenset[str]] | None = None,
    ) -> None:
        self._samples = samples
        self._apart = apart or {}

    def smallest(self, annotation: Any, path: str) -> Any:
        if is_model(annotation):
            fields = [(name, kind) for name, kind, needed in fields_of(annotation) if needed]
            required = {name: self.smallest(kind, f"{path}.{name}") for name, kind in fields}
            return {**required, **self._samples.get(annotation, {})}
        if (values := choices(annotation)) is not None:
            return values[0]
        if annotation is bool:
            return False
        if annotation in SCALARS:
            return SCALARS[annotation](number_of(path) + 1)
        origin = get_origin(annotation)
        if origin in (list, Sequence):
            return []
        if origin is dict or annotation is dict:
            return {}
        return self.smallest(arms(annotation)[0], path)

    def model(
        self,
        model: type[BaseModel],
        sample: Mapping[str, Any],
        path: str = "",
        within: tuple[str, ...] = (),
        names: frozenset[str] | None = None,
    ) -> Iterator[Change]:
        """The changes to each field of this sample of a model, or to those of these names."""
        if path.count(".") > DEEPEST:
            return
        for name, annotation, _ in fields_of(model):
            if names is not None and name not in names:
                continue
            held = sample.get(name, ABSENT)
            for arm in arms(annotation):
                for change in self._field(arm, held, f"{path}.{name}", within):
                    after = {**sample, name: change.after}
                    before = {key: value for key, value in sample.items() if key != name}
                    if change.before is not ABSENT:
                        before = {**sample, name: change.before}
                    yield change.put(after, before)

    def _field(self, arm: Any, held: Any, where: str, within: tuple[str, ...]) -> Iterator[Change]:
        values = choices(arm)
        if values is not None:
            is_constant = len(values) == 1 and held is not ABSENT
            for value in () if is_constant else values:
                if value != held:
                    yield Change(f"{where}={value}", value, held, within)
        elif arm in SCALARS:
            yield Change(where, SCALARS[arm](number_of(where)), held, within)
        elif is_model(arm):
            yield from self._object(arm, held, where, within)
        elif get_origin(arm) in (list, Sequence):
            yield from self._list(get_args(arm)[0], held, where, within)
        elif get_origin(arm) is dict or arm is dict:
            yield Change(where, {"mark": f"mark_{number_of(where)}"}, held, within)
        else:
            raise TypeError(f"{where}: {arm}")

    def _is_sample_of(self, model: type[BaseModel], held: Any) -> bool:
        """Is this value an object of this model? The constants of its fields tell."""
        if not isinstance(held, Mapping):
            return False
        for name, annotation, needed in fields_of(model):
            values = choices(arms(annotation)[0]) if arms(annotation) else None
            if values is not None and len(values) == 1 and held.get(name, ABSENT if needed else values[0]) != values[0]:
                return False
        return held.keys() <= {name for name, _, _ in fields_of(model)}

    def _object(self, model: type[BaseModel], held: Any, where: str, within: tuple[str, ...]) -> Iterator[Change]:
        if self._is_sample_of(model, held):
            yield from self.model(model, held, where, within, self._names(model, apart=False))
            return
        smallest = self.smallest(model, where)
        introduced = Change(f"{where}<{model.__name__}>", smallest, held, within, says_nothing(smallest))
        yield introduced
        names = self._names(model, apart=True) if model in self._apart else None
        yield from self.model(model, smallest, introduced.path, (*within, introduced.path), names)

    def _names(self, model: type[BaseModel], *, apart: bool) -> frozenset[str]:
        alone = self._apart.get(model, frozenset())
        return alone if apart else frozenset(name for name, _, _ in fields_of(model)) - alone

    def _list(self, annotation: Any, held: Any, where: str, within: tuple[str, ...]) -> Iterator[Change]:
        listed = list(held) if isinstance(held, list) else []
        for arm in arms(annotation):
            place = next((n for n, item in enumerate(listed) if is_model(arm) and self._is_sample_of(arm, item)), None)
            places = {place, None} if arm in self._apart else {place}
            for at in places:
                yield from self._element(arm, listed, at, f"{where}[]", within)

    def _element(
        self, arm: Any, listed: list[Any], place: int | None, where: str, within: tuple[str, ...]
    ) -> Iterator[Change]:
        """Changes to one element of a list; to a new one at its end, where there is none yet."""
        at = len(listed) if place is None else place
        first, rest = listed[:at], listed[at + 1 :]
        for change in self._field(arm, ABSENT if place is None else listed[place], where, within):
            before = [*first, *rest] if change.before is ABSENT else [*first, change.before, *rest]
            yield change.put([*first, change.after, *rest], before)
