"""What a client's application gets to see of an answer, whichever SDK parsed it and in whichever language."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """`arguments` is the parsed value; the text itself where it is not JSON (a call that was cut)."""

    id: str | None
    name: str
    arguments: Any


@dataclass(frozen=True)
class Answer:
    text: str = ""
    thinking: str = ""
    calls: list[Call] = field(default_factory=list)
    stop: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True)
class Failure:
    """What the SDK raised: the name of its error class, the HTTP status if it tells one, its text and headers."""

    name: str
    status: int | None
    message: str
    retry_after: str | None = None


@dataclass(frozen=True)
class Way:
    """One way to get an answer out of an SDK: `ask` takes the base URL of the server."""

    name: str
    dialect: str
    streams: bool
    ask: Callable[[str], Answer | Failure]


def parsed(arguments: str) -> Any:
    """Arguments as an application reads them, or the text where that fails."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def joined(texts: Iterable[str | None]) -> str:
    return "".join(text for text in texts if text)
