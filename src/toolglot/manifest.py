"""Manifests: a dialect's paths and names, and references to its parts, available before the dialect is loaded.

A gateway knows every dialect's paths from the start, and loads a dialect when it is requested. A dialect's package
therefore has a small `Manifest`. The `Dialect` itself, with all codecs, is a reference: `module:ATTRIBUTE`, imported on
first use. Third-party packages register their manifest in the entry-point group `toolglot.dialects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from msgspec import Struct

from toolglot.state_fields import StateFields


class Route(Struct, frozen=True):
    """One method at one path. `{model}` in a path matches slashes, `{id}` and `{item}` do not."""

    method: str
    path: str
    action: str
    """A name of `server/actions.py`: `generate`, `count`, `models`, `model`, `function` and others."""
    dialect: str | None = None
    """The client's dialect; None if its headers determine it."""
    open: bool = False
    """True if the route answers without a key."""
    role: Literal["client", "monitor", "viewer", "admin"] = "client"
    """Who may use it where a team has keys of its own. Viewers read what admins may change. Keys of the configuration
    may monitor."""
    reserved: bool = False
    """True if the route answers even when the server is at its limit of connections or requests, for monitoring."""
    function: str = ""
    """For the action `function`: a reference to the function from the request's body to the answer's JSON."""
    streams: bool | None = None
    """For the action `generate`: whether the answer is a stream; None if the request determines it."""
    operation: str = "chat"
    """For the action `generate`: the operation's name in OpenTelemetry's conventions."""
    setting: str = ""
    """The member of `server` in the configuration that enables the route; always enabled if empty."""


class Manifest(Struct, frozen=True, kw_only=True):
    """A dialect's name, its paths, and references to its parts."""

    name: str
    record: str
    """The `Dialect`."""
    marks: str = ""
    """Its `Marks`, by which its documents are recognized."""
    lint: str = ""
    """Its `LintRules`: what clients require of its streams."""
    remedies: str = ""
    """Its `Remedies`, for rejections that only its servers have."""
    json_form: str = ""
    """Its `JsonForm`, if its wire format is not JSON."""
    output_schema: str = ""
    """The member of a tool that holds the schema of its output, if there is one."""
    volatile: tuple[str, ...] = ("model",)
    """Members of a request that identify the caller. Requests that differ only in them count as equal."""
    state: StateFields = StateFields()
    """Fields of its models' reasoning state."""
    aliases: tuple[str, ...] = ()
    """Other names for it, for "did you mean"."""
    client: str = ""
    """How to set up a client, as `toolglot serve` prints it: a name and its base URL with `{url}`."""
    routes: tuple[Route, ...] = ()
    path_prefixes: tuple[str, ...] = ()
    """First path segments that identify the dialect, for paths that are ambiguous without them."""
    owns_versions: bool = False
    """True if only its clients use versions other than `v1` in paths."""
    unserved: Mapping[str, str] = {}
    """Endpoints of the vendor that the gateway does not have: path prefix (or suffix, with `:`) -> description."""
    client_headers: tuple[str, ...] = ()
    """Headers that only its clients send."""


def load(reference: str) -> Any:
    """Import the object that `module:ATTRIBUTE` names."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
