"""The agent, or a script, on a port of the loopback interface::

async with warp_server(Agent(three_turns, "native")) as server:  # or `with`, in a thread of its own
    ...  # POST to server.url + "/ai/multi-agent"
"""

from __future__ import annotations

from tests.upstream.bad_server import BadServer, Peer, Step, expect, reply, stream
from tests.warp_server import frames
from tests.warp_server.agent import Agent, hear
from tests.warp_server.scripts import Refused, Script

PATH = "/ai/multi-agent"
HEADERS = {"content-type": "text/event-stream;charset=utf-8"}


def answering(agent: Agent) -> Step:
    """Answer the request that has come as the agent does."""

    async def step(peer: Peer) -> None:
        request = peer.server.requests[-1]
        assert (request.method, request.target) == ("POST", PATH), request.target
        events = agent.answer(request.headers, request.body)
        await stream(*(frames.frame(event) for event in events), headers=HEADERS)(peer)

    return step


def playing(script: Script | Refused) -> Step:
    """Answer with this script, or refuse as it says, whatever was asked. The request must still be one."""

    async def step(peer: Peer) -> None:
        request = peer.server.requests[-1]
        assert (request.method, request.target) == ("POST", PATH), request.target
        hear(request.headers, request.body)
        if isinstance(script, Refused):
            await reply(script.body, script.status, script.headers)(peer)
        else:
            await stream(*([script.body] if script.body else []), headers=HEADERS)(peer)

    return step


def warp_server(answer: Agent | Script | Refused) -> BadServer:
    step = answering(answer) if isinstance(answer, Agent) else playing(answer)
    return BadServer([expect(), step])


__all__ = ["HEADERS", "PATH", "answering", "playing", "warp_server"]
