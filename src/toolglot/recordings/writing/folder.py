"""The folder of recordings: files that only their owner can read, limited in total number and size.

A file is written under a partial name and renamed when it is complete. Files of a dead process stay and count. When
there is no room, the oldest file is removed, but never a file that another process is writing: a writer holds a lock,
which is released when its process ends.

If several processes write to one folder, each rescans it often enough that all of them together write less in between
than the reserved space.
"""

from __future__ import annotations

import errno
import os
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from toolglot.recordings.format import PARTIAL_SUFFIX, SUFFIX

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

MAX_OPEN = 64
"""Maximum open files; the others are reopened to append. This leaves file handles for connections."""

FREE_SHARE = 8
"""If several processes write, one in this many files or bytes is kept free."""
BUSY_SECONDS = 3600.0
"""Seconds for which an incomplete file may belong to another process that is still writing."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MORE = _NEW & ~(os.O_CREAT | os.O_EXCL)


class RecordingFolder:
    """All methods but `__init__` raise `OSError`. `shares` is the number of processes that write there."""

    def __init__(self, path: Path, max_bytes: int, max_files: int, shares: int = 1) -> None:
        self.path = path
        self._shared = shares > 1
        self._max_bytes = max_bytes - (max_bytes // FREE_SHARE if self._shared else 0)
        self._max_files = max_files - (max_files // FREE_SHARE if self._shared else 0)
        self._look_after = max_bytes // FREE_SHARE // shares, max_files // FREE_SHARE // shares
        self._unseen = 0, 0  # bytes and files of this process since the last scan
        self._others = 0  # files that other processes are writing
        self._closed: OrderedDict[str, int] = OrderedDict()
        self._writing: dict[str, int] = {}
        self._handles: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def open(self) -> int:
        """Create the folder, or scan it. Returns the number of files that were never finished."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        return self._scan()

    def _scan(self) -> int:
        found: dict[str, int] = {}
        busy = 0
        self._others, self._unseen = 0, (0, 0)
        since = time.time() - BUSY_SECONDS
        for entry in os.scandir(self.path):
            if not entry.name.endswith((SUFFIX, SUFFIX + PARTIAL_SUFFIX)) or not entry.is_file(follow_symlinks=False):
                continue
            if entry.name.removesuffix(PARTIAL_SUFFIX) in self._writing:
                continue
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                recent = self._shared and status.st_mtime > since
                if entry.name.endswith(PARTIAL_SUFFIX) and (recent or _is_locked(entry.path)):
                    self._others += 1
                    busy += status.st_size
                else:
                    found[entry.name] = status.st_size
        self._closed = OrderedDict(sorted(found.items()))  # names begin with the time
        self._bytes = sum(found.values()) + busy + sum(self._writing.values())
        return sum(name.endswith(PARTIAL_SUFFIX) for name in found)

    def _note(self, size: int, files: int) -> None:
        """Count written data, and rescan after a limit."""
        self._unseen = self._unseen[0] + size, self._unseen[1] + files
        if self._shared and any(unseen > after for unseen, after in zip(self._unseen, self._look_after, strict=True)):
            with suppress(FileNotFoundError):  # it is created again if necessary
                self._scan()

    def _rescan(self) -> bool:
        """Scan the folder again, because other processes may have finished files. Returns whether there is anything to
        remove."""
        if self._others:
            self._scan()
        return bool(self._closed)

    def begin(self, name: str) -> bool:
        """Create a file for `append`; False if there is no room."""
        self._note(0, 1)
        while len(self._closed) + len(self._writing) + self._others >= self._max_files:
            if not self._remove_oldest() and not self._rescan():
                return False
        try:
            file = os.open(self.path / (name + PARTIAL_SUFFIX), _NEW, 0o600)
        except FileNotFoundError:  # the folder was removed
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self.path / (name + PARTIAL_SUFFIX), _NEW, 0o600)
        self._writing[name] = 0
        self._note_closed(name, file)
        return True

    def append(self, name: str, data: bytes, *, anyway: bool = False) -> bool:
        """Append to a file at once, so that the data survives this process; False if there is no room."""
        self._note(len(data), 0)
        while self._bytes + len(data) > self._max_bytes:
            if not self._remove_oldest():
                if not anyway:
                    return False
                break
        file = self._handles.get(name)
        if file is None:
            file = os.open(self.path / (name + PARTIAL_SUFFIX), _MORE)
            self._note_closed(name, file)
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
        """Finish a complete file."""
        self._close(name)
        os.rename(self.path / (name + PARTIAL_SUFFIX), self.path / name)
        self._closed[name] = self._writing.pop(name)

    def abandon(self, name: str) -> bool:
        """Keep the written part of the file. Returns whether there is any."""
        with suppress(OSError):
            self._close(name)
        size = self._writing.pop(name, None)
        if size:
            self._closed[name + PARTIAL_SUFFIX] = size
        elif size is not None:
            with suppress(OSError):
                os.unlink(self.path / (name + PARTIAL_SUFFIX))
        return bool(size)

    def _note_closed(self, name: str, file: int) -> None:
        _lock(file)
        self._handles[name] = file
        while len(self._handles) > MAX_OPEN:
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
    """Lock a file that is being written; False if another process has locked it."""
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
