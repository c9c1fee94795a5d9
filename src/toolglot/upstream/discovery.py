"""Upstreams found without configuration: keys in the environment, and local servers that answer.

`discover` depends on the environment alone. `probe_local` asks the usual loopback ports, and the address in
`OLLAMA_HOST`, for the models served there. It contacts nothing else, and never the gateway itself. Both report what
they found and what they did not use, with the reason. No line contains a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from toolglot.config.addresses import address_problem, leads_to
from toolglot.config.schema import ModelConfig, UpstreamConfig
from toolglot.dialects import DEFAULT
from toolglot.errors import DecodeError
from toolglot.models import ModelInfo
from toolglot.upstream.transport import (
    MAX_LIST_BYTES,
    FetchedAnswer,
    Timeouts,
    Transport,
    TransportError,
    UpstreamCall,
    fetch,
)
from toolglot.upstream.vendors import LOCAL_SERVERS, UNUSED_VARIABLES, VENDORS, VERSION, KeyVariable, Vendor
from toolglot.wire import json
from toolglot.wire.openai_models import decode_models

PROBE_TIMEOUT = 0.2
MAX_SHOWN = 3
SHARED_PORTS = frozenset({8000, 8080})
"""Ports used by many kinds of servers: the port alone does not identify the server."""


class Discovery(Struct, frozen=True):
    """Discovered upstreams, as configuration, and lines that describe them to a person."""

    upstreams: dict[str, UpstreamConfig] = {}
    found: tuple[str, ...] = ()
    models: dict[str, ModelConfig] = {}
    """Context windows of the models that report them."""


def discover(environ: Mapping[str, str], *, own_port: int | None = None, configured: Collection[str] = ()) -> Discovery:
    """Find upstreams for which the environment has a key or an address, except vendors that are configured already."""
    upstreams: dict[str, UpstreamConfig] = {}
    found: list[str] = []
    for vendor in VENDORS.values():
        if vendor.only_configured and vendor.name not in configured:
            found += [_unused_key_line(vendor, key) for key in vendor.keys if environ.get(key.name)]
        elif not vendor.is_local and vendor.name not in configured:
            upstream, lines = _from_environment(vendor, environ, own_port)
            found += lines
            if upstream is not None:
                upstreams[vendor.name] = upstream
    found += [f"{name}: not used: {why}" for name, why in UNUSED_VARIABLES.items() if environ.get(name)]
    return Discovery(upstreams, tuple(found))


def _unused_key_line(vendor: Vendor, key: KeyVariable) -> str:
    return f"{key.name}: not used: {vendor.title} is used only where the configuration has an upstream `{vendor.name}`"


def _from_environment(
    vendor: Vendor, environ: Mapping[str, str], own_port: int | None
) -> tuple[UpstreamConfig | None, list[str]]:
    lines = [
        f"{key.name}: not used: it is empty" for key in vendor.keys if key.name in environ and not environ[key.name]
    ]
    keys = [key for key in vendor.keys if environ.get(key.name, "").strip()]
    variable = next((name for name in vendor.base_url_variables if environ.get(name)), None)
    base_url = vendor.base_url
    if variable is not None and is_own_address(environ[variable], own_port):
        lines.append(f"{variable}: not used: it leads to this gateway")
        lines += [f"{key.name}: not used: it is for this gateway" for key in keys if key.for_gateways]
        keys = [key for key in keys if not key.for_gateways]
        variable = None
    if variable is not None:
        base_url = _append_path(environ[variable].strip().rstrip("/"), vendor.base_path)
        if problem := address_problem(base_url):
            # The key was meant for that address, so it is not sent anywhere else.
            return None, [*lines, f"{variable}: {vendor.name} is not used: {problem}"]
    if not keys and (variable is None or not vendor.keys):
        return None, lines
    if base_url is None:
        needed = " or ".join(vendor.base_url_variables)
        return None, [*lines, f"{keys[0].name}: not used: {needed} must hold the address"]
    return _upstream(vendor, environ, keys, base_url, variable, lines)


def _upstream(
    vendor: Vendor,
    environ: Mapping[str, str],
    keys: list[KeyVariable],
    base_url: str,
    variable: str | None,
    lines: list[str],
) -> tuple[UpstreamConfig, list[str]]:
    at_home = urlsplit(base_url).hostname == urlsplit(vendor.base_url or base_url).hostname
    own = vendor.dialect_at(base_url)
    dialect = own if at_home else vendor.elsewhere or own
    named = vendor.header_variables.items() if at_home else ()
    upstream = UpstreamConfig(
        vendor=vendor.name,
        dialect=dialect,
        base_url=base_url,
        key=environ[keys[0].name].strip() if keys else None,
        key_header=keys[0].header if keys else None,
        headers={header: environ[name] for header, name in named if environ.get(name)},
    )
    sources = " and ".join(name for name in (keys[0].name if keys else None, variable) if name)
    lines.append(f"{sources}: upstream {vendor.name} ({dialect} at {base_url})")
    lines += [f"{key.name}: not used: {keys[0].name} comes first" for key in keys[1:]]
    return upstream, lines


def is_own_address(url: str, own_port: int | None) -> bool:
    return address_problem(url) is None and leads_to(url, own_port)


def _append_path(base_url: str, path: str) -> str:
    return base_url if base_url.endswith(path) else base_url + path


async def probe_local(
    environ: Mapping[str, str],
    *,
    own_port: int | None = None,
    transport: Transport | None = None,
    timeout: float = PROBE_TIMEOUT,
    servers: tuple[Vendor, ...] = LOCAL_SERVERS,
) -> Discovery:
    """Probe all local servers concurrently, without a proxy, and return those that answer."""
    asked = {vendor.name: (vendor, local_url(vendor, environ)) for vendor in servers}
    asked = {name: (vendor, url) for name, (vendor, url) in asked.items() if not is_own_address(url, own_port)}
    own = [f"{VERSION.sub('', url)}{vendor.own_path}" for vendor, url in asked.values() if vendor.own_path]
    lists = [f"{openai_url(url)}/models" for _, url in asked.values()]
    fetched = await _fetch_all([*lists, *own], transport, timeout)
    answers = fetched[: len(lists)]
    native = {url for url, answer in zip(own, fetched[len(lists) :], strict=True) if _is_version(answer)}
    upstreams: dict[str, UpstreamConfig] = {}
    models: dict[str, ModelConfig] = {}
    found: list[str] = []
    for (vendor, url), answer in zip(asked.values(), answers, strict=True):
        if answer is None:
            said = next((name for name in vendor.base_url_variables if environ.get(name)), None)
            start = f"; start it: `{vendor.start}`" if vendor.start else ""
            found += [f"{said}: not used: no server answers at {url}{start}"] if said else []
            continue
        name, upstream, line = _describe_server(vendor, url, answer, upstreams, native)
        found += [line] if line else []
        if upstream is not None:
            upstreams[name] = upstream
            models = {**_context_windows(name, _parse_models(answer) or ()), **models}
    return Discovery(upstreams, tuple(found), models)


def local_url(vendor: Vendor, environ: Mapping[str, str]) -> str:
    """Return the server's usual address, or the one from its variable in any of the forms that Ollama accepts. It ends
    in a version if the vendor's usual address does."""
    said = next((environ[name].strip() for name in vendor.base_url_variables if environ.get(name)), None)
    if said is None:
        return vendor.base_url or ""
    scheme, _, rest = said.rpartition("://")
    host, colon, port = rest.partition("/")[0].rpartition(":")
    if not colon or port.endswith("]"):
        host, port = rest.partition("/")[0], ""
    # A server listens on 0.0.0.0, but clients cannot connect to it there.
    host = "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host
    version = VERSION.search(vendor.base_url or "")
    address = f"{scheme or 'http'}://{host}:{port or {'https': 443}.get(scheme, vendor.port)}"
    return address if version is None else address + version[0]


