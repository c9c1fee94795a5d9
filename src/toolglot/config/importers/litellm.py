"""Importer for LiteLLM: `config.yaml`, with the files that it includes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path as FilePath

from msgspec.structs import replace

from toolglot.config.documents import Document
from toolglot.config.importers.draft import Draft
from toolglot.config.importers.environment import NAME, escape
from toolglot.config.importers.litellm_rows import (
    LEVELS,
    MODES,
    NO_VENDOR,
    NOT_TAKEN,
    PRICES,
    PROVIDERS,
    RETRY_NAMES,
    Provider,
)
from toolglot.config.importers.source import ImportLog, SourceNode
from toolglot.config.importers.upstreams import SourceUpstream, UpstreamPool
from toolglot.config.problems import ConfigError, field_name
from toolglot.upstream.vendors import VENDORS

__all__ = ["NOT_TAKEN", "convert_litellm", "convert_reference"]

_ENVIRONMENT = "os.environ/"
_SETTINGS = ("router_settings", "litellm_settings")
_MAX_FILES = 100

ReadDocument = Callable[[FilePath], Document]


def convert_reference(text: str) -> str | None:
    """Convert `os.environ/NAME` to `${NAME}`."""
    if not text.startswith(_ENVIRONMENT):
        return escape(text)
    name = text.removeprefix(_ENVIRONMENT)
    return f"${{{name}}}" if NAME.fullmatch(name) else None


def convert_litellm(document: Document, read: ReadDocument, log: ImportLog, draft: Draft) -> list[Document]:
    """Convert LiteLLM's file. Returns it with the files that it includes.

    Raises: ConfigError: an included file cannot be read.
    """
    sections, documents = _merge_includes(document, read, log)
    draft.set((), "discover", False, None, "LiteLLM serves only the models of its file")
    converter = _Converter(sections, log, draft)
    converter.convert()
    return documents


def _merge_includes(
    document: Document, read: ReadDocument, log: ImportLog
) -> tuple[dict[str, list[SourceNode]], list[Document]]:
    """Merge the sections of all files. Lists are concatenated; for other values, the last file wins."""
    documents: list[Document] = []
    sections: dict[str, list[SourceNode]] = {}
    pending = [document]
    while pending:
        current = pending.pop(0)
        if current.file in {each.file for each in documents}:
            continue
        documents.append(current)
        root = SourceNode(log, current, (), current.value)
        for name, node in root.members().items():
            if name == "include":
                pending += _included(node, read)
            elif isinstance(node.value, list):
                sections.setdefault(name, []).append(node)
            else:
                for before in sections.get(name, ()):
                    before.report(f"not used: the same section in {current.file} replaces this one")
                sections[name] = [node]
        if len(documents) > _MAX_FILES:
            raise ConfigError([document.problem(("include",), "too many files")])
    return sections, documents


def _included(node: SourceNode, read: ReadDocument) -> Iterator[Document]:
    if not isinstance(node.value, list):
        node.report("expected a list of files")
        return
    node.take()
    folder = FilePath(node.document.file).parent
    for element in node.elements():
        if not isinstance(element.value, str):
            element.report("expected the name of a file")
            continue
        try:
            yield read(folder / element.value)
        except ConfigError as error:
            problems = [element.document.problem(element.path, problem.message) for problem in error.problems]
            raise ConfigError([*problems, *error.problems]) from None


class _Converter:
    def __init__(self, sections: Mapping[str, list[SourceNode]], log: ImportLog, draft: Draft) -> None:
        self._sections = sections
        self._log = log
        self._draft = draft
        self._pool = UpstreamPool(draft)
        self._targets: dict[str, list[tuple[float, str, str, SourceNode]]] = {}
        """Deployments by model name: order, upstream, the model's name at the upstream, and the source."""

        self._groups: dict[str, str] = {}
        """The model that each alias refers to."""
        self._levels_set: dict[tuple[str, str], SourceNode] = {}
        """Settings that apply to every upstream."""

    def convert(self) -> None:
        credentials = {
            name: values
            for node in self._all("credential_list")
            if (name := node.text("credential_name")) and (values := node.get("credential_values"))
        }
        for deployment in self._all("model_list"):
            self._deployment(deployment, credentials)
        self._write_models()
        for settings in self._settings():
            self._aliases(settings)
        for settings in self._settings():
            self._fallbacks(settings)
            self._levels(settings)
        for alias, group in self._groups.items():
            if (shared := self._draft.tables[("models", group)].fields.get("fallbacks")) and shared.source is not None:
                self._draft.extend(("models", alias), "fallbacks", shared.value, shared.source)
        self._server()

    def _all(self, section: str) -> list[SourceNode]:
        """Return the elements of a list, from all files."""
        return [element for node in self._sections.get(section, ()) for element in node.elements()]

    def _settings(self) -> list[SourceNode]:
        return [node for name in _SETTINGS for node in self._sections.get(name, ())]

    # Models

    def _deployment(self, deployment: SourceNode, credentials: Mapping[str, SourceNode]) -> None:
        params, info = deployment.get("litellm_params"), deployment.get("model_info")
        name, model = deployment.get("model_name"), params.get("model") if params is not None else None
        if params is None or name is None or model is None or not isinstance(name.value, str):
            deployment.report("a model needs `model_name` and `litellm_params.model`")
            return
        if not isinstance(model.value, str):
            model.report("expected text")
            return
        mode = info.get("mode") if info is not None else None
        if mode is not None and mode.value not in MODES:
            deployment.report("toolglot serves chat models only: this one has another `mode`")
            return
        credential = None
        if (named := params.text("litellm_credential_name")) is not None:
            credential = credentials.get(named)
            if credential is None:
                deployment.report("there is no credential of this name in `credential_list`")
                return
        found = _find_provider(model.value, params)
        if isinstance(found, str):
            deployment.report(found)
            return
        label, provider, dialect, own_name = found
        name.take()
        model.take()
        if (custom := params.get("custom_llm_provider")) is not None:
            custom.take()
        if mode is not None:
            mode.take()
        upstream = self._pool.add(_upstream_request(label, provider, dialect, params, credential), deployment)
        order = params.number("order")
        target = (order.value if order is not None else 0, upstream, own_name, deployment)
        self._targets.setdefault(name.value, []).append(target)
        if info is not None:
            self._model_info(name.value, info)
        for source in (params, info):
            if source is not None and "*" not in own_name:
                self._prices(f"{upstream}/{own_name}", source)

    def _model_info(self, name: str, info: SourceNode) -> None:
        for fields, field in (
            (("max_input_tokens",), "context_window"),
            (("max_output_tokens", "max_tokens"), "max_output_tokens"),
        ):
            for each in fields:
                if (number := info.number(each)) is not None:
                    self._draft.set_once(("models", name), field, number.value, number)

    def _prices(self, model: str, source: SourceNode) -> None:
        for name, field in PRICES.items():
            if (price := source.number(name)) is not None:
                self._draft.table(("prices", model), source)
                million = price.with_number(round(price.value * 1_000_000, 9))
                self._draft.set_once(("prices", model), field, million.value, million)

    def _write_models(self) -> None:
        for name, targets in self._targets.items():
            targets.sort(key=lambda target: target[0])
            table = self._draft.table(("models", name), targets[0][3])
            table.source = targets[0][3]
            rest = dict(table.fields)
            table.fields.clear()
            _, upstream, model, first = targets[0]
            self._draft.set(("models", name), "upstream", upstream, None)
            if model != name:
                self._draft.set(("models", name), "model", model, None)
            for _, other, other_model, deployment in targets[1:]:
                self._draft.extend(("models", name), "fallbacks", [f"{other}/{other_model}"], deployment)
                deployment.note(
                    f"this deployment is a fallback of {field_name(first.path)}; "
                    "to balance load, make them a `pool` of one upstream"
                )
            table.fields.update(rest)

    # Settings of all models

    def _aliases(self, settings: SourceNode) -> None:
        aliases = settings.get("model_group_alias")
        for alias, node in aliases.members().items() if aliases is not None else ():
            group = node if isinstance(node.value, str) else node.get("model")
            known = None if group is None else self._draft.tables.get(("models", str(group.value)))
            if group is None or known is None:
                node.report("there is no model of this name")
                continue
            if alias in self._targets or alias in self._groups:
                node.report("not used: a model has this name")
                continue
            group.take()
            if (hidden := node.get("hidden")) is not None and isinstance(hidden.take(), bool):
                self._draft.set(("models", alias), "hidden", hidden.value, hidden)
            self._draft.table(("models", alias), node).source = node
            self._groups[alias] = str(group.value)
            for field, value in known.fields.items():
                if field != "fallbacks":
                    self._draft.set(("models", alias), field, value.value, value.source)
            if "model" not in known.fields:
                self._draft.set(("models", alias), "model", group.value, node)

    def _fallbacks(self, settings: SourceNode) -> None:
        for entry in fallbacks.elements() if (fallbacks := settings.get("fallbacks")) is not None else ():
            for name, others in entry.members().items():
                groups = [name] if name != "*" else self._draft.names("models")
                self._add_fallbacks(groups, others)
        if (default := settings.get("default_fallbacks")) is not None:
            self._add_fallbacks(self._draft.names("models"), default)

    def _add_fallbacks(self, groups: list[str], others: SourceNode) -> None:
        known = self._draft.names("models")
        for other in others.elements():
            if not isinstance(other.value, str):
                other.report("a fallback cannot have its own parameters; define a model for it")
            elif not any(fnmatchcase(other.value, name) for name in known):
                other.report("there is no model of this name")
            else:
                other.take()
                for group in groups:
                    if group not in known:
                        other.report(f"there is no model `{group}` to fall back from")
                    elif group != other.value:
                        self._draft.extend(("models", group), "fallbacks", [other.value], other)

    def _levels(self, settings: SourceNode) -> None:
        """Read the numbers that apply to every upstream, unless a deployment has its own."""
        is_router = settings.path[-1] == "router_settings"
        for (router_name, other_name), (section, field) in LEVELS.items():
            node = settings.number(router_name if is_router else other_name)
            if node is not None:
                self._set_everywhere(section, field, node)
        if (retries := settings.number("num_retries")) is not None:
            self._set_everywhere("retries", "attempts", retries.with_number(retries.value + 1))

    def _set_everywhere(self, section: str, field: str, node: SourceNode) -> None:
        before = self._levels_set.setdefault((section, field), node)
        if before is not node:
            node.note(f"not used: {field_name(before.path)} comes first")
            return
        for upstream in self._draft.names("upstreams"):
            self._draft.set(("upstreams", upstream, section), field, node.value, node)

    def _server(self) -> None:
        for general in self._sections.get("general_settings", ()):
            if (key := general.text("master_key")) is not None:
                node = general.get("master_key")
                assert node is not None
                reference = self._pool.credentials.refer(node, key, "TOOLGLOT_KEY")
                self._draft.set(("server",), "keys", [reference], node)
            if (size := general.number("max_request_size_mb")) is not None:
                self._draft.set(("limits",), "body", int(size.value * 1024 * 1024), size)
            if (count := general.number("global_max_parallel_requests")) is not None:
                self._draft.set(("limits",), "concurrent_requests", count.value, count)
        for settings in self._sections.get("litellm_settings", ()):
            self._switches(settings)

    def _switches(self, settings: SourceNode) -> None:
        drop = settings.get("drop_params")
        if drop is not None and isinstance(drop.value, bool) and not drop.take():
            self._draft.set((), "strict", True, drop)
        if (logs := settings.get("json_logs")) is not None and logs.value is True:
            self._draft.set(("log",), "format", "json", logs)
            logs.take()
        for name, value, level in (("set_verbose", True, "debug"), ("turn_off_message_logging", True, None)):
            node = settings.get(name)
            if node is not None and isinstance(node.value, bool):
                node.take()  # These are toolglot's defaults: False, and no messages in the log
                if node.value is value and level is not None:
                    self._draft.set(("log",), "level", level, node)
        if (telemetry := settings.get("telemetry")) is not None and telemetry.value is False:
            telemetry.take()  # toolglot sends no telemetry


