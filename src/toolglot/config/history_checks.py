"""Checks of history policies beyond their types: formats that must exist, senseless limits, duplicates."""

from __future__ import annotations

from collections.abc import Iterator

from toolglot.config.build import RecordBuilder
from toolglot.config.history_sections import OLDER_LIMITS
from toolglot.config.problems import Path, one_of
from toolglot.config.schema import Config
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.passes.history_shorten import LEAST
from toolglot.routing import AUTO
from toolglot.textcalls import ALIASES, FORMATS


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
