"""Streams, both ways."""

from toolglot.dialects.warp.stream_decoder import WarpStreamDecoder
from toolglot.dialects.warp.stream_encoder import WarpStreamEncoder

__all__ = ["WarpStreamDecoder", "WarpStreamEncoder"]
