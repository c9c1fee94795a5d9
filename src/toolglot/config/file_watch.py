"""Detect changes of files by polling; without a thread or a handle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

_FileStamp: TypeAlias = tuple[int, int, int]
"""Modification time, size, inode: an editor may replace the file."""


class FileWatch:
    """Watches files for changes."""

    def __init__(self, *paths: Path) -> None:
        self._files = {path: _WatchedFile(path) for path in paths}

    def changed(self) -> bool:
        """Return True once for each change of content. A file that is missing or empty for a moment has not changed:
        many editors write into a file that they have emptied."""
        changed = [file.changed() for file in self._files.values()]  # all of them are looked at
        return any(changed)

    def follow(self, paths: Iterable[Path]) -> None:
        """Watch only these files from now on. The known content of files that stay is kept."""
        self._files = {path: self._files.get(path) or _WatchedFile(path) for path in paths}


class _WatchedFile:
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

    def _look_at(self) -> _FileStamp | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> bytes | None:
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        return hashlib.sha256(content).digest() if content else None
