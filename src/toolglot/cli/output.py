"""Write an output file that the user named: never partially, and never over another file by accident.

A regular file is replaced atomically, including the target of a link. A device, a pipe or an open handle
(`/dev/stdout`) is written directly.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from toolglot.cli.parameters import exit_unreadable
from toolglot.errors import DecodeError
from toolglot.export.readers import is_recording

_LINKS = 40
"""Maximum chained links to follow, as the system does."""
_HEAD = 64 * 1024
"""Bytes within which the first line of a recording ends."""


def check_output(output: Path, sources: Iterable[Path]) -> None:
    """Exit if the output is one of the inputs, or a recording, which would be lost."""
    if not output.is_file():
        return
    if any(_is_same(output, source) for source in sources):
        exit_unreadable(output, "this would overwrite the input: choose another file")
    try:
        with output.open("rb") as file:
            head = file.readline(_HEAD)
    except OSError as error:
        exit_unreadable(output, error.strerror or str(error))
    with suppress(DecodeError):
        if is_recording(head):
            exit_unreadable(output, "this would overwrite a recorded exchange: choose another file")


def _is_same(output: Path, source: Path) -> bool:
    try:
        status = os.fstat(sys.stdin.fileno()) if str(source) == "-" else source.stat()
        return os.path.samestat(output.stat(), status)
    except (OSError, ValueError):  # one of them is not there, or standard input is no file
        return False


def is_replaced(output: Path) -> bool:
    """Return whether this is a regular file, or does not exist yet. Anything else is written into."""
    path = output
    for _ in range(_LINKS):
        if path.parts[:2] == ("/", "proc"):  # a handle of this process
            return False
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    try:
        return stat.S_ISREG(output.stat().st_mode)
    except FileNotFoundError:
        return True


@contextmanager
def open_output(output: Path, mode: int) -> Iterator[IO[bytes]]:
    """Open the file to write to. A regular one is replaced at the end, if there is no exception. It keeps its mode and
    owner; a new one gets this mode.

    Raises:
        OSError: it cannot be written.
    """
    if not is_replaced(output):
        with open(output, "wb", opener=lambda path, flags: os.open(path, os.O_WRONLY | os.O_APPEND)) as out:
            yield out
        return
    target = Path(os.path.realpath(output))
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        temporary = Path(file.name)
        try:
            yield file
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    with suppress(FileNotFoundError):
        there = target.stat()
        mode = stat.S_IMODE(there.st_mode)
        with suppress(PermissionError):  # only root may give files away
            os.chown(temporary, there.st_uid, there.st_gid)
    temporary.chmod(mode)
    temporary.replace(target)