def _find_provider(model: str, params: SourceNode) -> tuple[str, Provider, str | None, str] | str:
    """Return the provider's label, its row, a dialect that the name requires, and the model's own name.

    Returns the reason instead if the model can have no upstream.
    """
    custom = params.get("custom_llm_provider")
    first, slash, rest = model.partition("/")
    if custom is not None and isinstance(custom.value, str):
        label, name = custom.value, rest if first == custom.value and slash else model
    elif slash:
        label, name = first, rest
    elif model == "*":
        return "the name decides the provider: add an upstream for each provider and leave this model out"
    elif params.get("api_base") is not None:
        label, name = "openai", model
    else:
        label, name = _provider_by_name(model), model
    provider = PROVIDERS.get(label)
    if provider is None:
        return NO_VENDOR
    for prefix, dialect in (("responses/", "openai_responses"), ("o_series/", None), ("gpt5_series/", None)):
        if name.startswith(prefix) and provider.vendor in ("openai", "azure"):
            return label, provider, dialect, name.removeprefix(prefix)
    return label, provider, None, name


def _provider_by_name(model: str) -> str:
    """Return LiteLLM's provider for a name without one. LiteLLM assigns Gemini's names to Vertex AI."""
    for vendor in VENDORS.values():
        if any("/" not in pattern and fnmatchcase(model, pattern) for pattern in vendor.models):
            return "vertex_ai" if vendor.name == "gemini" else vendor.name
    return ""


