"""Warp's multi-agent API: protobuf requests, streams of base64.

It requires the package `protobuf`, which is an extra. `protobuf` is loaded on first use of the dialect, never by
importing toolglot.
"""

from __future__ import annotations

from toolglot.manifest import Manifest, Route

_BRIDGE = "toolglot.dialects.warp.bridge_routes"

MANIFEST = Manifest(
    name="warp",
    record="toolglot.dialects.warp.dialect:WARP",
    marks="toolglot.dialects.warp.marks:MARKS",
    lint="toolglot.dialects.warp.lint:LINT",
    json_form="toolglot.dialects.warp.bridge:JSON_FORM",
    volatile=("metadata",),
    routes=(
        Route("POST", "/ai/multi-agent", "generate"),
        Route("POST", "/api/encode", "function", function=f"{_BRIDGE}:encode", setting="warp_bridge"),
        Route("POST", "/api/decode", "function", function=f"{_BRIDGE}:decode", setting="warp_bridge"),
        Route("POST", "/api/stream-decode", "function", function=f"{_BRIDGE}:stream_decode", setting="warp_bridge"),
    ),
)
