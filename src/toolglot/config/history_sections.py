"""The history policies of a configuration's sections, the most general first, each with its position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import asdict

from toolglot.config.problems import field_name
from toolglot.config.schema import Config, UpstreamConfig
from toolglot.dialects import DIALECTS
from toolglot.passes.history_policy import CUT_TO, HistoryPolicy, Layer, merge_layers
from toolglot.routing import Target

OLDER_LIMITS = {"max_history_messages": "max_messages", "max_tool_results": "max_tool_results"}
"""Limits on the upstream itself, and their names in its section. They are older than steps, and are exact."""


class HistorySection(NamedTuple):
    where: str
    layer: Layer


def upstream_sections(name: str, upstream: UpstreamConfig, for_all: HistoryPolicy) -> list[HistorySection]:
    """Return the sections that apply to all conversations with an upstream."""
    own = ("upstreams", name)
    dialect = DIALECTS.get(upstream.dialect or "")
    usual = HistoryPolicy() if dialect is None else HistoryPolicy(**dialect.upstream.default_history)
    older = [
        HistorySection(field_name((*own, field)), Layer(HistoryPolicy(**{limit: value}), exact=True))
        for field, limit in OLDER_LIMITS.items()
        if (value := getattr(upstream, field)) is not None
    ]
    return [
        HistorySection(f"the default for {upstream.dialect}", Layer(usual, exact=True)),
        HistorySection("history", Layer(for_all)),
        *older,
        HistorySection(field_name((*own, "history")), Layer(upstream.history)),
    ]


def explain_history(config: Config, target: Target) -> Iterator[str]:
    """Yield the settings in effect for a target, a line each, with the section that each comes from."""
    sections = upstream_sections(target.upstream, config.upstreams[target.upstream], config.history)
    if target.history is not None:
        own = HistoryPolicy(calls=target.history) if isinstance(target.history, str) else target.history
        sections.append(HistorySection(field_name(("models", _model_of(config, target), "history")), Layer(own)))
    settled = merge_layers(tuple(section.layer for section in sections))
    shares = {limit.name: limit.share for limit in settled.limits}
    for field, value in asdict(settled.merged).items():
        if value is None:
            continue
        where = next(each.where for each in reversed(sections) if getattr(each.layer.policy, field) is not None)
        yield f"{field} {_format_value(value)}{_cut(shares.get(field))}: {where}"
    if settled.merged.cut_to is None and CUT_TO in shares.values():
        yield f"cut_to {CUT_TO}: the default"


def _model_of(config: Config, target: Target) -> str:
    """Return the section of a model; if it was requested by its own name, that of the alias for it."""
    if target.alias is not None:
        return target.alias
    return next(
        name
        for name, model in config.models.items()
        if (model.upstream, model.history) == (target.upstream, target.history)
    )


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return repr(value) if isinstance(value, str) else str(value or "(no limit)")


def _cut(share: float | None) -> str:
    return " (cut exactly to the limit)" if share == 1 else ""
