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
from toolglot.upstream.fetch import MAX_LIST_BYTES, fetch
from toolglot.upstream.transport import Timeouts, TransportError
from toolglot.upstream.upstream import Upstream
from toolglot.upstream.vendors import VENDORS

CHECK_TIMEOUT = Timeouts(connect=5.0, first_byte=15.0, idle=15.0)
MAX_SHOWN_CHARS = 200
"""Characters of an upstream's message to show."""

NOT_FOUND = {
    "pool": "try again: other questions are still on their way",
    "connect": "is it running, and is its address right (host, port, proxy)?",
    "tls": "is it https there? A certificate of your own is named by SSL_CERT_FILE",
    "timeout": "is its address right? Something there takes connections and does not answer",
    "reset": "is it an HTTP server, and is it http or https as the address says?",
    "too_large": "is its address right? No list of models is so long",
}


class UpstreamCheck(Struct, frozen=True):
    """The result of asking an upstream for its models; None if it has no list."""

    findings: tuple[Finding, ...]
    models: tuple[str, ...] | None = None

    @property
    def reachable(self) -> bool:
        return all(finding.status != "fail" for finding in self.findings)


async def check_upstream(upstream: Upstream) -> UpstreamCheck:
    """Check reachability, authentication and models."""
    name = upstream.name
    if upstream.base_url == DEMO_URL:
        return UpstreamCheck((ok("upstream", "inside toolglot: always there", name),), ("demo",))
    if upstream.listed:
        place = f"{upstream.dialect.name} at {upstream.base_url}"
        told = f"{place}: not asked, as it has no list of models; {count_noun(len(upstream.listed), 'model')} known"
        return UpstreamCheck((ok("upstream", told, upstream.name),), upstream.listed)
    call = replace(upstream.call(upstream.dialect.listing.path, method="GET"), timeouts=CHECK_TIMEOUT)
    try:
        answer = await fetch(upstream.transport, call, MAX_LIST_BYTES)
    except TransportError as error:
        advice = NOT_FOUND[error.failure]
        if error.failure == "connect" and is_loopback(urlsplit(upstream.base_url).hostname or ""):
            advice = "start the server on this machine, or correct `base_url`"
        return UpstreamCheck((fail("upstream", str(error), advice, name),))
    if not 200 <= answer.status < 300:
        error_told = upstream.dialect.decode_error(answer.status, answer.headers, answer.body)
        return UpstreamCheck((_refusal_finding(upstream, answer.status, error_told),))
    return _list_check(upstream, answer.body)


def _list_check(upstream: Upstream, body: bytes) -> UpstreamCheck:
    name, place = upstream.name, f"{upstream.dialect.name} at {upstream.base_url}"
    if body.lstrip()[:1] == b"<":
        advice = "the address leads to a website and not to an API; those of most APIs end in /v1"
        return UpstreamCheck((fail("upstream", f"{place} answers with a web page", advice, name),))
    try:
        models = tuple(model.name for model in upstream.dialect.listing.decode_models(body))
    except DecodeError:
        advice = f"does it speak {upstream.dialect.title}? `toolglot dialects` tells the others"
        return UpstreamCheck((warn("upstream", f"{place} answers, but not with a list of models", advice, name),))
    return UpstreamCheck((ok("upstream", f"{place}: {count_noun(len(models), 'model')}", name),), models)


def _refusal_finding(upstream: Upstream, status: int, error: ApiError) -> Finding:
    name, place = upstream.name, f"{upstream.dialect.name} at {upstream.base_url}"
    if status in (401, 403):
        vendor = VENDORS.get(upstream.name)
        variable = f" ({vendor.keys[0].name})" if vendor is not None and vendor.keys else ""
        what = "refuses the key" if upstream.key else "wants a key"
        return fail("upstream", f"{place} {what}: status {status}", f"set a valid one{variable}", name)
    if status in (404, 405, 501):
        version = "" if urlsplit(upstream.base_url).path.strip("/") else "; many addresses end in /v1"
        advice = f"if requests fail too, correct `base_url`{version}; --probe tries one"
        return warn("upstream", f"{place} has no list of models: status {status}", advice, name)
    if 300 <= status < 400:
        return fail("upstream", f"{place} sends us elsewhere: status {status}", "use the address it leads to", name)
    if status == 429:
        return warn("upstream", f"{place} has a limit that is reached: status 429", "wait, or raise the limit", name)
    said = safe_quote(error.message, upstream)
    return fail("upstream", f"{place} fails: status {status}: {said}", "look into its own log or status page", name)


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
            did_you_mean(model, models) or "is it spelt right, and does the key have access to it?",
            name,
        )
        for model in wanted
        if models and model not in models
    ]
