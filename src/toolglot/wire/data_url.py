"""Data URLs with media: `data:image/png;base64,…` <-> a source."""

from __future__ import annotations

import re

from toolglot.ir import Source
from toolglot.wire.incremental_json import append_text

_DATA_URL = re.compile(r"data:([^;,]+);base64,")


def parse_data_url(url: str) -> Source:
    """The base64 source in a data URL; a URL source for anything else, including unusual data URLs."""
    match = _DATA_URL.match(url)
    return Source("base64", append_text("", url, match.end()), match[1]) if match else Source("url", url)


def write_data_url(source: Source, default_type: str) -> str:
    """Write a base64 or URL source as a URL."""
    if source.kind == "url":
        return source.data
    return append_text(f"data:{source.media_type or default_type};base64,", source.data)
