"""Shorten long tool results: keep the beginning and the end, with a line between them that says how much is missing.

The shortened form depends only on the result and the limit, so it is the same in every turn.
"""

from __future__ import annotations

from toolglot.ir import Block, Request, Text, ToolResult, replace
from toolglot.passes import Context, RequestPass
from toolglot.passes.blocks import Place, blocks, rewrite_blocks
from toolglot.passes.history_size import NO_IMAGE

HEAD = 2 / 3
"""Share of the remaining bytes that the beginning of the result gets."""
MOST_NO_IMAGES = 64
"""Maximum image placeholders per text that do not count. If there are more, they are the tool's own text."""
LEFT_OUT = " bytes are left out here …]"
JOINED = 128
"""Bytes that an already shortened result may have gained when the client returned it."""
LEAST = 256
"""Smallest useful limit in bytes. Below it, a beginning and an end with a line between them make little sense."""


def shorten(limit: int) -> RequestPass:
    """Create the pass that shortens each result to this many bytes of text. `report_shortened` must follow it, because
    only then it is known which results are sent.
    """

    def fit(request: Request, context: Context) -> Request:
        context.shortened = {}

        def cut(block: Block, place: Place) -> tuple[Block, ...]:
            if not isinstance(block, ToolResult):
                return (block,)
            sizes = [_size(part) for part in block.content]
            missing, content, marked = _shorten_content(block.content, sizes, limit)
            if marked is None:
                return (block,)
            what = f"{missing} of {sum(sizes)} bytes of the result of {block.name or 'a tool'}"
            context.shortened[id(marked)] = (marked, what)
            return (replace(block, content=content),)

        return rewrite_blocks(request, cut, ToolResult)

    return fit


def report_shortened(limit: int) -> RequestPass:
    """Create the pass that reports which of the sent results were shortened."""

    def report_cuts(request: Request, context: Context) -> Request:
        shortened, context.shortened = context.shortened, {}
        for block, place in blocks(request) if shortened else ():
            for part in block.content if isinstance(block, ToolResult) else ():
                if (cut := shortened.get(id(part))) is not None:
                    why = f"this upstream is sent at most {limit} bytes of a result"
                    context.receipt.loss(str(place), cut[1], why)
        return request

    return report_cuts


def _size(block: Block) -> int:
    """Count the bytes of text in a block. Media and image placeholders do not count here."""
    if not isinstance(block, Text) or block.text == NO_IMAGE:
        return 0
    return len(block.text) if block.text.isascii() else len(_bytes(block.text))


def _spare(block: Block) -> int:
    """Count the bytes of a text that are not part of its size: image placeholders, and the line of an earlier cut. Some
    wire formats have one text for a whole result, so in a returned history the parts and image placeholders are lines
    of that text."""
    if not isinstance(block, Text) or block.text == NO_IMAGE:
        return 0
    images = min(block.text.count(NO_IMAGE), MOST_NO_IMAGES) * (len(NO_IMAGE) + 1)
    return images + (JOINED if LEFT_OUT in block.text else 0)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _marker(missing: int, total: int) -> str:
    return f"\n[… {missing} of {total}{LEFT_OUT}\n"


def _shorten_content(
    content: tuple[Block, ...], sizes: list[int], limit: int
) -> tuple[int, tuple[Block, ...], Text | None]:
    """Shorten the content of a result. Returns the number of bytes removed, the remaining content, and the notice in
    it."""
    total = sum(sizes)
    room = limit - len(_bytes(_marker(total, total)))
    if total <= limit or total <= limit + sum(map(_spare, content)) or room < 0:  # no room even for the marker
        return 0, content, None
    head = int(room * HEAD)
    tail = total - (room - head)  # byte offset at which the kept end begins
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
    assert marked is not None  # the total exceeds the limit, so some text was cut
    place, block, before, after = marked
    left[place] = notice = replace(block, text=_text(before) + _marker(missing, total) + _text(after))
    return missing, tuple(left), notice


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _boundary(raw: bytes, place: int, step: int) -> int:
    """Return the nearest UTF-8 character boundary in this direction."""
    place = min(max(place, 0), len(raw))
    while 0 < place < len(raw) and raw[place] & 0xC0 == 0x80:
        place += step
    return place
