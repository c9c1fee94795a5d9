"""The picture in the README shows what was recorded, and every reader can see it."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from tests.docs.markdown import ROOT
from tests.docs.picture.render import SVG, render
from tests.docs.picture.run import Json, load

MAX_BYTES = 150_000


def test_the_picture_is_drawn_from_the_recorded_run() -> None:
    assert SVG.read_text() == render(load())


def test_the_readme_shows_the_picture_and_says_what_is_in_it() -> None:
    (image,) = re.findall(r"<img [^>]*>", (ROOT / "README.md").read_text())
    assert f'src="{SVG.relative_to(ROOT)}"' in image
    assert re.search(r'alt="[^"]{50,}"', image)


def test_the_picture_is_small_and_needs_no_script_font_or_network() -> None:
    data = SVG.read_bytes()
    assert len(data) < MAX_BYTES
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(data).iter()}
    assert names <= {"svg", "style", "g", "rect", "path", "circle", "text"}
    assert re.findall(rb"https?://[^\"]+", data) == [b"http://www.w3.org/2000/svg"]
    assert b"url(" not in data


def test_the_picture_follows_the_readers_settings() -> None:
    text = SVG.read_text()
    assert "(prefers-color-scheme:dark)" in text
    assert "(prefers-reduced-motion:reduce)" in text
    for name in set(re.findall(r"var\(--([\w-]+)\)", text)):
        assert text.count(f"--{name}:#") == 2, f"{name} has a color for each scheme"


def test_both_wires_of_the_recorded_run_have_the_same_calls_and_results() -> None:
    turns = load().turns
    assert len(turns) > 2
    for turn in turns:
        assert [(call["id"], call["name"], call["input"]) for call in turn.client.calls] == [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in turn.upstream.calls
        ]
        assert [(each["tool_use_id"], text_of(each)) for each in turn.client.results] == [
            (each["tool_call_id"], each["content"]) for each in turn.upstream.results
        ]
        assert turn.client.text == turn.upstream.text
    assert len(turns[0].client.calls) == 2, "calls in parallel"
    assert [result.get("is_error", False) for result in turns[1].client.results] == [False, True]


def text_of(result: Json) -> str:
    """A failed result says so in its text on the other wire."""
    return f"Error: {result['content']}" if result.get("is_error") else str(result["content"])