def _upstream_request(
    label: str, provider: Provider, dialect: str | None, params: SourceNode, credential: SourceNode | None
) -> SourceUpstream:
    sources = [node for node in (params, credential) if node is not None]
    base, base_node = _first_text(sources, ("api_base", "base_url"))
    key, key_node = _first_text(sources, ("api_key",))
    is_own = base is not None or provider.address is not None
    address = base if base is not None else provider.address
    if address is not None and provider.address_end:
        address = _with_end(address, provider.address_end)
    request = SourceUpstream(
        label=label,
        vendor=provider.vendor,
        dialect=dialect or provider.dialect,
        base_url=address,
        address_source=base_node,
        key=key,
        key_source=key_node,
        key_variable=provider.key_variable,
        headers=_headers(sources),
        settings=_settings(params),
    )
    if is_own and provider.is_any_server and not _is_vendors(address, provider):
        if key is None and provider.key_variable is None:
            variable = VENDORS[provider.vendor or ""].keys[0].name
            params.note(f"no key is sent to this address: LiteLLM sends {variable} there; set `key` if it needs one")
        own = "openai_chat" if provider.vendor == "openai" else VENDORS[provider.vendor or ""].dialect
        return replace(request, vendor=None, dialect=dialect or own)
    return request


def _with_end(address: str, end: str) -> str:
    """Add the path of the API to the address of an Azure resource, which may already have part of it."""
    short = re.sub(r"/openai(?:/v1|/deployments/[^/]*+.*+)?$", "", address.rstrip("/"))
    return f"{short}{end}"


