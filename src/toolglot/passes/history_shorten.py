"""Results of tools that are longer than what is to be sent of one: their beginning and their end, and between them how
much is missing.

What becomes of a result depends on nothing but the result and the limit: in every turn it is the same.
"""

from __future__ import annotations

from toolglot.ir import Block, Request, Text, ToolResult, replace
from toolglot.passes import Context, RequestPass
from toolglot.passes.blocks import Place, blocks, rewrite_blocks
from toolglot.passes.history_size import NO_IMAGE

HEAD = 2 / 3
"""The share of what is left that is the result's beginning."""
MOST_NO_IMAGES = 64
"""Images that are no longer sent, of one text: more of them than anybody shows are words of a tool."""
LEFT_OUT = " bytes are left out here …]"
JOINED = 128
"""Bytes that a result which was cut before may have gained on its way."""
LEAST = 256
"""Bytes below which there is little sense in a beginning and an end, with a line between them."""


def shorten(limit: int) -> RequestPass:
    """The pass that leaves at most so many bytes of text in each result. `tell` is to follow: until then nobody knows
    which results are sent at all."""

    def fit(request: Request, context: Context) -> Request:
        context.shortened = {}

        def cut(block: Block, place: Place) -> tuple[Block, ...]:
            if not isinstance(block, ToolResult):
                return (block,)
            sizes = [_size(part) for part in block.content]
            missing, content, marked = _shortened(block.content, sizes, limit)
            if marked is None:
                return (block,)
            what = f"{missing} of {sum(sizes)} bytes of the result of {block.name or 'a tool'}"
            context.shortened[id(marked)] = (marked, what)
            return (replace(block, content=content),)

        return rewrite_blocks(request, cut, ToolResult)

    return fit


def tell(limit: int) -> RequestPass:
    """The pass that says which of the results that are sent were cut."""

    def tell_cuts(request: Request, context: Context) -> Request:
        shortened, context.shortened = context.shortened, {}
        for block, place in blocks(request) if shortened else ():
            for part in block.content if isinstance(block, ToolResult) else ():
                if (cut := shortened.get(id(part))) is not None:
                    why = f"this upstream is sent at most {limit} bytes of a result"
                    context.receipt.loss(str(place), cut[1], why)
        return request

    return tell_cuts


def _size(block: Block) -> int:
    """Bytes of text: images and the like count elsewhere, also those of which only a word is left."""
    if not isinstance(block, Text) or block.text == NO_IMAGE:
        return 0
    return len(block.text) if block.text.isascii() else len(_bytes(block.text))


def _spare(block: Block) -> int:
    """Bytes that do not count although they stand in a text that does: some wires have one text for a whole result, and
    in what comes back from there parts are lines, and so is what stands for an image."""
    if not isinstance(block, Text) or block.text == NO_IMAGE:
        return 0
    images = min(block.text.count(NO_IMAGE), MOST_NO_IMAGES) * (len(NO_IMAGE) + 1)
    return images + (JOINED if LEFT_OUT in block.text else 0)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _marker(missing: int, total: int) -> str:
    return f"\n[… {missing} of {total}{LEFT_OUT}\n"


def _shortened(content: tuple[Block, ...], sizes: list[int], limit: int) -> tuple[int, tuple[Block, ...], Text | None]:
    """How many bytes go, what is left of a result, and the text in it that says so."""
    total = sum(sizes)
    room = limit - len(_bytes(_marker(total, total)))
    if total <= limit or total <= limit + sum(map(_spare, content)) or room < 0:  # no place even for the line about it
        return 0, content, None
    head = int(room * HEAD)
    tail = total - (room - head)  # where the end begins, in bytes of all the text
    left: list[Block] = []
    missing = position = 0
    marked: tuple[int, Text, bytes, bytes] | None = None
    for block, size in zip(content, sizes, strict=True):
        start, position = position, position + size
        if not isinstance(block, Text) or not size or position <= head or start >= tail:
            left.append(block)
            continue
        raw = _bytes(block.text)
        before, after = raw[: _boundary(raw, head - start, -1)], raw[_boundary(raw, tail - start, 1) :]
        missing += size - len(before) - len(after)
        if marked is None:
            marked = (len(left), block, before, after)
        if marked[1] is block or after:
            left.append(replace(block, text=_text(after)))
    assert marked is not None  # what is too much lies somewhere
    place, block, before, after = marked
    left[place] = telling = replace(block, text=_text(before) + _marker(missing, total) + _text(after))
    return missing, tuple(left), telling


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _boundary(raw: bytes, place: int, step: int) -> int:
    """The nearest place, in this direction, that no character lies across."""
    place = min(max(place, 0), len(raw))
    while 0 < place < len(raw) and raw[place] & 0xC0 == 0x80:
        place += step
    return place
