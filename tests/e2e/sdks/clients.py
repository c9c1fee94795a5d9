"""What the tests want of a client, whichever SDK it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.answers import Answer

from .script import Wish


@dataclass(frozen=True)
class Client:
    """A tool loop with one SDK, in one manner. `run` takes the gateway's base URL and returns the turns' answers."""

    name: str
    dialect: str
    streams: bool
    run: Callable[[str, Wish], list[Answer]]
    thinking: bool = True
    """Shows the model's thoughts."""
    usage: bool = True
    """Shows the tokens of every turn, not of the last alone."""
    pictures: bool = True
    """Its tools can answer with a picture."""
    marks_errors: bool = False
    """Says with a field of its own that a tool failed."""
    returns_state: bool = True
    """Sends the model's opaque state (signatures) back."""