def _is_vendors(address: str | None, provider: Provider) -> bool:
    own = VENDORS[provider.vendor or ""].base_url or ""
    return address is not None and address.rstrip("/").removesuffix("/v1") == own.removesuffix("/v1")


def _first_text(sources: list[SourceNode], names: tuple[str, ...]) -> tuple[str | None, SourceNode | None]:
    for source in sources:
        for name in names:
            if (text := source.text(name)) is not None:
                return text, source.get(name)
    return None, None


def _headers(sources: list[SourceNode]) -> dict[str, tuple[str, SourceNode]]:
    found: dict[str, tuple[str, SourceNode]] = {}
    for source in sources:
        for container in ("extra_headers", "headers"):
            node = source.get(container)
            for name in node.members() if node is not None else ():
                assert node is not None
                text, member = node.text(name), node.get(name)
                if (
                    text is not None
                    and member is not None
                    and found.setdefault(name.lower(), (text, member))[0] != text
                ):
                    member.note("not used: the header is a duplicate")
        organization, member = _first_text([source], ("organization",))
        if organization is not None and member is not None:
            found.setdefault("openai-organization", (organization, member))
    return found


def _settings(params: SourceNode) -> dict[tuple[str, str], SourceNode]:
    found = {place: node for (name, _), place in LEVELS.items() if (node := params.number(name)) is not None}
    for name in RETRY_NAMES:
        if (retries := params.number(name)) is not None:
            attempts = retries.with_number(retries.value + 1)
            if found.setdefault(("retries", "attempts"), attempts) is not attempts:
                retries.note(f"not used: {RETRY_NAMES[0]} comes first")
    return found
