"""Chat Completions has no endpoint that counts tokens; what an image costs is published all the same."""

from __future__ import annotations

from toolglot.tokens.media import tokens_by_tiles as image_tokens

__all__ = ["image_tokens"]
