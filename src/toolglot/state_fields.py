"""The fields of a vendor's reasoning state: the native fields that hold it, each with a check of its value.

Clients send state back, and anyone can write to a client's history. So only these fields are extracted: forged state
can express no more than the vendor's own API lets every client express.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

Checks: TypeAlias = Mapping[str, Callable[[object], bool]]
"""Fields by name, each with the check of its value."""

LENGTH = "$length"
"""Length of a text in characters. Clients join adjacent texts, and the state belongs to one of them."""

STATE_ID = "$state_id"
"""The id of a call that carries state of its server (`Capabilities.id_state_mark`). The client gets another id."""


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_true(value: object) -> bool:
    return value is True


def is_length(value: object) -> bool:
    return type(value) is int and value >= 0


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and all(map(is_object, value))


def is_one_of(*values: str) -> Callable[[object], bool]:
    return lambda value: value in values


def is_list_of_texts(kind: str) -> Callable[[object], bool]:
    """Whether a value is a list of `{"type": kind, "text": …}`, as in reasoning items."""

    def is_text_part(part: object) -> bool:
        has_members = isinstance(part, dict) and part.keys() == {"type", "text"}
        return has_members and part["type"] == kind and is_text(part["text"])  # type: ignore[index]

    return lambda value: isinstance(value, list) and all(map(is_text_part, value))


class StateFields(Struct, frozen=True, kw_only=True):
    """The state of one dialect's models, by the block that it is on. Empty where there is none."""

    thinking: Checks = {}
    words: bool = False
    """True if its models want the words of their reasoning back, whether there are fields beside them or not."""
    calls: Checks = {}
    texts: Checks = {}
    bound_to_model: bool = False
    """True if only the model that made the state takes it back, not every model behind the same address."""
    bound_to_account: bool = False
    """True if only the account that made the state takes it back."""
    needs_follower: bool = False
    """True if the API refuses reasoning that is sent back without the item that followed it in the answer."""
    in_extra_content: bool = False
    """True if the vendor's server for OpenAI clients puts the state of a call in
    `extra_content.google.thought_signature`."""
