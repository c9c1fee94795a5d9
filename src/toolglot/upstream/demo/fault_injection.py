"""Words in a wish that make the demo fail on purpose: `demo:error 429`, `demo:cut`, `demo:fault`, `demo:slow`."""

from __future__ import annotations

import re

from msgspec import Struct

from toolglot.errors import ApiError, kind_of_status

_WORDS = re.compile(r"\bdemo:(?:(error)(?:\s+([45]\d\d))?|(cut)|(fault)|(slow))\b\s*", re.IGNORECASE)


class InjectedFaults(Struct, frozen=True, kw_only=True):
    status: int | None = None
    is_cut: bool = False
    is_fault: bool = False
    is_slow: bool = False

    @property
    def breaks_off(self) -> bool:
        return self.is_cut or self.is_fault


NO_FAULTS = InjectedFaults()


def parse_faults(wish: str) -> InjectedFaults:
    """Parse the faults that the wish asks for."""
    found = list(_WORDS.finditer(wish))
    return InjectedFaults(
        status=next((int(match[2] or 500) for match in found if match[1]), None),
        is_cut=any(match[3] for match in found),
        is_fault=any(match[4] for match in found),
        is_slow=any(match[5] for match in found),
    )


def without_fault_words(wish: str) -> str:
    return _WORDS.sub("", wish).strip()


def make_error(status: int) -> ApiError:
    """Return the requested error."""
    return ApiError(
        kind=kind_of_status(status),
        status=status,
        message=f"The demo upstream answers with {status}, as “demo:error {status}” asks it to",
        retry_after=1.0 if status in (429, 503, 529) else None,
    )


STREAM_FAULT = ApiError(kind="overloaded", message="The demo upstream fails here, as “demo:fault” asks it to")
