"""Reports repeated keys in the arguments of a tool call."""

from __future__ import annotations

from toolglot.receipt import Receipt
from toolglot.wire import json


def note_repeated_keys(arguments: str, where: str, receipt: Receipt) -> None:
    """Note a repeated key in arguments that become an object: most readers keep the last value."""
    if json.has_repeated_key(arguments):
        receipt.note(where, "a repeated key of the arguments", "readers of an object mostly keep its last value")
