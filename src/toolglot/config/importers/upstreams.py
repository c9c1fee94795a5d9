"""Upstreams of an imported configuration: one for each distinct combination of server, credential and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from toolglot.config.addresses import is_loopback
from toolglot.config.assemble import complete_upstream
from toolglot.config.importers.draft import Draft
from toolglot.config.importers.environment import CredentialNames
from toolglot.config.importers.source import SourceNode
from toolglot.config.schema import UpstreamConfig
from toolglot.config.secrets import header_secrets
from toolglot.upstream.vendors import VENDORS, Vendor

_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "openai_chat": ("/chat/completions",),
    "openai_responses": ("/responses",),
    "anthropic": ("/v1/messages", "/messages"),
    "gemini": ("/v1beta/models", "/v1beta"),
}
"""Path suffixes in other gateways' addresses that toolglot adds itself."""


class SourceUpstream(Struct, frozen=True, kw_only=True):
    """A server in the source's configuration."""

    label: str
    """The source's name for the server."""
    keeps_label: bool = False
    """True if users know the server by this name."""
    vendor: str | None
    dialect: str | None = None
    """The dialect that the source uses; None means the vendor's."""
    base_url: str | None = None
    """The address, with references in toolglot's form; None means the vendor's."""
    address_source: SourceNode | None = None
    key: str | None = None
    key_source: SourceNode | None = None
    key_variable: str | None = None
    """The variable from which the source reads the key by default, if it is not the vendor's own."""
    headers: Mapping[str, tuple[str, SourceNode]] = {}
    settings: Mapping[tuple[str, str], SourceNode] = {}
    """Numeric settings by table and field: `("timeouts", "first_byte")`."""


class UpstreamPool:
    """Adds upstreams to a draft. Equal requests share one upstream."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._names: dict[Any, str] = {}
        self.credentials = CredentialNames()

    def add(self, request: SourceUpstream, source: SourceNode) -> str:
        """Return the name of the upstream for this request."""
        headers = tuple(sorted((name, value) for name, (value, _) in request.headers.items()))
        settings = tuple(sorted((place, node.value) for place, node in request.settings.items()))
        what = (request.vendor, request.dialect, request.base_url, request.key, request.key_variable, headers, settings)
        if what not in self._names:
            self._names[what] = self._write(request, source)
        return self._names[what]

    def _write(self, request: SourceUpstream, source: SourceNode) -> str:
        vendor = VENDORS[request.vendor] if request.vendor is not None else None
        base_url = shorten_address(request.base_url, request.dialect or (vendor.dialect if vendor else "openai_chat"))
        if vendor is not None and base_url in (vendor.base_url, f"{vendor.base_url}/v1"):
            base_url = None
        name = self._free_name(_stem(request, vendor, base_url))
        table = ("upstreams", name)
        self._draft.table(table, source)
        if vendor is not None and name != vendor.name:
            self._draft.set(table, "vendor", vendor.name, None)
        derived = complete_upstream(name, UpstreamConfig(vendor=request.vendor, base_url=base_url), {}).dialect
        if request.dialect is not None and request.dialect != derived:
            self._draft.set(table, "dialect", request.dialect, None)
        if base_url is not None:
            self._draft.set(table, "base_url", base_url, request.address_source)
        self._set_key(request, vendor, name, base_url)
        for header, (value, node) in request.headers.items():
            is_secret = any(True for _ in header_secrets({header: value}))
            text = self.credentials.refer(node, value, f"{name}_{header}") if is_secret else value
            self._draft.set((*table, "headers"), header, text, node)
        for (section, field), node in request.settings.items():
            self._draft.set((*table, section), field, node.value, node)
        return name

    def _set_key(self, request: SourceUpstream, vendor: Vendor | None, name: str, base_url: str | None) -> None:
        if request.key and request.key_source is not None:
            at_home = vendor is not None and base_url is None and bool(vendor.keys)
            wanted = vendor.keys[0].name if vendor is not None and at_home else f"{name}_API_KEY"
            key = self.credentials.refer(request.key_source, request.key, wanted)
            self._draft.set(("upstreams", name), "key", key, request.key_source)
        elif request.key_variable is not None:
            self._draft.set(("upstreams", name), "key", f"${{{request.key_variable}}}", None)

    def _free_name(self, stem: str) -> str:
        names = self._draft.names("upstreams")
        number, name = 1, stem
        while name in names:
            number += 1
            name = f"{stem}-{number}"
        return name


def _stem(request: SourceUpstream, vendor: Vendor | None, base_url: str | None) -> str:
    if vendor is not None and not request.keeps_label:
        return vendor.name
    if not request.keeps_label and is_loopback(_host(base_url or "")):
        return "local"
    clean = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in request.label
    )
    clean = clean.strip("._-") or "upstream"
    is_other = clean in VENDORS and (vendor is None or vendor.name != clean)
    return f"{clean}-compatible" if is_other else clean


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def vendor_at(url: str | None) -> str | None:
    """Return the vendor that operates this server, if any."""
    host = _host(url or "")
    return next(
        (v.name for v in VENDORS.values() if v.base_url and not v.is_local and host and _host(v.base_url) == host), None
    )


def dialect_of_address(url: str) -> str | None:
    """Return the dialect of an address that ends with the path of an endpoint."""
    ends = ((dialect, end) for dialect, known in _SUFFIXES.items() for end in known)
    return next((dialect for dialect, end in ends if url.rstrip("/").endswith(end)), None)


def shorten_address(url: str | None, dialect: str) -> str | None:
    """Remove the path of an endpoint from an address, if it has one. Returns the base URL."""
    if url is None:
        return None
    short = url.rstrip("/")
    for suffix in _SUFFIXES.get(dialect, ()):
        if short.endswith(suffix):
            return short.removesuffix(suffix).rstrip("/")
    return short
