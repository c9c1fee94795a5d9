"""A file that a command writes because somebody named it: never half of it, and never in the place of something else.

A regular file is replaced as a whole, where a link leads if it is one. Into a device, a pipe or an open handle
(`/dev/stdout`) it is written as it comes.
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

from toolglot.cli.parameters import refuse
from toolglot.errors import DecodeError
from toolglot.export.readers import is_recording

_LINKS = 40
"""Links behind one another that are followed, as the system does."""
_HEAD = 64 * 1024
"""Bytes within which the first line of a recording ends."""


def check_output(output: Path, sources: Iterable[Path]) -> None:
    """Ends the program where the output is a file that is read, or a recording: nobody wants to lose these."""
    if not output.is_file():
        return
    if any(_is_same(output, source) for source in sources):
        refuse(output, "this is the input, and would be written over: name another file")
    try:
        with output.open("rb") as file:
            head = file.readline(_HEAD)
    except OSError as error:
        refuse(output, error.strerror or str(error))
    with suppress(DecodeError):
        if is_recording(head):
            refuse(output, "this is a recorded exchange, and would be written over: name another file")


def _is_same(output: Path, source: Path) -> bool:
    try:
        status = os.fstat(sys.stdin.fileno()) if str(source) == "-" else source.stat()
        return os.path.samestat(output.stat(), status)
    except (OSError, ValueError):  # one of them is not there, or standard input is no file
        return False


def is_replaced(output: Path) -> bool:
    """Is this a regular file, or none yet? Else it is written into."""
    path = output
    for _ in range(_LINKS):
        if path.parts[:2] == ("/", "proc"):  # a handle of this process, whatever is behind it
            return False
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    try:
        return stat.S_ISREG(output.stat().st_mode)
    except FileNotFoundError:
        return True


@contextmanager
def written(output: Path, mode: int) -> Iterator[IO[bytes]]:
    """The file to write to. A regular one is replaced at the end, if there is no exception. It keeps its mode and its
    owner; one that was not there gets this mode.

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
