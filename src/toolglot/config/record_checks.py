"""What is wrong with the settings for recordings: a folder that cannot be used, patterns that cannot be searched."""

from __future__ import annotations

import os
import re
from pathlib import Path

from toolglot.config.build import Builder
from toolglot.config.schema import RecordConfig
from toolglot.recordings.patterns import Pattern, PatternError

_LABEL = re.compile(r"key-[1-9][0-9]*")


def directory_problem(directory: str) -> str | None:
    """Why recordings cannot be written to a folder of this name; None when they can."""
    path = Path(directory).expanduser().absolute()
    try:
        there = next(each for each in (path, *path.parents) if each.exists())
    except OSError as error:
        return f"{directory[:200]} cannot be a folder: {error.strerror}"
    if not there.is_dir():
        return f"{there} is not a folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"nothing can be written to {there}"
    return None


def check_recording(record: RecordConfig, builder: Builder) -> None:
    """Adds to the builder's problems."""
    if record.directory is not None and (problem := directory_problem(record.directory)) is not None:
        builder.tell(("record", "directory"), problem)
    for number, label in enumerate(record.keys):
        if not _LABEL.fullmatch(label):
            told = "expected the label of a key, never the key itself"
            builder.tell(("record", "keys", number), told, "`key-1` is the first of `server.keys`")
    for number, text in enumerate(record.redact):
        try:
            Pattern(text)
        except PatternError as error:
            builder.tell(("record", "redact", number), str(error))
