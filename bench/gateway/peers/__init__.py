"""The gateways that are measured, by name."""

from __future__ import annotations

from bench.gateway.peers.bifrost import BIFROST
from bench.gateway.peers.claude_code_router import CLAUDE_CODE_ROUTER
from bench.gateway.peers.limits import DIRECT, NGINX
from bench.gateway.peers.litellm import LITELLM
from bench.gateway.peers.portkey import PORTKEY
from bench.gateway.peers.record import Peer
from bench.gateway.peers.tensorzero import TENSORZERO
from bench.gateway.peers.toolglot import TOOLGLOT

PEERS: dict[str, Peer] = {
    peer.name: peer for peer in (DIRECT, NGINX, TOOLGLOT, TENSORZERO, BIFROST, PORTKEY, CLAUDE_CODE_ROUTER, LITELLM)
}
QUICK = ("direct", "nginx", "toolglot")
