"""Chat Completions has no endpoint that counts tokens, but the token cost of images is published."""

from __future__ import annotations

from toolglot.tokens.media import tokens_by_tiles as image_tokens

__all__ = ["image_tokens"]
