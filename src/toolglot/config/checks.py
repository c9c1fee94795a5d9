"""Checks beyond the types of the schema: names that must exist, addresses, patterns, circular fallbacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import get_type_hints
from urllib.parse import urlsplit

from toolglot.config.addresses import DEMO_URL, address_problem, leads_to
from toolglot.config.assemble import assemble, complete_upstream, find_vendor, make_router
from toolglot.config.build import RecordBuilder
from toolglot.config.history_sections import check_format, check_histories
from toolglot.config.mcp_checks import check_servers
from toolglot.config.price_checks import check_prices
from toolglot.config.problems import Path, Problem, did_you_mean, one_of
from toolglot.config.record_checks import check_recording, place_problem
from toolglot.config.schema import (
    POSTGRES,
    REDIS,
    YEAR,
    Config,
    ModelConfig,
    PoolMemberConfig,
    ServerConfig,
    TeamConfig,
    UpstreamConfig,
)
from toolglot.config.worker_checks import store_problem
from toolglot.dialects import DIALECTS
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.routing import AUTO, DEMO, NATIVE
from toolglot.server.security import UnsafeServerError, check_bind
from toolglot.textcalls import ALIASES, FORMATS
from toolglot.upstream.discovery import discover
from toolglot.upstream.transport import Timeouts
from toolglot.upstream.vendors import LOCAL_SERVERS, VENDORS

MAX_STARS = 4
_HOST = re.compile(
    r"\*|(?:\*\.)?[A-Za-z0-9_][A-Za-z0-9_.-]*(?::\d+)?|\[[0-9A-Fa-f:.]+\](?::\d+)?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+"
)
_ORIGIN = re.compile(r"\*|[A-Za-z][A-Za-z0-9+.-]*://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?/?")
"""Browser extensions have an origin with their own scheme."""
_UPSTREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]+")


def check(config: Config, builder: RecordBuilder) -> list[str]:
    """Add problems to the builder. Returns notes on settings that look wrong but may be right."""
    _server(config.server, builder)
    for name, upstream in config.upstreams.items():
        _upstream(name, upstream, builder)
    known = _known_upstreams(config, builder)
    for name, model in config.models.items():
        path: Path = ("models", name)
        _pattern(name, path, builder)
        _reference(model.upstream, (*path, "upstream"), known, config.discover, builder)
        for place, text in _texts(model):
            if text.count("*") > name.count("*"):
                builder.add_problem((*path, *place), f"more `*` than in the name {name}")
        _formats(model, path, builder)
    if config.default_upstream is not None:
        _reference(config.default_upstream, ("default_upstream",), known, config.discover, builder)
    check_prices(config, builder)
    check_servers(config, builder)
    check_histories(config, builder)
    for number, pattern in enumerate(config.record.models):
        _pattern(pattern, ("record", "models", number), builder)
    check_recording(config.record, builder)
    _team(config.team, builder)
    _fallback_cycles(config, builder)
    return [*_no_effect(config, builder), *_only_warps(config, builder), *_fallbacks(config, known, builder)]


def _no_effect(config: Config, builder: RecordBuilder) -> list[str]:
    """Report settings of earlier versions that no longer have an effect."""
    if config.transport != "aiohttp":
        return []
    return [str(builder.document.problem(("transport",), "this setting has no effect: there is only one HTTP client"))]


def check_serving(config: Config, builder: RecordBuilder) -> list[Problem]:
    """Return problems that the command line may resolve: it may set another host, another port and a key."""
    server, problem = config.server, builder.document.problem
    problems = []
    try:
        check_bind(server, needs_key=config.team.enabled)
    except UnsafeServerError as error:
        problems.append(problem(("server", "host"), str(error).rstrip(".")))
    if told := store_problem(config, server.workers):
        problems.append(problem(("store", "path"), told, "or use `serve --store FILE`"))
    for name, upstream in config.upstreams.items():
        completed = complete_upstream(name, upstream, builder.environ)
        urls: list[tuple[Path, str]] = [(("base_url",), completed.base_url or "")]
        urls += [(("pool", number, "base_url"), each.base_url or "") for number, each in enumerate(upstream.pool)]
        for field, url in urls:
            path: Path = ("upstreams", name, *field)
            if not url or address_problem(url) is not None:  # from a variable: reported at startup
                continue
            parts = urlsplit(url)
            if leads_to(url, server.port) or (parts.hostname, parts.port) == (server.host.lower(), server.port):
                told = f"this points to the gateway itself, which listens on port {server.port}"
                problems.append(problem(path, told))
            if told := place_problem(name, url):
                hint = "a relative path starts at the directory where toolglot was started"
                problems.append(problem(path, told, hint))
    return problems


def _team(team: TeamConfig, builder: RecordBuilder) -> None:
    for field, address, schemes in (("database", team.database, POSTGRES), ("limits", team.limits, REDIS)):
        if address and "://" in address and not address.startswith(schemes):
            builder.add_problem(("team", field), f"expected a file, or a URL that begins with {' or '.join(schemes)}")


def _server(server: ServerConfig, builder: RecordBuilder) -> None:
    for number, key in enumerate(server.keys):
        path: Path = ("server", "keys", number)
        if any(character.isspace() or not character.isprintable() for character in key):
            builder.add_problem(path, "a key must not contain spaces or line breaks")
        elif key in server.keys[:number]:
            builder.add_problem(path, "duplicate key")
    for number, host in enumerate(server.hosts):
        if not _HOST.fullmatch(host):
            near = None if address_problem(host) else urlsplit(host).hostname
            builder.add_problem(("server", "hosts", number), "expected a host name", _instead(near, "box.example"))
    for number, origin in enumerate(server.origins):
        if not _ORIGIN.fullmatch(origin):
            found = _ORIGIN.match(origin)
            near = found[0].rstrip("/") if found else f"https://{origin}" if _HOST.fullmatch(origin) else None
            told = "expected an origin: a scheme, a host and an optional port"
            builder.add_problem(("server", "origins", number), told, _instead(near, "https://app.example"))


def _instead(near: str | None, example: str) -> str:
    return f"did you mean `{near}`?" if near else f"such as `{example}`"


def _upstream(name: str, upstream: UpstreamConfig, builder: RecordBuilder) -> None:
    path: Path = ("upstreams", name)
    if name == DEMO and (upstream.base_url or DEMO_URL, upstream.vendor or DEMO) != (DEMO_URL, DEMO):
        field = "base_url" if upstream.base_url else "vendor"
        builder.add_problem((*path, field), "`demo` is reserved for the demo; choose another name")
    if not _UPSTREAM_NAME.fullmatch(name):
        builder.add_problem(path, "an upstream's name may contain only letters, digits, `.`, `_` and `-`")
    if upstream.vendor is not None and upstream.vendor not in VENDORS:
        suggestion = did_you_mean(upstream.vendor, VENDORS) or "without a vendor, set `dialect` and `base_url`"
        builder.add_problem((*path, "vendor"), f"there is no vendor `{upstream.vendor[:40]}`", suggestion)
    if upstream.dialect is not None and upstream.dialect.replace("-", "_") not in DIALECTS:
        told = f"there is no dialect `{upstream.dialect[:40]}`"
        builder.add_problem((*path, "dialect"), told, one_of(upstream.dialect.replace("-", "_"), DIALECTS))
    if upstream.base_url is not None and (problem := address_problem(upstream.base_url)):
        builder.add_problem((*path, "base_url"), problem)
    _headers(upstream, path, builder)
    _pool(name, upstream, path, builder)
    _refreshing(upstream, path, builder)
    for number, model in enumerate(upstream.models):
        _pattern(model, (*path, "models", number), builder)
    for field in get_type_hints(Timeouts):
        seconds = getattr(upstream.timeouts, field)
        if not 0 < seconds <= YEAR:
            builder.add_problem((*path, "timeouts", field), "expected seconds, more than 0")
    if builder.is_right(path):
        _check_complete(name, upstream, builder)


def _only_warps(config: Config, builder: RecordBuilder) -> Iterator[str]:
    """Warn about settings that differ from their defaults and only affect Warp upstreams."""
    for name, upstream in config.upstreams.items():
        if complete_upstream(name, upstream, builder.environ).dialect in (WARP, None):
            continue
        for field in ("warp_history", "disable_warp_tools"):
            if getattr(upstream, field) != getattr(UpstreamConfig(), field):
                told = "no effect: this upstream's dialect is not `warp`"
                yield str(builder.document.problem(("upstreams", name, field), told))


def _pool(name: str, upstream: UpstreamConfig, path: Path, builder: RecordBuilder) -> None:
    """Check the members of a pool: names and addresses, and that no two of them are the same."""
    if upstream.pool and upstream.refresh_token:
        builder.add_problem((*path, "pool"), "`pool` and `refresh_token` exclude each other")
    names: set[str] = set()
    origins: set[object] = set()
    for number, member in enumerate(upstream.pool):
        place: Path = (*path, "pool", number)
        if member.base_url is not None and (problem := address_problem(member.base_url)):
            builder.add_problem((*place, "base_url"), problem)
        if member.name is not None and not _UPSTREAM_NAME.fullmatch(member.name):
            builder.add_problem((*place, "name"), "a name may contain only letters, digits, `.`, `_` and `-`")
        title = member.name or str(number + 1)
        if title in names:
            builder.add_problem((*place, "name"), f"another member has the name `{title[:40]}`")
        origin = (member.base_url, member.key, *sorted(member.headers.items()))
        if origin in origins and builder.is_right(place):
            builder.add_problem(place, "another member has the same key, address and headers", "use `weight` instead")
        names.add(title)
        origins.add(origin)
        _headers(member, place, builder)


def _headers(upstream: UpstreamConfig | PoolMemberConfig, path: Path, builder: RecordBuilder) -> None:
    names: list[tuple[Path, str]] = [(("headers", name), name) for name in upstream.headers]
    if isinstance(upstream, UpstreamConfig) and upstream.key_header is not None:
        names.append((("key_header",), upstream.key_header))
    for place, name in names:
        if not _HEADER_NAME.fullmatch(name):
            builder.add_problem((*path, *place), "invalid header name")
    values: list[tuple[Path, str]] = [(("headers", name), value) for name, value in upstream.headers.items()]
    values += [(("key",), upstream.key)] if upstream.key is not None else []
    for where, value in values:
        if not _HEADER_VALUE.fullmatch(value):
            builder.add_problem(
                (*path, *where), "invalid header value: it contains a line break or another control character"
            )


def _refreshing(upstream: UpstreamConfig, path: Path, builder: RecordBuilder) -> None:
    """Check the refresh settings: both values are needed, and the URL must be valid."""
    for given, needed in (("refresh_token", "refresh_key"), ("refresh_key", "refresh_token")):
        if getattr(upstream, given) and not getattr(upstream, needed) and builder.is_right((*path, needed)):
            builder.add_problem((*path, given), f"`{needed}` is missing: both are needed")
    if problem := address_problem(upstream.refresh_url):
        builder.add_problem((*path, "refresh_url"), problem)


def _check_complete(name: str, upstream: UpstreamConfig, builder: RecordBuilder) -> None:
    """Check that no setting is missing that a vendor's row cannot supply."""
    path: Path = ("upstreams", name)
    vendor = find_vendor(name, upstream)
    made = complete_upstream(name, upstream, builder.environ)
    missing = [field for field in ("dialect", "base_url") if getattr(made, field) is None]
    if not missing:
        return
    told = " and ".join(f"`{field}`" for field in missing) + (" is missing" if len(missing) == 1 else " are missing")
    if vendor is not None:
        builder.add_problem(path, told, f"{vendor.title} has no address shared by all customers")
    else:
        builder.add_problem(path, told, did_you_mean(name, VENDORS) or "or name a `vendor`")


