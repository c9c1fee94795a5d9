"""Streams of the multi-agent API <-> events."""

from toolglot.dialects.warp.stream_decoder import WarpStreamDecoder
from toolglot.dialects.warp.stream_encoder import WarpStreamEncoder

__all__ = ["WarpStreamDecoder", "WarpStreamEncoder"]
