"""Reading the fields of a JSON object: by name and type, with the path for errors, and the rest left over.

A decoder takes what it understands out of a `Reader`; what nobody took is `rest()`, which rides along in `native`.
A null counts as absent and stays in the rest, so that it comes back as the null it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolglot.errors import DecodeError
from toolglot.ir import Native
from toolglot.wire import json, large

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


def expected(where: str, what: str, value: Any) -> DecodeError:
    """The error for a value of the wrong type."""
    return DecodeError(where, f"expected {what}, got {_NAMES.get(type(value), type(value).__name__)}")


class Reader:
    """One JSON object being read. The object is consumed: do not use it elsewhere."""

    __slots__ = ("_fields", "where")

    def __init__(self, fields: Any, where: str = "$") -> None:
        if type(fields) is not dict:
            raise expected(where, "an object", fields)
        self._fields: dict[str, Any] = fields
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self._fields.get(key) is not None

    def at(self, key: str) -> str:
        return f"{self.where}.{key}"

    def peek(self, key: str) -> Any:
        """The value, left in place; None when absent."""
        return self._fields.get(key)

    def take(self, key: str) -> Any:
        """Any value; None when absent or null."""
        value = self._fields.get(key)
        if value is not None:
            del self._fields[key]
        return value

    def text(self, key: str) -> str | None:
        value = self._fields.get(key)
        if value is None:
            return None
        if type(value) is not str:
            raise expected(self.at(key), "a string", value)
        del self._fields[key]
        return value

    def need_text(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise DecodeError(self.at(key), "this string is required")
        return value

    def flag(self, key: str) -> bool | None:
        value = self._fields.get(key)
        if value is None:
            return None
        if type(value) is not bool:
            raise expected(self.at(key), "a boolean", value)
        del self._fields[key]
        return value

    def integer(self, key: str) -> int | None:
        value = self._fields.get(key)
        if value is None:
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise expected(self.at(key), "a whole number", value)
        del self._fields[key]
        return value

    def number(self, key: str) -> float | None:
        value = self._fields.get(key)
        if value is None:
            return None
        if type(value) is not float and type(value) is not int:
            raise expected(self.at(key), "a number", value)
        del self._fields[key]
        return value

    def array(self, key: str) -> list[Any] | None:
        value = self._fields.get(key)
        if value is None:
            return None
        if type(value) is not list:
            raise expected(self.at(key), "an array", value)
        del self._fields[key]
        return value

    def object(self, key: str) -> Reader | None:
        value = self._fields.get(key)
        if value is None:
            return None
        reader = Reader(value, self.at(key))
        del self._fields[key]
        return reader

    def objects(self, key: str) -> list[Reader]:
        where = self.at(key)
        return [Reader(item, f"{where}[{index}]") for index, item in enumerate(self.array(key) or ())]

    def each(self, key: str) -> Iterator[Reader]:
        """The same for an array that may be long, one after the other."""
        where = self.at(key)
        for index, item in enumerate(large.emptied(self.array(key) or [])):
            yield Reader(item, f"{where}[{index}]")

    def rest(self) -> dict[str, Any]:
        """What nobody took."""
        return self._fields


def document(data: bytes | str, limit: int = json.MAX_DOCUMENT_BYTES) -> Reader:
    """A whole JSON document that must be an object."""
    return Reader(json.decode(data, limit))


def keep(owner: str, reader: Reader, **shape: Any) -> Native:
    """`native` for a node: what the reader has left, with notes on its shape (`$` is prefixed to each name).

    An unknown field that itself begins with `$` is set apart, so that nothing a peer sends is taken for a note.
    """
    return keep_members(owner, reader.rest(), **shape)


def keep_members(owner: str, rest: dict[str, Any], /, **shape: Any) -> Native:
    """The same for members that are left over. The dictionary is consumed."""
    if rest and (strange := [key for key in rest if key.startswith("$")]):
        shape["dollar"] = {key: rest.pop(key) for key in strange}
    for name, value in shape.items():
        if value is not None:
            rest[f"${name}"] = value
    return {owner: rest} if rest else {}


def kept(notes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `keep` kept, without the notes."""
    if not notes:
        return {}
    fields = {key: value for key, value in notes.items() if not key.startswith("$")}
    apart = notes.get("$dollar")
    return fields | apart if isinstance(apart, dict) else fields
