"""Importer for claude-code-router: `config.json` (2.x), and the providers in the data that 3.x exports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from toolglot.config.addresses import is_loopback
from toolglot.config.documents import Document
from toolglot.config.importers.draft import Draft
from toolglot.config.importers.environment import escape
from toolglot.config.importers.source import ImportLog, NotTaken, SourceNode
from toolglot.config.importers.upstreams import SourceUpstream, UpstreamPool, dialect_of_address, vendor_at

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")

CLAUDE = "claude-*"
BACKGROUND = "claude-*haiku*"
"""Patterns of the models that Claude Code requests, and of the models for its background calls."""


class Transformer(Struct, frozen=True):
    """toolglot's equivalent of a transformer of the router."""

    dialect: str | None = None
    """The API of the provider."""
    is_built_in: bool = False
    """True if toolglot does the same without a setting, or does not need it."""
    reason: str = ""


TRANSFORMERS: Mapping[str, Transformer] = {
    "anthropic": Transformer("anthropic"),
    "gemini": Transformer("gemini"),
    "openai": Transformer("openai_chat"),
    "openai-responses": Transformer("openai_responses"),
    **dict.fromkeys(("deepseek", "openrouter", "groq", "cerebras", "reasoning"), Transformer(is_built_in=True)),
    "tooluse": Transformer(reason="toolglot does not force tool calls; a model without them gets tools as text"),
    "enhancetool": Transformer(reason="toolglot repairs or refuses broken calls: `bad_calls` and `rescue` of a model"),
    "cleancache": Transformer(reason="toolglot omits cache breakpoints for APIs without them"),
    "maxtoken": Transformer(reason="toolglot does not change the output limit that a client sends"),
    "maxcompletiontokens": Transformer(reason="toolglot does not change the output limit that a client sends"),
    "sampling": Transformer(reason="clients send their own parameters; toolglot sets no defaults"),
    "customparams": Transformer(reason="clients send their own parameters; toolglot sets no defaults"),
}

TYPES: Mapping[str, str] = {
    "openai_chat_completions": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic_messages": "anthropic",
    "gemini_generate_content": "gemini",
}
"""Names of a provider's API in 3.x, and toolglot's dialects."""

EXPORT = "claude-code-router-data-export"
"""`kind` of the file that 3.x exports; the configuration is in its member `config`."""

_NO_RULE = "there is no rule of this kind: choose the model by its name, as with `/model` in Claude Code"
_CODE = "toolglot runs no code of other gateways"

_SETTINGS_NOT_TAKEN = (
    NotTaken("Router.think", _NO_RULE),
    NotTaken("Router.longContext*", _NO_RULE),
    NotTaken("Router.webSearch", _NO_RULE),
    NotTaken("Router.image", _NO_RULE),
    NotTaken("Router.*", _NO_RULE),
    NotTaken("forceUseImageAgent", _NO_RULE),
    NotTaken("CUSTOM_ROUTER_PATH", _CODE),
    NotTaken("transformers*", _CODE),
    NotTaken("*.transformer.*[1]*", "toolglot has no setting for this option of a transformer"),
    NotTaken("*.transformer.*", "toolglot has no transformer of this kind; `quirks` describe what a model supports"),
    NotTaken("REWRITE_SYSTEM_PROMPT", "toolglot does not change system text"),
    NotTaken("PROXY_URL", "set HTTPS_PROXY in the environment that toolglot runs in"),
    NotTaken("LOG", "toolglot logs on standard error; `--quiet` logs errors only"),
    NotTaken("LOG_*", "toolglot logs on standard error; `log.level` is one of debug, info, warning, error"),
    NotTaken("StatusLine", "toolglot has no status line"),
    NotTaken("NON_INTERACTIVE_MODE", "toolglot needs no such setting"),
    NotTaken("profile*", "`toolglot launch AGENT` starts agents"),
    NotTaken("agent.mcpServers", "`mcp.files` reads files with `mcpServers`"),
    NotTaken("*.credentials", "one upstream has one key: add an upstream for each"),
)

NOT_TAKEN = (
    NotTaken("files", "toolglot does not read databases of claude-code-router"),
    *_SETTINGS_NOT_TAKEN,
    *(NotTaken(f"config.{row.pattern}", row.reason) for row in _SETTINGS_NOT_TAKEN if not row.pattern.startswith("*")),
)
"""Settings that are not imported, most specific first."""

