"""Complete the configuration: with vendors' rows, discovered upstreams, and the demo.

A configuration file needs few settings, because the rest has defaults. They are added here, so that every upstream is
complete: it has a dialect, an address, and a credential if one is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict, replace

from toolglot.config.addresses import DEMO_URL, is_loopback, is_replay
from toolglot.config.schema import Config, PoolMemberConfig, UpstreamConfig
from toolglot.routing import DEMO, Alias, RoutedUpstream, Router
from toolglot.upstream.discovery import Discovery, discover, local_url
from toolglot.upstream.vendors import VENDORS, KeyVariable, Vendor


class Assembled(Struct, frozen=True):
    config: Config
    """Every upstream is complete, including `demo`."""
    told: tuple[str, ...] = ()
    """Lines for the user: discovered settings, unused ones with the reason, and missing ones."""


def assemble(
    config: Config, environ: Mapping[str, str], local: Discovery | None = None, *, own_port: int | None = None
) -> Assembled:
    """Return the completed configuration. `local` is the result of `probe_local`; None if it did not run."""
    upstreams = {name: complete_upstream(name, upstream, environ) for name, upstream in config.upstreams.items()}
    told = [line for name, upstream in upstreams.items() if (line := _missing_key(name, upstream))]
    models = config.models
    alone = _demo_only_note(config.discover, probed=local is not None)
    if config.discover:
        local = local or Discovery()
        vendors = {upstream.vendor for upstream in upstreams.values() if upstream.vendor}
        addresses = {upstream.base_url for upstream in upstreams.values()}
        found = discover(environ, own_port=own_port or config.server.port, configured={*vendors, *upstreams})
        told += [*found.found, *local.found]
        for name, upstream in {**found.upstreams, **local.upstreams}.items():
            if name in upstreams or upstream.base_url in addresses:
                told.append(f"{upstream.base_url}: not used: the configuration already has this upstream")
            else:
                upstreams[name] = complete_upstream(name, upstream, environ)
        models = {**{name: model for name, model in local.models.items() if model.upstream in upstreams}, **models}
    if not upstreams.keys() - {DEMO}:
        told.append(alone)
    upstreams.setdefault(DEMO, complete_upstream(DEMO, UpstreamConfig(), environ))
    return Assembled(replace(config, upstreams=upstreams, models=models), tuple(told))


def _demo_only_note(discovers: bool, *, probed: bool) -> str:
    """Return the note that only the demo is available, with the places that were searched for upstreams."""
    if not discovers:
        return "no upstream is configured and discovery is off: the demo answers for every model"
    if not probed:
        return "no API key found: the demo answers for every model, unless a local server is found at startup"
    return "no API key and no local server found: the demo answers for every model"


def find_vendor(name: str, upstream: UpstreamConfig) -> Vendor | None:
    """Return the upstream's vendor: the one it names, or the one it is named after."""
    if upstream.base_url == DEMO_URL:
        return VENDORS[DEMO]
    return VENDORS.get(upstream.vendor if upstream.vendor is not None else name)


def complete_upstream(name: str, upstream: UpstreamConfig, environ: Mapping[str, str]) -> UpstreamConfig:
    """Complete the upstream from its vendor's row."""
    headers = {header.lower(): value for header, value in upstream.headers.items()}
    dialect = None if upstream.dialect is None else upstream.dialect.replace("-", "_")
    key_header = None if upstream.key_header is None else upstream.key_header.lower()
    vendor = find_vendor(name, upstream)
    own_url = upstream.base_url or next((member.base_url for member in upstream.pool if member.base_url), None)
    if vendor is None:
        pool = _complete_pool(upstream, own_url, upstream.key, headers)
        return replace(upstream, base_url=own_url, headers=headers, dialect=dialect, key_header=key_header, pool=pool)
    base_url = upstream.base_url or _vendor_url(vendor, environ) or own_url
    dialect = dialect or _vendor_dialect(vendor, base_url)
    variable = _key_variable(vendor, environ) if upstream.base_url is None and upstream.key is None else None
    if key_header is None and vendor.keys:
        key_header = (variable or vendor.keys[0]).header
    key = environ[variable.name].strip() if variable else upstream.key
    return replace(
        upstream,
        vendor=vendor.name,
        dialect=dialect,
        base_url=base_url,
        key=key,
        key_header=key_header,
        headers=headers,
        pool=_complete_pool(upstream, base_url, key, headers),
        quirks={**vendor.quirks_of(dialect), **upstream.quirks},
    )


def _complete_pool(
    upstream: UpstreamConfig, base_url: str | None, key: str | None, headers: Mapping[str, str]
) -> tuple[PoolMemberConfig, ...]:
    """Complete the members from their upstream. A key from the environment is not sent to a member's own address."""
    return tuple(
        replace(
            member,
            name=member.name or str(number),
            key=member.key or (key if member.base_url in (None, base_url) else upstream.key),
            base_url=member.base_url or base_url,
            headers={**headers, **{header.lower(): value for header, value in member.headers.items()}},
        )
        for number, member in enumerate(upstream.pool, 1)
    )


def _vendor_url(vendor: Vendor, environ: Mapping[str, str]) -> str | None:
    if vendor.is_local:
        return local_url(vendor, environ)
    if vendor.base_url is not None:
        return vendor.base_url
    said = next((environ[name] for name in vendor.base_url_variables if environ.get(name)), None)
    return None if said is None else said.strip().rstrip("/").removesuffix(vendor.base_path) + vendor.base_path


def _vendor_dialect(vendor: Vendor, base_url: str | None) -> str:
    """Return the vendor's own dialect, unless the address belongs to a compatible server."""
    at_home = (
        vendor.base_url is None
        or is_replay(base_url)
        or urlsplit(base_url or "").hostname == urlsplit(vendor.base_url).hostname
    )
    own = vendor.dialect_at(base_url)
    return own if at_home else vendor.elsewhere or own


def _key_variable(vendor: Vendor, environ: Mapping[str, str]) -> KeyVariable | None:
    """Return the variable for the key. It is used only for the vendor's own address, so that a key is sent nowhere else
    by default.
    """
    return next((key for key in vendor.keys if environ.get(key.name, "").strip()), None)


def _missing_key(name: str, upstream: UpstreamConfig) -> str | None:
    vendor, headers = VENDORS.get(upstream.vendor or ""), upstream.headers
    if vendor is None or not vendor.keys or upstream.key or upstream.refresh_token:
        return None
    if upstream.pool and all(member.key for member in upstream.pool):
        return None
    if any("auth" in name or "key" in name for name in headers):
        return None
    if upstream.base_url == vendor.base_url:
        return f"upstreams.{name}: no key: set {vendor.keys[0].name}, or `key`"
    if upstream.base_url is None or is_replay(upstream.base_url):
        return None
    if is_loopback(urlsplit(upstream.base_url).hostname or ""):
        return None
    own = f"{vendor.keys[0].name} goes to {vendor.title}'s own address only"
    return f"upstreams.{name}: no key is sent to its `base_url`: {own}; set `key`"


def make_router(config: Config) -> Router:
    """Create the router for an assembled configuration."""
    places = {
        name: RoutedUpstream(
            name=name,
            models=upstream.models,
            owned=VENDORS[upstream.vendor].models if upstream.vendor in VENDORS else (),
            default_model=upstream.default_model,
            quirks=upstream.quirks,
        )
        for name, upstream in config.upstreams.items()
    }
    aliases = {name: Alias(**asdict(model)) for name, model in config.models.items()}
    return Router(aliases, places, config.default_upstream, strict=config.strict)
