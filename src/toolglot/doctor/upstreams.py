"""Check that an upstream is reachable, accepts the key, and has the models that the configuration names.

It is asked for its list of models, which is free everywhere. Nothing is shown that might repeat the key.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from toolglot.cli.parameters import count_noun
from toolglot.config.addresses import DEMO_URL, is_loopback
from toolglot.config.problems import did_you_mean
from toolglot.config.schema import Config
from toolglot.doctor.finding import Finding, fail, ok, warn
from toolglot.errors import ApiError, DecodeError
from toolglot.models import ModelInfo
from toolglot.routing import DEMO
from toolglot.upstream.transport import MAX_LIST_BYTES, Timeouts, TransportError, fetch
from toolglot.upstream.upstream import Upstream
from toolglot.upstream.vendors import VENDORS

CHECK_TIMEOUT = Timeouts(connect=5.0, first_byte=15.0, idle=15.0)
MAX_SHOWN_CHARS = 200
"""Maximum characters of an upstream's message to show."""

NOT_FOUND = {
    "pool": "try again: other requests are still running",
    "connect": "check that it is running and that the address is right (host, port, proxy)",
    "tls": "check that it uses https; set SSL_CERT_FILE for your own certificate",
    "timeout": "check the address: it accepts connections but does not respond",
    "reset": "check that it is an HTTP server and that http or https is right",
    "too_large": "check the address: the response is too long for a list of models",
}


class UpstreamCheck(Struct, frozen=True):
    """The result of asking an upstream for its models."""

    findings: tuple[Finding, ...]
    listed: tuple[ModelInfo, ...] | None = None
    """None if it has no list or returned none."""
    timed_out: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the listed models."""
        return tuple(model.name for model in self.listed or ())

    @property
    def reachable(self) -> bool:
        return all(finding.status != "fail" for finding in self.findings)


async def check_upstream(upstream: Upstream, timeouts: Timeouts = CHECK_TIMEOUT) -> UpstreamCheck:
    """Check reachability, authentication and models."""
    name = upstream.name
    if upstream.base_url == DEMO_URL:
        return UpstreamCheck((ok("upstream", "built in, always available", name),), (ModelInfo(name=DEMO),))
    if upstream.listed:
        place = f"{upstream.dialect.name} at {upstream.base_url}"
        told = f"{place}: not contacted: it has no list of models; {count_noun(len(upstream.listed), 'model')} known"
        return UpstreamCheck(
            (ok("upstream", told, upstream.name),), tuple(ModelInfo(name=model) for model in upstream.listed)
        )
    call = replace(upstream.call(upstream.dialect.listing.path, method="GET"), timeouts=timeouts)
    try:
        answer = await fetch(upstream.transport, call, MAX_LIST_BYTES)
    except TransportError as error:
        advice = NOT_FOUND[error.failure]
        if error.failure == "connect" and is_loopback(urlsplit(upstream.base_url).hostname or ""):
            advice = "start the server, or correct `base_url`"
        return UpstreamCheck((fail("upstream", str(error), advice, name),), timed_out=error.failure == "timeout")
    if not 200 <= answer.status < 300:
        error_told = upstream.dialect.decode_error(answer.status, answer.headers, answer.body)
        return UpstreamCheck((_refusal_finding(upstream, answer.status, error_told),))
    return _list_check(upstream, answer.body)


def _list_check(upstream: Upstream, body: bytes) -> UpstreamCheck:
    name, place = upstream.name, f"{upstream.dialect.name} at {upstream.base_url}"
    if body.lstrip()[:1] == b"<":
        advice = "the address is a website, not an API; most API addresses end in /v1"
        return UpstreamCheck((fail("upstream", f"{place} answers with a web page", advice, name),))
    try:
        models = tuple(upstream.dialect.listing.decode_models(body))
    except DecodeError:
        advice = f"check that it speaks {upstream.dialect.title}; `toolglot dialects` lists the others"
        return UpstreamCheck((warn("upstream", f"{place} answers, but not with a list of models", advice, name),))
    return UpstreamCheck((ok("upstream", f"{place}: {count_noun(len(models), 'model')}", name),), models)


def _refusal_finding(upstream: Upstream, status: int, error: ApiError) -> Finding:
    name, place = upstream.name, f"{upstream.dialect.name} at {upstream.base_url}"
    if status in (401, 403):
        vendor = VENDORS.get(upstream.name)
        variable = f" ({vendor.keys[0].name})" if vendor is not None and vendor.keys else ""
        what = "rejects the key" if upstream.key else "requires a key"
        return fail("upstream", f"{place} {what}: status {status}", f"set a valid one{variable}", name)
    if status in (404, 405, 501):
        version = "" if urlsplit(upstream.base_url).path.strip("/") else "; many addresses end in /v1"
        advice = f"if requests fail too, correct `base_url`{version}; --probe tries one"
        return warn("upstream", f"{place} has no list of models: status {status}", advice, name)
    if 300 <= status < 400:
        return fail("upstream", f"{place} redirects: status {status}", "use the address it redirects to", name)
    if status == 429:
        return warn("upstream", f"{place} has reached a rate limit: status 429", "wait, or raise the limit", name)
    said = safe_quote(error.message, upstream)
    return fail("upstream", f"{place} fails: status {status}: {said}", "check its log or status page", name)


def safe_quote(text: str, upstream: Upstream) -> str:
    """Return an upstream's message, shortened, without credentials that it may have repeated."""
    for secret in (upstream.key, *upstream.headers.values()):
        if secret:
            text = text.replace(secret, "(hidden)")
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def wanted_models(name: str, config: Config) -> list[str]:
    """Return the models of this upstream that the configuration names individually."""
    upstream = config.upstreams[name]
    named = [
        model.model or alias
        for alias, model in config.models.items()
        if model.upstream == name and "*" not in (model.model or alias)
    ]
    named += [upstream.default_model] if upstream.default_model else []
    named += [model for model in upstream.models if "*" not in model and "?" not in model]
    return list(dict.fromkeys(named))


def missing_models(name: str, wanted: Collection[str], models: Collection[str]) -> list[Finding]:
    """Report the models that the upstream does not list."""
    return [
        warn(
            "model",
            f"{model}: the upstream does not list it",
            did_you_mean(model, models) or "check the spelling and the key's access to it",
            name,
        )
        for model in wanted
        if models and model not in models
    ]
