"""Documents and streams spoilt at random: types flipped, members dropped or added, bytes cut, doubled or replaced."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from hypothesis import strategies as st

from tests.strategies import json_values

Path = tuple[str | int, ...]


def paths(value: Any, prefix: Path = ()) -> list[Path]:
    """The path of every value inside a JSON value, itself included."""
    found = [prefix]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*prefix, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += paths(item, (*prefix, index))
    return found


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy with the value at the path replaced."""
    if not path:
        return new
    whole = copy.deepcopy(value)
    at(whole, path[:-1])[path[-1]] = new
    return whole


def without(value: Any, path: Path) -> Any:
    """A copy without the member at the path."""
    whole = copy.deepcopy(value)
    del at(whole, path[:-1])[path[-1]]
    return whole


ODD_VALUES: tuple[Any, ...] = (None, 7, -1, 0.5, "text", "", [], ["x"], {}, {"a": 1}, True, False)


@st.composite
def spoilt(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values changed, dropped or given an unknown neighbour."""
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths(document)))
        action = draw(st.sampled_from(["replace", "drop", "add", "random"]))
        target = at(document, path)
        if action == "drop" and path:
            document = without(document, path)
        elif action == "add" and isinstance(target, dict):
            document = replaced(document, path, {**target, "x_unknown": draw(json_values)})
        elif action == "random":
            document = replaced(document, path, draw(json_values))
        else:
            document = replaced(document, path, draw(st.sampled_from(ODD_VALUES)))
    return document


@st.composite
def spoilt_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with one to three stretches cut out, doubled, moved or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        low = draw(st.integers(0, len(data)))
        high = draw(st.integers(low, min(len(data), low + 200)))
        action = draw(st.sampled_from(["cut", "double", "replace", "truncate", "insert"]))
        if action == "cut":
            data = data[:low] + data[high:]
        elif action == "double":
            data = data[:high] + data[low:]
        elif action == "replace":
            data = data[:low] + draw(st.binary(max_size=8)) + data[high:]
        elif action == "insert":
            data = data[:low] + draw(st.sampled_from(SNIPPETS)) + data[low:]
        else:
            data = data[:low]
    return data


SNIPPETS = (
    b"\n\n",
    b"\r",
    b": comment\n",
    b"data: {}\n\n",
    b"data: null\n\n",
    b"data: [DONE]\n\n",
    b"data: []\n\n",
    b'data: "x"\n\n',
    b"event: error\ndata: {}\n\n",
    b'data: {"error":{"message":"x"}}\n\n',
    b'data: {"type":"error"}\n\n',
    b"\xef\xbb\xbf",
    b"\xff",
)


@st.composite
def cuttings(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The bytes in chunks, cut anywhere."""
    bounds = [0, *sorted(draw(st.sets(st.integers(0, len(data)), max_size=12))), len(data)]
    return [data[low:high] for low, high in itertools.pairwise(bounds)]
