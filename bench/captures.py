"""Captured requests of real agents: a folder with one a file, `{"path": "/v1/messages", "body": {…}}`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from toolglot.server import routes


class _File(msgspec.Struct):
    path: str
    body: msgspec.Raw = msgspec.Raw(b"null")


class Captured(NamedTuple):
    name: str
    dialect: str
    body: bytes
    model: str | None


def captured(folder: Path, names: Sequence[str]) -> Iterator[Captured]:
    """The generating requests of a folder, written as compactly as SDKs write them: those whose file names begin with
    one of `names`, or all if there are none."""
    for path in sorted(folder.glob("*.json")):
        try:
            file = msgspec.json.decode(path.read_bytes(), type=_File)
        except msgspec.MsgspecError:
            continue
        match = routes.find("POST", file.path.partition("?")[0])
        if not isinstance(match, routes.Match) or match.dialect is None or match.route.action != "generate":
            continue
        if not names or path.stem.startswith(tuple(names)):
            body = msgspec.json.format(bytes(file.body), indent=-1)
            yield Captured(path.stem, match.dialect, body, match.values.get("model"))
