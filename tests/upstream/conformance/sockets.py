"""The sockets of this process."""

from __future__ import annotations

import asyncio
import os
import socket
import stat


async def no_socket_to(port: int) -> None:
    """Until no socket of this process leads there: an upstream that does not read cannot see that one was closed."""
    while any(peer == port for peer in map(_peer, range(3, 256))):
        await asyncio.sleep(0)


def _peer(number: int) -> int | None:
    """The port at the other end of an open file, if it is a connected socket."""
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return None
        with socket.socket(fileno=os.dup(number)) as connection:
            address = connection.getpeername()
    except OSError:
        return None
    return int(address[1]) if isinstance(address, tuple) else None
