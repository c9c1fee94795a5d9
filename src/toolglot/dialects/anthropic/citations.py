"""Citations of text blocks <-> `Citation`.

Each kind of location has its own fields for the source. Positions in the cited document stay native: the IR's `start`
and `end` are positions in the citing text, which this API does not report.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from toolglot.dialects.anthropic.native import NAME, keep, restore_members
from toolglot.dialects.anthropic.wire import CitationLocation
from toolglot.ir import Citation, native_of
from toolglot.receipt import Receipt
from toolglot.wire.structs import Unknown, members_without

# type of location -> its field for the source's address, and for its title
_FIELDS: dict[str, tuple[str | None, str]] = {
    "web_search_result_location": ("url", "title"),
    "search_result_location": ("source", "title"),
    "char_location": (None, "document_title"),
    "page_location": (None, "document_title"),
    "content_block_location": (None, "document_title"),
}


def decode_citation(citation: CitationLocation | Unknown) -> Citation:
    if isinstance(citation, Unknown):
        return Citation(native=keep(dict(citation.verbatim.value)) or {NAME: {}})
    kind = str(citation.__struct_config__.tag)
    url_field, title_field = _FIELDS[kind]
    names = (url_field, title_field, "cited_text")
    url, title, quote = (getattr(citation, name) if name else UNSET for name in names)
    others = members_without(citation, *(name for name in names if name))
    return Citation(
        url=None if url is UNSET else url,
        title=None if title is UNSET else title,
        quote=None if quote is UNSET else quote,
        native=keep({"type": kind, **others}),
    )


def encode_citations(
    citations: tuple[Citation, ...], where: str, receipt: Receipt, reply: bool
) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = []
    for index, citation in enumerate(citations):
        wire = encode_citation(citation, reply)
        if wire is None:
            receipt.loss(f"{where}[{index}]", "citation", "the Messages API did not create it")
        else:
            encoded.append(wire)
            if citation.start is not None or citation.end is not None:
                what = f"characters {citation.start} to {citation.end}"
                receipt.note(f"{where}[{index}]", what, "Messages cites for a whole text block")
    return encoded


def encode_citation(citation: Citation, reply: bool) -> dict[str, Any] | None:
    """Encode a citation. In a history the API accepts only its own, which have an `encrypted_index` it can decrypt."""
    own = native_of(citation, NAME)
    if NAME not in citation.native:
        if not reply or citation.url is None:
            return None
        # The nearest kind. The SDKs' types require an index, with any value.
        own = {"type": "web_search_result_location"}
    elif not reply and own.get("encrypted_index") == "":
        return None
    url_field, title_field = _FIELDS.get(str(own.get("type")), (None, "title"))
    known = ((url_field, citation.url), (title_field, citation.title), ("cited_text", citation.quote))
    fields: dict[str, Any] = {field: value for field, value in known if field is not None and value is not None}
    if NAME not in citation.native:
        return {"type": own["type"], "cited_text": "", **fields, "encrypted_index": ""}
    return restore_members(fields, citation)
