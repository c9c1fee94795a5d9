"""The folder of recordings: files that their owner alone can read, as many and as large as they may be together.

A file is written under a name that says so, and renamed when it is whole. What a process that died has left behind
stays there and counts. When there is no room, the oldest file goes, but none that another process is writing: whoever
writes holds a lock, which goes away with the process.

Where several processes write to one folder, each looks now and then at what the others have written, so often that all
of them together write less in between than was kept free for it.
"""

from __future__ import annotations

import errno
import os
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from toolglot.recordings.format import PARTIAL, SUFFIX

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

MOST_OPEN = 64
"""Files that are open at the same time; the others are opened again when there is something to add. Connections need
the system's handles more."""

FREE = 8
"""Of so many files or bytes one is kept free where several processes write."""
BUSY = 3600.0
"""Seconds for which a file that is not whole may be another process's that is still writing."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MORE = _NEW & ~(os.O_CREAT | os.O_EXCL)


class Folder:
    """All methods but `__init__` raise `OSError`. `shares` is how many processes write there."""

    def __init__(self, path: Path, max_bytes: int, max_files: int, shares: int = 1) -> None:
        self.path = path
        self._shared = shares > 1
        self._max_bytes = max_bytes - (max_bytes // FREE if self._shared else 0)
        self._max_files = max_files - (max_files // FREE if self._shared else 0)
        self._look_after = max_bytes // FREE // shares, max_files // FREE // shares
        self._unseen = 0, 0  # bytes and files of this process since it has looked
        self._others = 0  # files that are being written elsewhere
        self._closed: OrderedDict[str, int] = OrderedDict()
        self._writing: dict[str, int] = {}
        self._handles: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def open(self) -> int:
        """Make the folder, or see what is in it; how many files there are that were never finished."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        return self._look()

    def _look(self) -> int:
        found: dict[str, int] = {}
        busy = 0
        self._others, self._unseen = 0, (0, 0)
        since = time.time() - BUSY
        for entry in os.scandir(self.path):
            if not entry.name.endswith((SUFFIX, SUFFIX + PARTIAL)) or not entry.is_file(follow_symlinks=False):
                continue
            if entry.name.removesuffix(PARTIAL) in self._writing:
                continue
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                recent = self._shared and status.st_mtime > since
                if entry.name.endswith(PARTIAL) and (recent or _is_locked(entry.path)):
                    self._others += 1
                    busy += status.st_size
                else:
                    found[entry.name] = status.st_size
        self._closed = OrderedDict(sorted(found.items()))  # names begin with the time
        self._bytes = sum(found.values()) + busy + sum(self._writing.values())
        return sum(name.endswith(PARTIAL) for name in found)

    def _note(self, size: int, files: int) -> None:
        """Look again after so much."""
        self._unseen = self._unseen[0] + size, self._unseen[1] + files
        if self._shared and any(unseen > after for unseen, after in zip(self._unseen, self._look_after, strict=True)):
            with suppress(FileNotFoundError):  # it is made again, if need be
                self._look()

    def _look_for_more(self) -> bool:
        """Others may have finished since; whether there is anything to remove."""
        if self._others:
            self._look()
        return bool(self._closed)

    def begin(self, name: str) -> bool:
        """A new file, to which `append` adds; False where there is no room for any."""
        self._note(0, 1)
        while len(self._closed) + len(self._writing) + self._others >= self._max_files:
            if not self._remove_oldest() and not self._look_for_more():
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
        self._note(len(data), 0)
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
        _lock(file)
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


def _lock(file: int) -> bool:
    """Tell others that this file is being written; False where one of them does."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # not every file system has locks
    return True


def _is_locked(path: str) -> bool:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _lock(file)
    finally:
        os.close(file)
