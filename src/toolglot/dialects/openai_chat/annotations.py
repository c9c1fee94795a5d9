"""`annotations` of a message <-> citations of the IR.

An annotation marks a span of the message's whole text. The IR keeps citations with each text block, so spans move by
the length of the text before.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Block, Citation, Text, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire.citation_spans import shift_span, span_of

ANNOTATIONS = "annotations"

_OF_CITATION = frozenset({"url", "title", "start_index", "end_index", "content"})


def decode_annotations(items: list[Any]) -> tuple[tuple[Citation, ...], list[Any]]:
    """Split `annotations` of a message into URL citations and other entries."""
    citations: list[Citation] = []
    others: list[Any] = []
    for item in items:
        inner = item.get("url_citation") if isinstance(item, dict) and item.get("type") == "url_citation" else None
        if not isinstance(inner, dict) or not isinstance(inner.get("url"), str):
            others.append(item)
            continue
        start, end, title = inner.get("start_index"), inner.get("end_index"), inner.get("title")
        quote = inner.get("content")  # OpenRouter's excerpt of the page
        others_of = {key: value for key, value in inner.items() if key not in _OF_CITATION}
        citations.append(
            Citation(
                url=inner["url"],
                title=title if isinstance(title, str) else None,
                start=start if type(start) is int else None,
                end=end if type(end) is int else None,
                quote=quote if isinstance(quote, str) and quote else None,
                native={NAME: {**others_of, "$annotation": item}},
            )
        )
    return tuple(citations), others


def encode_annotation(citation: Citation, offset: int, length: int) -> dict[str, Any] | None:
    """Encode a citation; None if it has no URL, because Chat cites URLs only. The cited text begins `offset` characters
    into the message and has `length` characters."""
    if (original := native_of(citation, NAME).get("$annotation")) is not None:
        return dict(original)
    if citation.url is None:
        return None
    start, end = span_of(citation, length)
    inner = {
        "start_index": offset + start,
        "end_index": offset + end,
        "url": citation.url,
        "title": citation.title or citation.url,
    }
    return {"type": "url_citation", "url_citation": inner}


def take_annotations(members: dict[str, Any], blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Move URL citations from the members of a message to its texts. All other annotations stay with the members."""
    listed = members.get(ANNOTATIONS)
    if not isinstance(listed, list) or not any(isinstance(block, Text) for block in blocks):
        return blocks
    citations, others = decode_annotations(listed)
    if not citations:
        return blocks
    del members[ANNOTATIONS]
    if others:
        members[ANNOTATIONS] = others
    return _with_citations(blocks, citations)


def _with_citations(blocks: tuple[Block, ...], citations: tuple[Citation, ...]) -> tuple[Block, ...]:
    """Add each citation to the text in which its span begins, or to the last text."""
    texts = [(number, block) for number, block in enumerate(blocks) if isinstance(block, Text)]
    ends = list(accumulate(len(block.text) for _, block in texts))
    found: list[list[Citation]] = [[] for _ in texts]
    for citation in citations:
        place = min(bisect_right(ends, citation.start or 0), len(texts) - 1)
        found[place].append(shift_span(citation, len(texts[place][1].text) - ends[place]))
    placed = list(blocks)
    for (number, block), here in zip(texts, found, strict=True):
        placed[number] = replace(block, citations=tuple(here))
    return tuple(placed)


def encode_annotations(
    citations: tuple[Citation, ...], offset: int, length: int, where: str, receipt: Receipt
) -> list[dict[str, Any]]:
    """Encode the citations of one text that begins `offset` characters into the message."""
    annotations = [encode_annotation(citation, offset, length) for citation in citations]
    if None in annotations:
        receipt.loss(where, "citation", "Chat Completions can cite URLs only")
    _report_quotes(citations, where, receipt)
    return [annotation for annotation in annotations if annotation is not None]


def _report_quotes(citations: tuple[Citation, ...], where: str, receipt: Receipt) -> None:
    """Report lost quotes: OpenAI's annotations have no field for them."""
    if any(citation.quote is not None and NAME not in citation.native for citation in citations):
        receipt.loss(f"{where}.citations", "quote", "an annotation marks a span of the answer and quotes no source")