def _pattern(name: str, path: Path, builder: RecordBuilder) -> None:
    if not name or any(character.isspace() or not character.isprintable() for character in name):
        builder.add_problem(path, "a model name must not be empty or contain spaces")
    elif name.count("*") > MAX_STARS:
        builder.add_problem(path, f"a pattern has at most {MAX_STARS} `*`")
    elif "**" in name:
        builder.add_problem(path, "one `*` already matches any text")


def _texts(model: ModelConfig) -> Iterator[tuple[Path, str]]:
    """Return texts in which `*` may stand for the matched part of the name."""
    if model.model is not None:
        yield ("model",), model.model
    for number, fallback in enumerate(model.fallbacks):
        yield ("fallbacks", number), fallback


def _formats(model: ModelConfig, path: Path, builder: RecordBuilder) -> None:
    """Check the names of text formats, and the words that are allowed instead."""
    said: list[tuple[str, object, tuple[str, ...]]] = [
        ("tools", model.tools, (AUTO, NATIVE)),
        ("rescue", model.rescue, (AUTO,)),
        ("history", model.history, (AUTO,)),
    ]
    for field, name, words in said:
        if isinstance(name, str):
            check_format(name, words, (*path, field), builder)
    if model.rescue and model.tools in {*FORMATS, *ALIASES}:
        told = f"no effect with `tools = {model.tools}`: all calls of this model are text"
        builder.add_problem((*path, "rescue"), told, "it applies only to models with native calls")