_LEVELS = {"fatal": "error", "error": "error", "warn": "warning", "info": "info", "debug": "debug", "trace": "debug"}
_ADDRESSES = ("api_base_url", "baseUrl", "baseurl")
_KEYS = ("api_key", "apiKey", "apikey")


def convert_reference(text: str) -> str | None:
    """Convert `$NAME` and `${NAME}` to `${NAME}`."""
    pieces: list[str] = []
    end = 0
    for match in _VARIABLE.finditer(text):
        pieces += [escape(text[end : match.start()]), f"${{{match[1] or match[2]}}}"]
        end = match.end()
    return "".join([*pieces, escape(text[end:])])


def convert_claude_code_router(document: Document, log: ImportLog, draft: Draft) -> None:
    """Convert claude-code-router's file."""
    root = _settings(SourceNode(log, document, (), document.value))
    draft.set((), "discover", False, None, "claude-code-router serves only the providers of its file")
    pool = UpstreamPool(draft)
    upstreams = dict(_providers(root, pool, draft))
    _routes(root, upstreams, draft)
    _server(root, pool, draft)
    if (wait := root.number("API_TIMEOUT_MS")) is not None:
        for upstream in draft.names("upstreams"):
            draft.set(
                ("upstreams", upstream, "timeouts"), "first_byte", wait.with_number(wait.value / 1000).value, wait
            )


def _settings(document: SourceNode) -> SourceNode:
    """Return the settings in the document, which may be an export."""
    config = document.get("config")
    if not is_export(document.value) or config is None:
        return document
    for name in ("app", "appState", "exportedAt", "kind", "version"):
        if (about := document.get(name)) is not None:
            about.take()  # describes the export itself
    return config


def is_export(value: object) -> bool:
    return isinstance(value, dict) and value.get("kind") == EXPORT


