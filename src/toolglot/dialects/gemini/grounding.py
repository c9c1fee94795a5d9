"""`groundingMetadata` <-> citations.

Gemini lists the sources of an answer as chunks. Its supports name the chunks for a segment of the text. Segments
are measured in bytes of UTF-8 from the start of a part, citations in characters of a text. Each chunk of a support
becomes a citation. If there are no supports, each chunk becomes a citation without a span.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.ir import Citation
from toolglot.receipt import Receipt

MEMBER = "groundingMetadata"
ORIGINAL = "$grounding"
"""The note on a candidate with the original member, next to the citations that were made from it."""
_CHUNKS, _SUPPORTS, _INDICES = "groundingChunks", "groundingSupports", "groundingChunkIndices"
_SOURCES = ("web", "retrievedContext", "maps")
_CARRIED = frozenset({"segment", _INDICES})


CitationKey: TypeAlias = tuple[str | None, str | None, int | None, int | None]


def citation_key(citation: Citation) -> CitationKey:
    return citation.url, citation.title, citation.start, citation.end


class ByteOffsets:
    """Converts between offsets in characters and in bytes of UTF-8."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._bytes = None if text.isascii() else array("Q", accumulate(map(_width, text), initial=0))

    def to_characters(self, offset: int) -> int | None:
        """Convert an offset to characters. None if it is inside a character, or beyond the text."""
        if self._bytes is None:
            return offset if 0 <= offset <= self._length else None
        found = bisect_left(self._bytes, offset) if offset >= 0 else len(self._bytes)
        return found if found < len(self._bytes) and self._bytes[found] == offset else None

    def to_bytes(self, offset: int) -> int:
        offset = max(0, min(offset, self._length))
        return offset if self._bytes is None else self._bytes[offset]


def _width(character: str) -> int:
    code = ord(character)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


class Grounding(Struct, frozen=True):
    """The citations, with spans in the whole text of the answer, and the members that they do not carry."""

    citations: tuple[Citation, ...]
    rest: dict[str, Any]


def read_grounding(grounding: Any, text: str, part_starts: Sequence[int | None] = ()) -> Grounding | None:
    """Read `groundingMetadata`; None if it has no citations. `part_starts`: where the parts begin in the text, None for
    those that are not text.
    """
    chunks = grounding.get(_CHUNKS) if isinstance(grounding, dict) else None
    supports = grounding.get(_SUPPORTS) if isinstance(grounding, dict) else None
    if not isinstance(chunks, list) or not isinstance(supports or [], list):
        return None
    sources = [_read_source(chunk) for chunk in chunks]
    offsets, unread, scores = ByteOffsets(text), [], []
    citations: list[Citation] = []
    named: set[int] = set()
    for support in supports or ():
        found = [index for index in _chunk_indices(support) if index < len(sources) and sources[index] is not None]
        if not found:
            unread.append(support)
            continue
        named.update(found)
        span = _find_span(support.get("segment"), text, offsets, part_starts)
        if span is None and support.get("segment"):
            unread.append(support)
        citations += [_cite(sources[index], span) for index in found]
        scores += [value for key, value in support.items() if key not in _CARRIED and value]
    if not supports:
        named = {index for index, source in enumerate(sources) if source is not None}
        citations = [_cite(sources[index], None) for index in sorted(named)]
    if not citations:
        return None
    unnamed = [chunk for index, chunk in enumerate(chunks) if index not in named]
    left = {_CHUNKS: unnamed, _SUPPORTS: unread, "confidenceScores": scores}
    others = {key: value for key, value in grounding.items() if key not in (_CHUNKS, _SUPPORTS)}
    return Grounding(tuple(citations), {**{key: value for key, value in left.items() if value}, **others})


def keep_grounding(candidate: dict[str, Any], rest: dict[str, Any]) -> None:
    """Leave the members that citations do not carry in the candidate, and note the original."""
    candidate[ORIGINAL] = candidate.pop(MEMBER)
    if rest:
        candidate[MEMBER] = rest


