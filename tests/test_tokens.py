"""Offline estimates: of text, of media, of whole requests."""

# ruff: noqa: RUF001 (the texts are in their own scripts)

from __future__ import annotations

import base64
import struct
import time
from itertools import pairwise
from typing import Any

import pytest

from bench import tokens as bench
from toolglot.dialects import DIALECTS
from toolglot.ir import (
    Block,
    Media,
    Message,
    Opaque,
    Request,
    ResponseFormat,
    Source,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    replace,
)
from toolglot.tokens import count_text, estimate, image_size, tokens_by_area, tokens_by_crops, tokens_by_tiles
from toolglot.tokens.text import SAMPLED_CHARACTERS

# Text and its number of tokens in OpenAI's o200k_base, counted with its real vocabulary.
ENGLISH = (
    "The gateway translates every request into the dialect of the upstream that answers it, and every answer back. "
    "What cannot be carried over is told in a receipt, so that nobody has to guess what the model was shown."
)
CODE = '''def fold(events: Iterable[Event]) -> Response:
    """Everything that a stream says, as one response."""
    accumulator = Fold()
    for event in events:
        if isinstance(event, Delta) and event.text:
            accumulator.add(event)
    return accumulator.response()
'''
JSON = (
    '{"type":"object","properties":{"city":{"type":"string","description":"The city to look up"},'
    '"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}'
)
MEASURED = {
    "English": (ENGLISH, 43),
    "Python": (CODE, 55),
    "a JSON schema": (JSON, 47),
    "German": ("Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft begabt.", 23),
    "French": ("Tous les êtres humains naissent libres et égaux en dignité et en droits.", 17),
    "Russian": ("Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом.", 24),
    "Chinese": ("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。", 35),
    "Japanese": ("すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。", 35),
    "Korean": ("모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.", 24),
    "Arabic": ("يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا.", 27),
    "Hindi": ("सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।", 25),
    "numbers": ("2026-11-15 09:06:26.123456, 1234567, 3.14159265, 0.001, 10.0.0.255, 8080", 45),
}  # fmt: skip


@pytest.mark.parametrize("kind", MEASURED)
def test_a_text_is_counted_within_thirty_percent_of_the_real_tokenizer(kind: str) -> None:
    text, tokens = MEASURED[kind]
    assert abs(count_text(text) - tokens) <= 0.3 * tokens


@pytest.mark.parametrize("text", ["a", " ", "\n", "{", "\x00", "é", "\ud83d"])
def test_nothing_has_no_tokens_and_anything_has_one(text: str) -> None:
    assert count_text("") == 0
    assert count_text(text) >= 1


def test_more_text_never_has_fewer_tokens() -> None:
    lengths = [count_text(CODE[:end]) for end in range(len(CODE))]
    assert all(longer >= shorter - 2 for shorter, longer in pairwise(lengths))
    assert lengths[-1] > lengths[len(lengths) // 2] > 0


def test_a_huge_text_is_judged_by_samples_in_bounded_time() -> None:
    huge = ENGLISH * (8 * SAMPLED_CHARACTERS // len(ENGLISH))
    start = time.process_time()
    tokens = count_text(huge)
    assert time.process_time() - start < 2  # a failsafe: it takes some hundredths of a second
    assert tokens == pytest.approx(count_text(ENGLISH) * len(huge) / len(ENGLISH), rel=0.1)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 6, 0, 0, 0) + b"\0" * 40


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 40


def jpeg(width: int, height: int, comment: int = 10) -> bytes:
    comments = b"\xff\xfe" + struct.pack(">H", comment + 2) + b"c" * comment
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9
    return b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9 + comments + b"\xff" + frame + b"\0" * 30


def webp(kind: bytes, payload: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 100) + b"WEBP" + kind + struct.pack("<I", 50) + payload + b"\0" * 40


def test_the_size_of_an_image_is_read_from_its_first_bytes() -> None:
    extended = b"\0\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
    lossless = b"\x2f" + (639 | 479 << 14).to_bytes(4, "little")
    lossy = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480)
    images = [
        png(640, 480),
        gif(640, 480),
        jpeg(640, 480),
        jpeg(640, 480, comment=60_001),
        webp(b"VP8X", extended),
        webp(b"VP8L", lossless),
        webp(b"VP8 ", lossy),
    ]
    assert [image_size(encoded(image)) for image in images] == [(640, 480)] * len(images)


def test_base64_in_lines_and_in_the_alphabet_of_urls_is_read_too() -> None:
    image = jpeg(640, 480, comment=301)
    assert image_size(base64.encodebytes(image).decode()) == (640, 480)
    assert image_size(base64.urlsafe_b64encode(image).decode().rstrip("=")) == (640, 480)


SIZELESS = {
    "nothing": "",
    "no base64": "!!!",
    "no ASCII": "é" * 40,
    "no image": encoded(b"no image at all"),
    "no width": encoded(png(0, 5)),
    "a cut PNG": encoded(png(5, 5)[:18]),
    "a cut JPEG": encoded(b"\xff\xd8"),
    "an endless JPEG": encoded(b"\xff\xd8" + b"\xff" * 5000),
    "an unknown WebP": encoded(webp(b"VP9 ", b"")),
}