def openai_url(url: str) -> str:
    """Return the OpenAI endpoint of a local server. All local servers have one, so it identifies the kind of server."""
    return url if VERSION.search(url) else f"{url}/v1"


def _describe_server(
    vendor: Vendor, url: str, answer: FetchedAnswer, taken: Mapping[str, UpstreamConfig], native: Collection[str]
) -> tuple[str, UpstreamConfig | None, str | None]:
    """Return the name, the upstream and a line for the server that answered; no line if it is not a model server.
    `native`: the vendor-specific paths that answered."""
    if any(name.startswith("x-toolglot") for name in answer.headers):
        return "", None, f"{url}: not used: another toolglot"
    if answer.status in (401, 403):
        return "", None, f"{url}: not used: it requires a key; configure it as an upstream"
    listed = _parse_models(answer)
    if listed is None:
        return "", None, None
    kind = _identify_vendor(vendor, listed, answer.headers)
    port = urlsplit(url).port
    title = kind.title if kind else "a model server"
    if not listed:
        return "", None, f"{title} at {url}: not used: it has no models"
    name = kind.name if kind else f"local-{port}"
    name = f"{name}-{port}" if name in taken else name
    models = tuple(dict.fromkeys(model.name for model in listed))
    root = VERSION.sub("", url)
    is_native = kind is not None and (kind.versioned is None or f"{root}{kind.own_path}" in native)
    dialect = kind.dialect if kind is not None and is_native else DEFAULT
    url = root if is_native and kind is not None and kind.versioned else openai_url(url)
    upstream = UpstreamConfig(
        vendor=kind.name if kind else None,
        dialect=dialect,
        base_url=url,
        models=models,
        default_model=models[0] if len(models) == 1 else None,
    )
    shown = ", ".join(models[:MAX_SHOWN]) + (f" and {len(models) - MAX_SHOWN} more" if len(models) > MAX_SHOWN else "")
    return name, upstream, f"{title} at {url}: upstream {name} ({shown})"


