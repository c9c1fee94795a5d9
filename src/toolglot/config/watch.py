"""Whether files say something else than before. Asked now and then; it keeps no thread and no handle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

_Look: TypeAlias = tuple[int, int, int]
"""Time of the last change, size, inode: an editor may write another file in its place."""


class Watch:
    """Files, from now on."""

    def __init__(self, *paths: Path) -> None:
        self._files = {path: _File(path) for path in paths}

    def changed(self) -> bool:
        """True once for each change of what a file says. A file that is away for a moment has not changed."""
        changed = [file.changed() for file in self._files.values()]  # all of them are looked at
        return any(changed)

    def follow(self, paths: Iterable[Path]) -> None:
        """Watch these from now on, and no others; what is known of those among them stays known."""
        self._files = {path: self._files.get(path) or _File(path) for path in paths}


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._look = self._look_at()
        self._digest = self._read()

    def changed(self) -> bool:
        look = self._look_at()
        if look is None or look == self._look:
            return False
        digest = self._read()
        if digest is None:
            return False
        self._look = look
        changed, self._digest = digest != self._digest, digest
        return changed

    def _look_at(self) -> _Look | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> bytes | None:
        try:
            return hashlib.sha256(self.path.read_bytes()).digest()
        except OSError:
            return None