def _providers(root: SourceNode, pool: UpstreamPool, draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield each provider's name with the name of its upstream."""
    providers = root.get("Providers") or root.get("providers")
    for provider in providers.elements() if providers is not None else ():
        name = provider.text("name")
        address = next((text for each in _ADDRESSES if (text := provider.text(each)) is not None), None)
        if not name or not address:
            provider.report("a provider needs `name` and `api_base_url`")
            continue
        if (enabled := provider.get("enabled")) is not None and enabled.value is False:
            provider.report("the provider is disabled")
            continue
        found = _find_dialect(provider, address)
        if found is None:
            continue
        key_node = next((node for each in _KEYS if (node := provider.get(each)) is not None), None)
        key = None if key_node is None else provider.text(str(key_node.path[-1]))
        request = SourceUpstream(
            label=name,
            keeps_label=True,
            vendor=vendor_at(address) or _local_vendor(name, address),
            dialect=found,
            base_url=address,
            address_source=next(node for each in _ADDRESSES if (node := provider.get(each)) is not None),
            key=key,
            key_source=key_node,
            headers=dict(_headers(provider)),
        )
        upstream = pool.add(request, provider)
        models = provider.get("models")
        for model in models.elements() if models is not None else ():
            if isinstance(model.value, str):
                model.take()
                draft.extend(("upstreams", upstream), "models", [model.value], models or model)
            else:
                model.report("expected text")
        yield name, upstream


def _headers(provider: SourceNode) -> Iterator[tuple[str, tuple[str, SourceNode]]]:
    headers = provider.get("extraHeaders")
    for name, node in headers.members().items() if headers is not None else ():
        text = headers.text(name) if headers is not None else None
        if text is not None:
            yield name.lower(), (text, node)


def _local_vendor(name: str, address: str) -> str | None:
    """Return the kind of local server that the provider is named after, if any."""
    known = {"ollama": "ollama", "lmstudio": "lmstudio", "lm-studio": "lmstudio", "vllm": "vllm"}
    host = re.sub(r"^https?://([^/:]+).*$", r"\1", address)
    return known.get(name.lower()) if is_loopback(host) else None


def _find_dialect(provider: SourceNode, address: str) -> str | None:
    """Find the provider's dialect: by the end of its address, otherwise by its type or transformers.

    Returns None if there is none, and reports the provider.
    """
    by_address = dialect_of_address(address)
    kind = provider.get("type")
    by_type = TYPES.get(kind.value, "") if kind is not None and isinstance(kind.value, str) else None
    if by_type == "":
        provider.report("toolglot serves none of the APIs of this provider")
        return None
    if kind is not None and by_type is not None:
        kind.take()
    by_transformer, is_known = _read_transformers(provider)
    if by_transformer is None and not is_known and by_address is None:
        provider.report("a transformer that toolglot does not have decides what this provider's API is")
        return None
    found = by_address or by_type or by_transformer
    if found is None:
        provider.note("the address has no API path, so the path of Chat Completions is added")
    return found or "openai_chat"


def _read_transformers(provider: SourceNode) -> tuple[str | None, bool]:
    """Return the dialect that a provider's transformers imply, and whether all of them are known.

    Reports transformers without an equivalent.
    """
    transformer = provider.get("transformer")
    dialect: str | None = None
    is_known = True
    for scope in transformer.members().values() if transformer is not None else ():
        for use in scope.elements() if scope.path[-1] == "use" else _uses(scope):
            named = use.elements()[0] if use.elements() else use
            row = TRANSFORMERS.get(named.value.lower()) if isinstance(named.value, str) else None
            if row is None:
                is_known = False
                use.report("toolglot has no transformer of this kind; `quirks` describe what a model supports")
            elif row.reason:
                use.report(row.reason)
            else:
                dialect = row.dialect or dialect
                named.take()  # its options, if any, remain and are reported
    return dialect, is_known


def _uses(scope: SourceNode) -> list[SourceNode]:
    """List the transformers in a scope."""
    uses = scope.get("use")
    return uses.elements() if uses is not None else []


def _routes(root: SourceNode, upstreams: Mapping[str, str], draft: Draft) -> None:
    router = root.get("Router")
    if router is None:
        return
    for route, pattern in (("default", CLAUDE), ("background", BACKGROUND)):
        node = router.get(route)
        target = _target(node, upstreams) if node is not None else None
        if node is None or target is None:
            continue
        upstream, model = target
        node.take()
        draft.table(("models", pattern), node)
        draft.set(("models", pattern), "upstream", upstream, None)
        draft.set(("models", pattern), "model", model, None)
        if route == "default":
            draft.set((), "default_upstream", upstream, node)
            draft.set(("upstreams", upstream), "default_model", model, node)
    _fallbacks(root, upstreams, draft)


def _fallbacks(root: SourceNode, upstreams: Mapping[str, str], draft: Draft) -> None:
    """Convert `fallback`, which has a list of models for each route."""
    fallback = root.get("fallback")
    for route, pattern in (("default", CLAUDE), ("background", BACKGROUND)):
        others = fallback.get(route) if fallback is not None else None
        for other in others.elements() if others is not None else ():
            target = _target(other, upstreams)
            if target is not None and ("models", pattern) in draft.tables:
                other.take()
                draft.extend(("models", pattern), "fallbacks", ["/".join(target)], other)


def _target(node: SourceNode, upstreams: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the upstream and model of `provider,model`. Reports values in any other form."""
    provider, comma, model = node.value.partition(",") if isinstance(node.value, str) else ("", "", "")
    upstream = upstreams.get(provider.strip())
    if not comma or not model.strip():
        node.report("expected `provider,model`")
    elif upstream is None:
        node.report("no imported provider has this name")
    else:
        return upstream, model.strip()
    return None


def _server(root: SourceNode, pool: UpstreamPool, draft: Draft) -> None:
    key, node = root.text("APIKEY"), root.get("APIKEY")
    if key and node is not None:
        draft.set(("server",), "keys", [pool.credentials.refer(node, key, "TOOLGLOT_KEY")], node)
    host, node = root.text("HOST"), root.get("HOST")
    if host and node is not None:
        if key or is_loopback(host):
            draft.set(("server",), "host", host, node)
        else:
            node.report("an address other than loopback needs a key; without one, claude-code-router ignores it, too")
    if (port := root.number("PORT")) is not None:
        draft.set(("server",), "port", port.value, port)
    level = root.get("LOG_LEVEL")
    if level is not None and isinstance(level.value, str) and level.value in _LEVELS:
        level.take()
        draft.set(("log",), "level", _LEVELS[level.value], level)
    if (log := root.get("LOG")) is not None and log.value is True:
        log.take()  # toolglot logs by default
