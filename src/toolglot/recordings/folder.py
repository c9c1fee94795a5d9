"""The folder of recordings: files that their owner alone can read, as many and as large as they may be together.

A file is written under a name that says so, and renamed when it is whole. What a process that died has left behind
stays there and counts. When there is no room, the oldest file goes.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from toolglot.recordings.format import PARTIAL, SUFFIX

MOST_OPEN = 64
"""Files that are open at the same time; the others are opened again when there is something to add. Connections need
the system's handles more."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MORE = _NEW & ~(os.O_CREAT | os.O_EXCL)


class Folder:
    """All methods but `__init__` raise `OSError`."""

    def __init__(self, path: Path, max_bytes: int, max_files: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._closed: OrderedDict[str, int] = OrderedDict()
        self._writing: dict[str, int] = {}
        self._handles: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def open(self) -> int:
        """Make the folder, or see what is in it; how many files there are that were never finished."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        found: dict[str, int] = {}
        for entry in os.scandir(self.path):
            if entry.name.endswith((SUFFIX, SUFFIX + PARTIAL)) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_size
        self._closed = OrderedDict(sorted(found.items()))  # names begin with the time
        self._bytes = sum(found.values())
        return sum(name.endswith(PARTIAL) for name in found)

    def begin(self, name: str) -> bool:
        """A new file, to which `append` adds; False where there is no room for any."""
        while len(self._closed) + len(self._writing) >= self._max_files:
            if not self._remove_oldest():
                return False
        try:
            file = os.open(self.path / (name + PARTIAL), _NEW, 0o600)
        except FileNotFoundError:  # somebody has tidied up, folder and all
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self.path / (name + PARTIAL), _NEW, 0o600)
        self._writing[name] = 0
        self._keep(name, file)
        return True

    def append(self, name: str, data: bytes, *, anyway: bool = False) -> bool:
        """Add to a file at once, so that it is there even if this process dies; False where there is no room."""
        while self._bytes + len(data) > self._max_bytes:
            if not self._remove_oldest():
                if not anyway:
                    return False
                break
        file = self._handles.get(name)
        if file is None:
            file = os.open(self.path / (name + PARTIAL), _MORE)
            self._keep(name, file)
        else:
            self._handles.move_to_end(name)
        view = memoryview(data)
        while view:
            written = os.write(file, view)
            self._writing[name] += written
            self._bytes += written
            view = view[written:]
        return True

    def finish(self, name: str) -> None:
        """The file is whole."""
        self._close(name)
        os.rename(self.path / (name + PARTIAL), self.path / name)
        self._closed[name] = self._writing.pop(name)

    def give_up(self, name: str) -> bool:
        """The file stays as far as it was written; whether anything was."""
        with suppress(OSError):
            self._close(name)
        size = self._writing.pop(name, None)
        if size:
            self._closed[name + PARTIAL] = size
        elif size is not None:
            with suppress(OSError):
                os.unlink(self.path / (name + PARTIAL))
        return bool(size)

    def _keep(self, name: str, file: int) -> None:
        self._handles[name] = file
        while len(self._handles) > MOST_OPEN:
            _, oldest = self._handles.popitem(last=False)
            os.close(oldest)

    def _close(self, name: str) -> None:
        if (file := self._handles.pop(name, None)) is not None:
            os.close(file)

    def _remove_oldest(self) -> bool:
        if not self._closed:
            return False
        name, size = self._closed.popitem(last=False)
        with suppress(FileNotFoundError):
            os.unlink(self.path / name)
        self._bytes -= size
        return True