def _is_version(answer: FetchedAnswer | None) -> bool:
    """Return whether a server reported its version."""
    try:
        told = None if answer is None or answer.status != 200 else json.decode(answer.body)
    except DecodeError:
        return False
    return isinstance(told, dict) and isinstance(told.get("version"), str)


def _parse_models(answer: FetchedAnswer) -> list[ModelInfo] | None:
    """Parse a list of models; None if the answer is not one."""
    try:
        return decode_models(answer.body) if answer.status == 200 else None
    except DecodeError:
        return None


def _identify_vendor(vendor: Vendor, listed: list[ModelInfo], headers: Mapping[str, str]) -> Vendor | None:
    """Identify the vendor by the server's reply, otherwise by its port unless that port is shared."""
    owners = {row.owned_by: row for row in VENDORS.values() if row.owned_by}
    owner = next((owners[model.owner] for model in listed if model.owner in owners), None)
    if owner is None and "llama.cpp" in headers.get("server", ""):
        owner = VENDORS["llamacpp"]
    return owner or (None if vendor.port in SHARED_PORTS else vendor)


def _context_windows(name: str, listed: Sequence[ModelInfo]) -> dict[str, ModelConfig]:
    """Return the context windows that vLLM, SGLang and llama.cpp report for their models."""
    return {
        model.name: ModelConfig(upstream=name, context_window=model.context_window)
        for model in listed
        if model.context_window
    }


async def _fetch_all(urls: Sequence[str], transport: Transport | None, timeout: float) -> list[FetchedAnswer | None]:
    """Fetch all URLs; None for each that does not answer in time."""
    if transport is not None:
        return list(await asyncio.gather(*(_fetch_one(url, transport, timeout) for url in urls)))
    # Imported here because loading the configuration does not need it.
    from toolglot.upstream.http_client import HttpTransport

    transport = HttpTransport(len(urls), {})
    try:
        return await _fetch_all(urls, transport, timeout)
    finally:
        await transport.close()


async def _fetch_one(url: str, transport: Transport, timeout: float) -> FetchedAnswer | None:
    call = UpstreamCall(
        url=url,
        headers={"accept": "application/json"},
        method="GET",
        timeouts=Timeouts(connect=timeout, first_byte=timeout, idle=timeout),
    )
    try:
        async with asyncio.timeout(timeout):
            return await fetch(transport, call, MAX_LIST_BYTES)
    except (TransportError, TimeoutError):
        return None
