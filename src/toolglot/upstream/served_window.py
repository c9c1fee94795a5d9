"""Find the context window that a local server actually serves for a model.

Model lists of local servers often name the window that a model was trained with. The relevant window is the one that
the server has allocated: Ollama serves 4,096 tokens on small machines unless configured otherwise, and truncates longer
prompts silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolglot.errors import DecodeError
from toolglot.models import whole
from toolglot.upstream.transport import MAX_LIST_BYTES, Timeouts, TransportError, fetch
from toolglot.upstream.upstream import Upstream
from toolglot.upstream.vendors import VERSION
from toolglot.wire import json

_TIMEOUTS = Timeouts(connect=2.0, first_byte=5.0, idle=5.0)
_LOAD_TIMEOUTS = Timeouts(connect=2.0, first_byte=20.0, idle=5.0)
"""A client waits 30 seconds for all checks of a model."""
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)


class WindowQuery(Struct, frozen=True):
    """A request to the server's root, and the function that reads the window from the answer."""

    path: str
    read: Callable[[Any, str], int | None]
    """Takes the answer and the model's name."""
    method: str = "GET"
    loads: bool = False
    """True if the request makes the server load the model, which takes a while."""
    setting: str | None = None
    """Instructions to enlarge a window that was found here, if they differ from the vendor's; with `{tokens}`."""


class ServedWindow(Struct, frozen=True):
    """The context window of a model, in tokens."""

    tokens: int
    setting: str | None = None
    """`WindowQuery.setting` of the query that found it."""


def _member(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _read_ollama_loaded(answer: Any, model: str) -> int | None:
    """Return the window of a loaded model."""
    for entry in _member(answer, "models") or ():
        if {_member(entry, "name"), _member(entry, "model")} & {model, f"{model}:latest"}:
            return whole(_member(entry, "context_length"))
    return None


def _read_ollama_parameters(answer: Any, model: str) -> int | None:
    """`num_ctx` of the model's own file. `model_info` has the window of its training instead."""
    parameters = _member(answer, "parameters")
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return None if found is None else whole(found[1])


def _read_nothing(answer: Any, model: str) -> int | None:
    return None


def _read_lm_studio_loaded(answer: Any, model: str) -> int | None:
    entries = [entry for entry in _member(answer, "data") or () if _member(entry, "id") == model]
    return whole(_member(entries[0], "loaded_context_length")) if entries else None


def _read_llama_cpp_properties(answer: Any, model: str) -> int | None:
    return whole(_member(answer, "default_generation_settings", "n_ctx"))


WINDOW_QUERIES: Mapping[str, Sequence[WindowQuery]] = {
    # `num_ctx` in the model's file takes precedence over the server's setting, and over the window with which another
    # client's request has loaded the model. A request without a prompt only loads the model (ollama/ollama,
    # docs/api.md).
    "ollama": (
        WindowQuery(
            "/api/show",
            _read_ollama_parameters,
            method="POST",
            setting="its Modelfile sets this window: change `PARAMETER num_ctx` there to {tokens}",
        ),
        WindowQuery("/api/ps", _read_ollama_loaded),
        WindowQuery("/api/generate", _read_nothing, method="POST", loads=True),
        WindowQuery("/api/ps", _read_ollama_loaded, loads=True),
    ),
    "lmstudio": (WindowQuery("/api/v0/models", _read_lm_studio_loaded),),
    "llamacpp": (WindowQuery("/props", _read_llama_cpp_properties),),
}
"""By vendor, in the order in which they are asked. Servers of other vendors list the window that they serve."""


async def fetch_served_window(
    upstream: Upstream, vendor: str | None, model: str, *, load: bool = False
) -> ServedWindow | None:
    """Return the window that the server allocates for the model; None if it does not report it. `load`: a server that
    reports only loaded models may load this one.
    """
    for query in WINDOW_QUERIES.get(vendor or "", ()):
        if query.loads and not load:
            continue
        if (window := await _ask(upstream, query, model)) is not None:
            return ServedWindow(window, query.setting)
    return None


async def _ask(upstream: Upstream, query: WindowQuery, model: str) -> int | None:
    body = msgspec.json.encode({"model": model}) if query.method == "POST" else b""
    call = upstream.call(query.path, body, method=query.method)
    timeouts = _LOAD_TIMEOUTS if query.loads else _TIMEOUTS
    call = replace(call, url=VERSION.sub("", upstream.base_url.rstrip("/")) + query.path, timeouts=timeouts)
    try:
        answer = await fetch(upstream.transport, call, MAX_LIST_BYTES)
        return query.read(json.decode(answer.body), model) if answer.status == 200 else None
    except (TransportError, DecodeError):
        return None