def _known_upstreams(config: Config, builder: RecordBuilder) -> set[str]:
    """Return the upstreams in the file, valid or not, and those that may be discovered."""
    written = builder.document.value.get("upstreams")
    known = {DEMO, *(written if isinstance(written, dict) else ())}
    if config.discover:
        known |= {server.name for server in LOCAL_SERVERS} | discover(builder.environ).upstreams.keys()
    return known


def _reference(name: str, path: Path, known: set[str], discovers: bool, builder: RecordBuilder) -> None:
    if name in known or re.fullmatch(r"local-\d+", name):
        return
    vendor = VENDORS.get(name)
    if vendor is not None and vendor.keys:
        suggestion = (f"set {vendor.keys[0].name}, or " if discovers else "") + f"write an upstream `{name}`"
    else:
        suggestion = one_of(name, sorted(known))
    builder.add_problem(path, f"there is no upstream `{name[:40]}`", suggestion)


def _fallback_cycles(config: Config, builder: RecordBuilder) -> None:
    """Find models that are fallbacks of their own fallbacks. Patterns that match their own fallbacks are not cycles:
    routing uses no pattern twice on the way to a fallback."""
    for name in config.models:
        way = _find_cycle(name, config.models)
        if way is not None:
            builder.add_problem(("models", name, "fallbacks"), f"this is a cycle: {' -> '.join(way)}")


