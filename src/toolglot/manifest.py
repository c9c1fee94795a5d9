"""What is known of a dialect before it is loaded: its paths, its names, and where the rest of it is.

A gateway knows every dialect's paths from the start and loads the dialects that are asked for. So a dialect's package
holds a small `Manifest`, and the `Dialect` itself with all codecs is a reference: `module:ATTRIBUTE`, imported on first
use. Packages that bring a dialect of their own name their manifest in the entry-point group `toolglot.dialects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from msgspec import Struct

from toolglot.state_fields import StateFields


class Route(Struct, frozen=True):
    """One method at one path. `{model}` in a path takes slashes, `{id}` and `{item}` do not."""

    method: str
    path: str
    action: str
    """A name of `server/actions.py`: `generate`, `count`, `models`, `model`, `function` and others."""
    dialect: str | None = None
    """The client's dialect; None where its headers tell it."""
    open: bool = False
    """Answered without a key."""
    reserved: bool = False
    """Answered although the server has as many connections or requests as it takes: monitoring asks here."""
    function: str = ""
    """For the action `function`: a reference to the function from the request's body to the answer's JSON."""
    streams: bool | None = None
    """For the action `generate`: whether the answer is a stream; None where the request says so."""
    operation: str = "chat"
    """For the action `generate`: the operation's name in OpenTelemetry's conventions."""
    setting: str = ""
    """The member of `server` in the configuration that switches the route on; always on if empty."""


class Manifest(Struct, frozen=True, kw_only=True):
    """A dialect's name, its paths, and references to its parts."""

    name: str
    record: str
    """The `Dialect`."""
    marks: str = ""
    """Its `Marks`, by which its documents are recognized."""
    lint: str = ""
    """Its `LintRules`, what clients demand of its streams."""
    remedies: str = ""
    """Its `Remedies`, for refusals that its servers alone have."""
    json_form: str = ""
    """Its `JsonForm`, where its wire is not JSON."""
    output_schema: str = ""
    """The member of a tool that holds the schema of its output, if there is one."""
    volatile: tuple[str, ...] = ("model",)
    """Members of a request that tell who asks and not what: two requests that differ in them alone are the same."""
    state: StateFields = StateFields()
    """What its models' reasoning state consists of."""
    aliases: tuple[str, ...] = ()
    """What people call it, for "did you mean"."""
    client: str = ""
    """How a client is set up, for the lines that `toolglot serve` prints: a name and its base URL with `{url}`."""
    routes: tuple[Route, ...] = ()
    path_prefixes: tuple[str, ...] = ()
    """First segments of a path that tell the dialect, for the paths that do not."""
    owns_versions: bool = False
    """Its clients alone write versions other than `v1` in paths."""
    unserved: Mapping[str, str] = {}
    """Endpoints of the vendor that the gateway does not have, by how a path begins (or ends, with `:`), and what they
    are."""
    client_headers: tuple[str, ...] = ()
    """Headers that its clients alone send."""


def load(reference: str) -> Any:
    """The object that `module:ATTRIBUTE` names."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
