"""Convert the arguments of a tool whose parameters have another form upstream.

`schema.fit` wraps non-object parameters under one name, and renames properties that the target refuses. Calls
of the history get the upstream's form, and calls of an answer get the client's form again. Values keep their spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from toolglot.wire import json

_Members: TypeAlias = dict[str, Raw]
_decode_members = msgspec.json.Decoder(_Members).decode
_decode_any = msgspec.json.Decoder().decode


class ArgumentForm(Struct, frozen=True):
    """Form of a call's arguments at the upstream. `wrapped_in`: the name under which the upstream has the client's
    arguments. `keys`: names of properties that the upstream knows by another name."""

    wrapped_in: str | None = None
    keys: Mapping[str, str] = {}

    def to_upstream(self, arguments: str, *, is_object: bool) -> str:
        """Convert arguments of the client. `is_object`: its wire format has objects as arguments, so a value that is
        not an object is still wrapped.
        """
        if self.wrapped_in is not None:
            if not arguments.strip() or not _is_json(arguments):
                return arguments
            members = _read(arguments)
            if is_object and members is not None and members.keys() == {self.wrapped_in}:
                value = bytes(members[self.wrapped_in])
                if value[:1] != b"{":
                    return arguments
            arguments = msgspec.json.encode({self.wrapped_in: Raw(arguments.strip().encode())}).decode()
        return _rename(arguments, self.keys)

    def to_client(self, arguments: str, *, is_object: bool) -> str | None:
        """Convert arguments of the model. None if it has not wrapped them. A value that is not an object stays wrapped
        if the client's wire format has objects (`is_object`).
        """
        members = _read(arguments)
        if members is None:  # a broken call
            return arguments
        if self.wrapped_in is None:
            return _rename(arguments, {new: old for old, new in self.keys.items()})
        if members.keys() != {self.wrapped_in}:
            return None
        value = bytes(members[self.wrapped_in]).decode()
        return arguments if is_object and value[:1] != "{" else value


def _read(arguments: str) -> _Members | None:
    try:
        return _decode_members(arguments)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _is_json(text: str) -> bool:
    try:
        _decode_any(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _rename(arguments: str, names: Mapping[str, str]) -> str:
    """Rename members. Arguments in which two members would get the same name stay unchanged."""
    members = _read(arguments) if names else None
    if members is None or names.keys().isdisjoint(members):
        return arguments
    renamed = {names.get(name, name): value for name, value in members.items()}
    if len(renamed) < len(members) or json.has_repeated_key(arguments):
        return arguments
    return msgspec.json.encode(renamed).decode()