def restore_grounding(candidate: dict[str, Any]) -> dict[str, Any]:
    """Undo `keep_grounding` in a copy."""
    if ORIGINAL not in candidate:
        return candidate
    return {**{key: value for key, value in candidate.items() if key != ORIGINAL}, MEMBER: candidate[ORIGINAL]}


def _read_source(chunk: Any) -> dict[str, str] | None:
    """Return the address and title of a chunk; None if it has no address."""
    for kind in _SOURCES if isinstance(chunk, dict) else ():
        source = chunk.get(kind)
        if isinstance(source, dict) and isinstance(url := source.get("uri"), str) and url:
            title = source.get("title")
            return {"url": url, "title": title} if isinstance(title, str) else {"url": url}
    return None


def _chunk_indices(support: Any) -> list[int]:
    indices = support.get(_INDICES) if isinstance(support, dict) else None
    if not isinstance(indices, list):
        return []
    return list(dict.fromkeys(index for index in indices if type(index) is int and index >= 0))


def _cite(source: dict[str, str] | None, span: tuple[int, int] | None) -> Citation:
    assert source is not None
    start, end = span or (None, None)
    return Citation(url=source["url"], title=source.get("title"), start=start, end=end)


def _find_span(
    segment: Any, text: str, offsets: ByteOffsets, part_starts: Sequence[int | None]
) -> tuple[int, int] | None:
    """Return the characters of a segment; None if they cannot be found. Streams and some servers count from the start
    of the whole text, not of the part.
    """
    if not isinstance(segment, dict):
        return None
    start, end, part = segment.get("startIndex", 0), segment.get("endIndex"), segment.get("partIndex", 0)
    if type(start) is not int or type(end) is not int or not 0 <= start < end:
        return None
    part_start = part_starts[part] if type(part) is int and 0 <= part < len(part_starts) else None
    for base in dict.fromkeys((part_start or 0, 0)):
        shift = offsets.to_bytes(base)
        span = offsets.to_characters(start + shift), offsets.to_characters(end + shift)
        if span[0] is not None and span[1] is not None:
            quote = segment.get("text")
            if not isinstance(quote, str) or text[span[0] : span[1]] == quote:
                return span[0], span[1]
    return None


def write_grounding(citations: Sequence[Citation], text: str, receipt: Receipt) -> dict[str, Any]:
    """Encode the citations that have a URL. Their spans are those of the whole text of the answer."""
    chunks: dict[tuple[str, str | None], int] = {}
    supports: dict[tuple[int, int], dict[int, None]] = {}
    offsets = ByteOffsets(text) if citations else None
    for citation in citations:
        if citation.url is None:
            receipt.loss("content", "citation", "Gemini can cite URLs only")
            continue
        if citation.quote is not None:
            receipt.loss("content.citations", "quote", "a citation marks a span of the answer and quotes no source")
        index = chunks.setdefault((citation.url, citation.title), len(chunks))
        if citation.start is not None and citation.end is not None and citation.start < citation.end:
            supports.setdefault((citation.start, citation.end), {})[index] = None
        elif citation.start is not None or citation.end is not None:
            span = f"the span from {citation.start} to {citation.end}"
            receipt.loss("content.citations", span, "it is no part of the text; the source is cited without it")
    if not chunks or offsets is None:
        return {}
    written: dict[str, Any] = {_CHUNKS: [_encode_chunk(url, title) for url, title in chunks]}
    if supports:
        written[_SUPPORTS] = [
            {"segment": _encode_segment(start, end, text, offsets), _INDICES: list(indices)}
            for (start, end), indices in supports.items()
        ]
    return {MEMBER: written}


def _encode_chunk(url: str, title: str | None) -> dict[str, Any]:
    return {"web": {"uri": url} if title is None else {"uri": url, "title": title}}


def _encode_segment(start: int, end: int, text: str, offsets: ByteOffsets) -> dict[str, Any]:
    return {"startIndex": offsets.to_bytes(start), "endIndex": offsets.to_bytes(end), "text": text[start:end]}
