"""Whether a file says something else than before. Asked now and then; it keeps no thread and no handle."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeAlias

_Look: TypeAlias = tuple[int, int, int]
"""Time of the last change, size, inode: an editor may write another file in its place."""


class Watch:
    """One file, from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._look = self._look_at()
        self._digest = self._read()

    def changed(self) -> bool:
        """True once for each change of what the file says. A file that is away for a moment has not changed."""
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