@pytest.mark.parametrize("text", SIZELESS.values(), ids=SIZELESS)
def test_what_does_not_tell_its_size_has_none(text: str) -> None:
    assert image_size(text) is None


def test_images_cost_what_the_vendors_publish() -> None:
    assert [tokens_by_area(200, 200), tokens_by_area(1092, 1092), tokens_by_area(4000, 3000)] == [54, 1590, 1600]
    assert [tokens_by_tiles(1024, 1024), tokens_by_tiles(2048, 4096), tokens_by_tiles(4096, 8192, "low")] == [
        765,
        1105,
        85,
    ]
    assert [tokens_by_crops(384, 384), tokens_by_crops(960, 540)] == [258, 258 * 6]


def request(*blocks: Block, **fields: Any) -> Request:
    asked = Request(model="m", messages=(Message(role="user", content=blocks),))
    return replace(asked, **fields)


def image(data: bytes) -> Media:
    return Media(kind="image", source=Source("base64", encoded(data), "image/png"))


def test_every_part_of_a_request_counts() -> None:
    empty = estimate(request())
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    parts: list[tuple[tuple[Block, ...], dict[str, Any]]] = [
        ((Text(text="hello there"),), {}),
        ((Thinking(text="let me see"),), {}),
        ((Thinking(native={"anthropic": {"signature": "A" * 400}}),), {}),
        ((ToolCall(id="c", name="weather", arguments='{"city":"Paris"}'),), {}),
        ((ToolResult(call_id="c", content=(Text(text="sunny"),)),), {}),
        ((ToolResult(call_id="c", content=(image(png(640, 480)),)),), {}),
        ((Opaque("anthropic", {"type": "search_result", "title": "x"}),), {}),
        ((), {"tools": (Tool(name="weather", parameters=parameters),)}),
        ((), {"tools": (Opaque("anthropic", {"type": "bash_20250124", "name": "bash"}),)}),
        ((), {"response_format": ResponseFormat(kind="json_schema", schema=parameters)}),
    ]
    for blocks, fields in parts:
        assert estimate(request(*blocks, **fields)) > empty


def test_a_deferred_tool_costs_nothing_before_it_is_loaded() -> None:
    offered, deferred = Tool(name="a"), Tool(name="b", description="long " * 100, deferred=True)
    assert estimate(request(tools=(offered, deferred))) == estimate(request(tools=(offered,)))


def test_an_image_costs_what_its_upstream_says_and_a_url_what_images_usually_cost() -> None:
    picture, link = image(png(640, 480)), Media(kind="image", source=Source("url", "https://example.com/a.png"))
    base = estimate(request())
    costs = {
        name: estimate(request(picture), image_tokens=dialect.request.image_tokens)
        for name, dialect in DIALECTS.items()
    }
    assert {name: cost - base for name, cost in costs.items()} == {
        "openai_chat": 425,
        "openai_responses": 425,
        "anthropic": 410,
        "gemini": 258 * 4,
        "warp": 410,
        "ollama": 410,
    }
    assert estimate(request(link)) - base == tokens_by_area(1024, 1024)


def test_documents_and_sound_are_counted_by_their_pages_and_seconds() -> None:
    pdf = b"%PDF-1.4\n" + b"<< /Type /Page >>\n" * 3 + b"<< /Type /Pages >>"
    packed = b"%PDF-1.7\n" + b"\x9c" * 120_000
    base = estimate(request())

    def cost(kind: str, kept: str, data: str, media_type: str | None) -> int:
        media = Media(kind=kind, source=Source(kept, data, media_type))  # type: ignore[arg-type]
        return estimate(request(media)) - base

    assert cost("document", "base64", encoded(pdf), "application/pdf") == 6000
    assert cost("document", "base64", encoded(packed), "application/pdf") == 4000
    assert cost("document", "base64", encoded(ENGLISH.encode()), "text/plain") == count_text(ENGLISH)
    assert cost("document", "text", ENGLISH, "text/plain") == count_text(ENGLISH)
    assert cost("document", "url", "https://example.com/a.pdf", None) == 10_000
    assert cost("audio", "base64", "A" * 640_000, "audio/wav") == 320
    assert cost("audio", "base64", "A" * 640_000, "audio/mpeg") == 960
    assert cost("video", "file", "files/x", "video/mp4") == 17_400


def test_another_counter_can_be_used() -> None:
    assert estimate(request(Text(text="one two three")), counter=lambda text: 1000 * len(text.split())) == 3007


def test_the_benchmark_measures_every_kind_of_text() -> None:
    kinds = dict(bench.texts(None))
    assert {"Python", "docstrings (English)", "Markdown", "JSON"} <= kinds.keys()
    assert all(kinds.values())
    told = bench.row("English", ENGLISH * 20, lambda piece: 2 * count_text(piece))
    assert told.split()[3:6] == ["-50.0%", "50.0%", "50.0%"]
