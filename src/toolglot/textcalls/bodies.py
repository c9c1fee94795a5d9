"""What reads the bodies of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from toolglot.textcalls.body import Body, Opened
from toolglot.textcalls.braces import BracesBody
from toolglot.textcalls.empty import EmptyBody
from toolglot.textcalls.envelope import EnvelopeBody
from toolglot.textcalls.grammar import BodyKind
from toolglot.textcalls.json_body import JsonBody
from toolglot.textcalls.python_calls import PythonBody
from toolglot.textcalls.tagged import TaggedBody

BODIES: Final[dict[BodyKind, Callable[[Opened], Body]]] = {
    "envelope": EnvelopeBody,
    "json": JsonBody,
    "tagged": TaggedBody,
    "python": PythonBody,
    "braces": BracesBody,
    "empty": EmptyBody,
}
