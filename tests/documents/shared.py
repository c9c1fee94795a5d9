"""What the documents of all dialects are made of: records with optional members, nulls and unknown fields; streams."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.strategies import SCHEMAS, arguments, json_objects, json_values, legal_names, texts, words

Documents = SearchStrategy[dict[str, Any]]
unknown_fields = st.dictionaries(st.sampled_from(["x_new", "experimental"]), json_values, max_size=1)
flags = st.booleans()
counts = st.integers(1, 5000)
fractions = st.floats(0, 1)
object_schemas = st.sampled_from([schema for schema in SCHEMAS if schema and schema.get("type") == "object"])
objects = json_objects


def record(
    required: Mapping[str, SearchStrategy[Any]],
    optional: Mapping[str, SearchStrategy[Any]] | None = None,
    *,
    nulls: bool = True,
    unknown: bool = True,
) -> Documents:
    """An object: its required members, some of its optional ones (perhaps null), perhaps a field nobody knows."""
    maybe = {key: (st.none() | value if nulls else value) for key, value in (optional or {}).items()}
    known: Documents = st.fixed_dictionaries(dict(required), optional=maybe)
    if not unknown:
        return known
    return st.tuples(known, unknown_fields).map(lambda both: {**both[1], **both[0]})


def tagged(kind: str, required: Mapping[str, SearchStrategy[Any]], optional: Any = None, **more: bool) -> Documents:
    """A record with a `type`."""
    return record({"type": st.just(kind), **required}, optional, **more)


def some(*kinds: SearchStrategy[Any], at_least: int = 0, at_most: int = 3) -> SearchStrategy[list[Any]]:
    return st.lists(st.one_of(*kinds), min_size=at_least, max_size=at_most)


novel_parts = tagged("novel", {"novel": json_values})


class Spoken(NamedTuple):
    """A block of a streamed answer: `kind` is text, thinking or call; the text or arguments come in these pieces."""

    kind: str
    pieces: tuple[str, ...]
    name: str = ""


def _cut(text: str, cuts: list[int]) -> tuple[str, ...]:
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(text)}), len(text)]
    return tuple(text[low:high] for low, high in itertools.pairwise(bounds) if low < high)


pieces = st.builds(_cut, texts, st.lists(st.integers(1, 20), max_size=3))
argument_pieces = st.builds(
    _cut, arguments().filter(lambda text: "\n" not in text), st.lists(st.integers(1, 20), max_size=3)
)
spoken_texts = st.builds(Spoken, st.just("text"), pieces)
spoken_thinking = st.builds(Spoken, st.just("thinking"), pieces)
spoken_calls = st.builds(Spoken, st.just("call"), argument_pieces, legal_names)


@st.composite
def answers(draw: st.DrawFn) -> list[Spoken]:
    """Thinking, text and calls in the usual order, each perhaps missing."""
    return [
        *draw(st.lists(spoken_thinking, max_size=1)),
        *draw(st.lists(spoken_texts, max_size=1)),
        *draw(st.lists(spoken_calls, max_size=3)),
    ]


def has_calls(answer: list[Spoken]) -> bool:
    return any(block.kind == "call" for block in answer)


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def named_event(name: str, body: Mapping[str, Any]) -> str:
    return f"event: {name}\ndata: {dump({'type': name, **body})}\n\n"


def plain_event(body: Mapping[str, Any]) -> str:
    return f"data: {dump(body)}\n\n"


__all__ = [
    "Documents",
    "Spoken",
    "answers",
    "counts",
    "dump",
    "flags",
    "fractions",
    "has_calls",
    "named_event",
    "novel_parts",
    "object_schemas",
    "objects",
    "plain_event",
    "record",
    "some",
    "tagged",
    "texts",
    "words",
]
