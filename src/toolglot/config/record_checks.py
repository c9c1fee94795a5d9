"""Checks of the recording settings: an unusable folder, patterns that cannot be searched."""

from __future__ import annotations

import os
import re
from pathlib import Path

from toolglot.config.addresses import is_replay, recordings_of
from toolglot.config.build import RecordBuilder
from toolglot.config.schema import Config, RecordConfig
from toolglot.recordings.format import SUFFIX
from toolglot.recordings.linear_regex import LinearPattern, PatternError

KEY_LABEL = re.compile(r"key-[1-9][0-9]*")


def directory_problem(directory: str) -> str | None:
    """Return the reason why recordings cannot be written to this folder; None if they can."""
    path = Path(directory).expanduser().absolute()
    try:
        there = next(each for each in (path, *path.parents) if each.exists())
    except OSError as error:
        return f"{directory[:200]} cannot be a directory: {error.strerror}"
    if not there.is_dir():
        return f"{there} is not a directory"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} is not writable"
    return None


def place_problem(name: str, url: str | None) -> str | None:
    """Return the reason why an upstream with this address cannot answer from recordings; None if it can, or if it is
    not a replay upstream.
    """
    place = recordings_of(url or "") if is_replay(url) else ""
    if not place or Path(place).expanduser().exists():
        return None
    return f"the upstream {name} answers from recordings in {place}, which does not exist"


def empty_places(config: Config) -> list[str]:
    """Return notes on folders that have no recordings yet."""
    told = []
    for name, upstream in config.upstreams.items():
        place = Path(recordings_of(upstream.base_url or "")).expanduser()
        if is_replay(upstream.base_url) and place.is_dir() and next(place.rglob(f"*{SUFFIX}"), None) is None:
            told.append(f"the upstream {name} answers from recordings in {place}, which has none yet")
    return told


def check_recording(record: RecordConfig, builder: RecordBuilder) -> None:
    """Add problems of the recording settings to the builder."""
    if record.directory is not None and (problem := directory_problem(record.directory)) is not None:
        builder.add_problem(("record", "directory"), problem)
    for number, label in enumerate(record.keys):
        if not KEY_LABEL.fullmatch(label):
            told = "expected a key's label, not the key itself"
            builder.add_problem(("record", "keys", number), told, "`key-1` is the first of `server.keys`")
    for number, text in enumerate(record.redact):
        try:
            LinearPattern(text)
        except PatternError as error:
            builder.add_problem(("record", "redact", number), str(error))
