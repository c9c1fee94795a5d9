"""The envelope in which a client carries reasoning state for another vendor.

It comes back from the network, where anybody can write one. So only the fields that an owner's state really has go in
and come out, each with its type: a forged envelope can say no more than the owner's own wire lets every client say.
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
"""What the state belongs to: the reasoning that the envelope is on, or another block that has no slot of its own."""

PLACES: frozenset[str] = frozenset(get_args(Place))


class Envelope(Struct, frozen=True, kw_only=True):
    """State that `owner` keeps on a block. `text` is the reasoning that a signature may be bound to; `issuer` is the
    server to which alone it goes back, and empty where nobody has said."""

    owner: str
    state: dict[str, Any] = {}
    place: Place = "here"
    text: str = ""
    issuer: str = ""

    def is_for(self, owner: str, issuer: str) -> bool:
        """May it be given back to this one?"""
        return self.owner == owner and self.issuer in ("", issuer)


STATE: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.thinking)
"""What each vendor's reasoning state consists of."""
_ON_TEXTS: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.texts)
TAKES_BACK: Mapping[str, bool] = ByDialect(lambda manifest: bool(manifest.state.thinking) or manifest.state.words)
"""APIs whose models are given their own reasoning back."""
BOUND_TO_MODEL: Mapping[str, bool] = ByDialect(lambda manifest: manifest.state.bound_to_model)
"""APIs whose state only the model that made it takes back."""

# The whole envelope is base64, because Gemini's clients check that. Nine bytes make twelve characters that never vary.
_SEAL = b"toolglot\0"
_PREFIX = base64.b64encode(_SEAL).decode()
_PLAIN_ALPHABET = str.maketrans("-_", "+/")


def pack(envelope: Envelope) -> str:
    """The text that stands in the client's slot."""
    state = known(envelope.state, _checks(envelope.owner, envelope.place))
    issuer = [envelope.issuer] if envelope.issuer else []
    return close([envelope.owner, envelope.place, state, envelope.text, *issuer])


def unpack(value: object) -> Envelope | None:
    """The envelope; None for anything that is none of ours."""
    match opened(value):
        case [str() as owner, str() as place, dict() as state, str() as text, *rest]:
            issuer = rest[0] if len(rest) == 1 and isinstance(rest[0], str) else ""
            if DIALECTS.manifest(owner) is not None and place in PLACES and (issuer or not rest):
                state = known(state, _checks(owner, place))
                return Envelope(owner=owner, state=state, place=place, text=text, issuer=issuer)  # type: ignore[arg-type]
    return None


def _checks(owner: str, place: str) -> Checks:
    """The fields that state at this place may have. Only `next_text` has those of texts alone."""
    return (_ON_TEXTS if place == "next_text" else STATE).get(owner, {})


def close(content: list[Any]) -> str:
    """Any content as the text that no vendor takes for its own."""
    return base64.b64encode(_SEAL + json.encode(content)).decode()


def is_ours(value: object) -> TypeGuard[str]:
    """Does it look like an envelope? What is in it, `opened` tells."""
    return isinstance(value, str) and value.startswith(_PREFIX)


def opened(value: object) -> Any:
    """The content; None for anything that is none of ours."""
    if not is_ours(value):
        return None
    # Google's own clients read the bytes and write them again in the other alphabet of base64, some without padding.
    value = value.translate(_PLAIN_ALPHABET).rstrip("=")
    try:
        return json.decode_frame(base64.b64decode(value + "=" * (-len(value) % 4), validate=True)[len(_SEAL) :])
    except (binascii.Error, DecodeError, ValueError):
        return None


def known(state: Mapping[str, Any], checks: Checks) -> dict[str, Any]:
    """Of these fields those that there may be."""
    return {key: value for key, value in state.items() if key in checks and checks[key](value)}
