"""The history policies of a configuration's sections, the most general first, each with its position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import asdict

from toolglot.config.build import RecordBuilder
from toolglot.config.problems import Path, field_name, one_of
from toolglot.config.schema import Config, UpstreamConfig
from toolglot.dialects import DIALECTS
from toolglot.passes.history_policy import CUT_TO, HistoryPolicy, Layer, merge_layers
from toolglot.passes.history_shorten import LEAST
from toolglot.routing import AUTO, Target
from toolglot.textcalls import ALIASES, FORMATS

OLDER_LIMITS = {"max_history_messages": "max_messages", "max_tool_results": "max_tool_results"}
"""Limits on the upstream itself, and their names in its section. They are older settings and cut exactly to the limit.
"""


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
    """Yield the settings in effect for a target, one line each, with the section that sets it."""
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
    """Return the section of a model; if the model was requested by its own name, the section of its alias."""
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


def check_histories(config: Config, builder: RecordBuilder) -> None:
    for path, policy in _policies(config):
        if policy.calls is not None:
            check_format(policy.calls, (AUTO,), (*path, "calls"), builder)
        if policy.result_bytes and policy.result_bytes < LEAST:
            told = f"a truncated result needs at least {LEAST} bytes: its start, its end and a line between them"
            builder.add_problem((*path, "result_bytes"), told, "0 means no limit")
    for name, upstream in config.upstreams.items():
        for older, field in OLDER_LIMITS.items():
            if getattr(upstream, older) is not None and getattr(upstream.history, field) is not None:
                told = f"`history.{field}` of this upstream sets the same limit; remove one of them"
                builder.add_problem(("upstreams", name, older), told)


def check_format(name: str, words: tuple[str, ...], path: Path, builder: RecordBuilder) -> None:
    """Check the name of a text format, or one of the words allowed instead."""
    if name not in {*words, *FORMATS, *ALIASES}:
        near = one_of(name.replace("-", "_"), (*words, *FORMATS))
        builder.add_problem(path, f"there is no text format `{name[:40]}`", near)


def _policies(config: Config) -> Iterator[tuple[Path, HistoryPolicy]]:
    yield ("history",), config.history
    for name, upstream in config.upstreams.items():
        yield ("upstreams", name, "history"), upstream.history
    for name, model in config.models.items():
        if isinstance(model.history, HistoryPolicy):
            yield ("models", name, "history"), model.history