def _find_cycle(name: str, models: Mapping[str, ModelConfig]) -> tuple[str, ...] | None:
    waiting: list[tuple[str, ...]] = [(name,)]
    seen: set[str] = set()
    while waiting:
        way = waiting.pop()
        for fallback in models[way[-1]].fallbacks:
            if fallback == name:
                return (*way, name)
            if fallback in models and fallback not in seen:
                seen.add(fallback)
                waiting.append((*way, fallback))
    return None


def _fallbacks(config: Config, known: set[str], builder: RecordBuilder) -> list[str]:
    """Report fallbacks that no upstream serves; as a note if a local server may still serve them."""
    notes: list[str] = []
    routes = make_router(assemble(config, builder.environ).config)
    for name, model in config.models.items():
        for number, fallback in enumerate(model.fallbacks):
            path: Path = ("models", name, "fallbacks", number)
            if "*" in fallback or fallback in config.models or fallback.partition("/")[0] in known:
                continue
            if routes.claim_fallback(fallback, frozenset({name})) is None:
                near = routes.nearest(fallback)
                suggestion = f"did you mean `{near[0]}`?" if near else None
                told = f"no upstream serves `{fallback[:40]}`"
                if config.discover:
                    notes.append(str(builder.document.problem(path, f"{told}, unless a local server does", suggestion)))
                else:
                    builder.add_problem(path, told, suggestion)
    return notes
