"""The envelope in which a client carries reasoning state for another vendor.

It returns from the network, where anyone can forge one. Only the known fields of an owner's state are packed and
unpacked, and each has its type checked. A forged envelope can express no more than any client can send in the owner's
own wire format.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Literal, TypeGuard, get_args

from msgspec import Struct

from toolglot.dialects import DIALECTS, ByDialect
from toolglot.errors import DecodeError
from toolglot.state_fields import Checks
from toolglot.wire import json

Place = Literal["here", "next_call", "next_text", "last_call", "last_text"]
"""The block that the state belongs to: the reasoning with the envelope, or a block without a slot of its own."""

PLACES: frozenset[str] = frozenset(get_args(Place))


class Envelope(Struct, frozen=True, kw_only=True):
    """State that `owner` attached to a block. `text` is the reasoning that a signature may be bound to. `issuer` is the
    only server that the state returns to; empty if unknown."""

    owner: str
    state: dict[str, Any] = {}
    place: Place = "here"
    text: str = ""
    issuer: str = ""

    def is_for(self, owner: str, issuer: str) -> bool:
        """Return whether the state may be returned to this owner and issuer."""
        return self.owner == owner and self.issuer in ("", issuer)


STATE: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.thinking)
"""State fields of each dialect's reasoning, with their type checks."""
_ON_TEXTS: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.texts)
_ON_CALLS: Mapping[str, Checks] = ByDialect(lambda manifest: {**manifest.state.thinking, **manifest.state.calls})
_BY_PLACE: Mapping[str, Mapping[str, Checks]] = {
    "next_text": _ON_TEXTS,
    "next_call": _ON_CALLS,
    "last_call": _ON_CALLS,
}
TAKES_BACK: Mapping[str, bool] = ByDialect(lambda manifest: bool(manifest.state.thinking) or manifest.state.words)
"""APIs whose models accept their own reasoning back."""
BOUND_TO_MODEL: Mapping[str, bool] = ByDialect(lambda manifest: manifest.state.bound_to_model)
"""APIs whose state is accepted only by the model that created it."""
BOUND_TO_ACCOUNT: Mapping[str, bool] = ByDialect(lambda manifest: manifest.state.bound_to_account)
"""APIs whose state is accepted only by the account that created it."""

# The whole envelope is base64, because Gemini's clients check that. The 9-byte seal always encodes to the same 12
# characters.
_SEAL = b"toolglot\0"
PREFIX = base64.b64encode(_SEAL).decode()
_PLAIN_ALPHABET = str.maketrans("-_", "+/")


def pack(envelope: Envelope) -> str:
    """Encode an envelope as the string that goes into the client's slot."""
    state = select_known(envelope.state, _checks(envelope.owner, envelope.place))
    issuer = [envelope.issuer] if envelope.issuer else []
    return close([envelope.owner, envelope.place, state, envelope.text, *issuer])


def unpack(value: object) -> Envelope | None:
    """Decode an envelope; None if toolglot did not write it."""
    match decode_envelope(value):
        case [str() as owner, str() as place, dict() as state, str() as text, *rest]:
            issuer = rest[0] if len(rest) == 1 and isinstance(rest[0], str) else ""
            if DIALECTS.manifest(owner) is not None and place in PLACES and (issuer or not rest):
                state = select_known(state, _checks(owner, place))
                return Envelope(owner=owner, state=state, place=place, text=text, issuer=issuer)  # type: ignore[arg-type]
    return None


def _checks(owner: str, place: str) -> Checks:
    """Return the fields that state at this place may have. Only `next_text` may have the fields of texts."""
    return _BY_PLACE.get(place, STATE).get(owner, {})


def close(content: list[Any]) -> str:
    """Encode content as a string that no vendor mistakes for its own state."""
    return base64.b64encode(_SEAL + json.encode(content)).decode()


def is_ours(value: object) -> TypeGuard[str]:
    """Return whether the value starts like an envelope. `decode_envelope` decodes it."""
    return isinstance(value, str) and value.startswith(PREFIX)


def decode_envelope(value: object) -> Any:
    """Decode the content of an envelope; None if toolglot did not write it."""
    if not is_ours(value):
        return None
    # Google's own clients decode the bytes and re-encode them as URL-safe base64, some without padding.
    value = value.translate(_PLAIN_ALPHABET).rstrip("=")
    try:
        return json.decode_frame(base64.b64decode(value + "=" * (-len(value) % 4), validate=True)[len(_SEAL) :])
    except (binascii.Error, DecodeError, ValueError):
        return None


def select_known(state: Mapping[str, Any], checks: Checks) -> dict[str, Any]:
    """Keep only the known fields whose values pass their checks."""
    return {key: value for key, value in state.items() if key in checks and checks[key](value)}
