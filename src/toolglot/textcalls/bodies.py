"""The readers of each kind of body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from toolglot.textcalls.body import CallBody, OpenedCall
from toolglot.textcalls.braces_body import BracesBody
from toolglot.textcalls.empty_body import EmptyBody
from toolglot.textcalls.envelope_body import EnvelopeBody
from toolglot.textcalls.grammar import BodyKind
from toolglot.textcalls.json_body import JsonBody
from toolglot.textcalls.python_body import PythonBody
from toolglot.textcalls.tagged_body import TaggedBody

BODIES: Final[dict[BodyKind, Callable[[OpenedCall], CallBody]]] = {
    "envelope": EnvelopeBody,
    "json": JsonBody,
    "tagged": TaggedBody,
    "python": PythonBody,
    "braces": BracesBody,
    "empty": EmptyBody,
}
