"""The pages of `toolglot export` and `toolglot explain` in a real browser: they load nothing, report nothing, run
nothing that a conversation contains, fit a phone and can be read in both color schemes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, ShownPage, chromium
from tests.cli.run import run
from tests.docs.screenshots import IMAGES, MAX_BYTES, PICTURES, Picture, take
from tests.pages.samples import EXAMPLES, hostile_conversation, hostile_exchange

MIN_CONTRAST = 4.5
"""WCAG 2.2, level AA, for text of normal size."""
PHONE, DESKTOP = 400, 1200

READ_CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const linear = (part) => (part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    const [r, g, b] = color.map((part) => linear(part / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
      if (color[3] > 0) throw new Error('a translucent background');
    }
    return rgba('white');
  };
  const found = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let seen = 0; walker.nextNode() && seen < 4000; seen++) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const name = `${element.tagName}.${element.className} ${style.color}`;
    if (name in found) continue;
    const [a, b] = [light(rgba(style.color)), light(behind(element))].sort((x, y) => y - x);
    found[name] = (a + .05) / (b + .05);
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages, written by the commands."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "hostile.json").write_bytes(hostile_conversation())
    (folder / "hostile.exchange.jsonl").write_bytes(hostile_exchange())
    commands = {
        "conversation": ("export", str(EXAMPLES / "umbrella.json"), "-o"),
        "hostile conversation": ("export", str(folder / "hostile.json"), "-o"),
        "exchange": ("explain", str(EXAMPLES / "weather.exchange.jsonl"), "--html"),
        "hostile exchange": ("explain", str(folder / "hostile.exchange.jsonl"), "--html"),
        "stream": ("explain", str(EXAMPLES / "chat-stream.sse"), "--from", "openai_chat", "--to", "gemini", "--html"),
    }
    for name, command in commands.items():
        done = run(*command, str(folder / f"{name}.html"))
        assert done.exit_code == 0, done.output
    return {name: folder / f"{name}.html" for name in commands}


UNFOLD = """
let long = 0;
for (const each of [...document.querySelectorAll('details')].slice(0, 80))
  each.open = each.textContent.length < 1e6 || ++long === 1;  // several of 5 MB take the browser too long
"""
NAMES = ["conversation", "hostile conversation", "exchange", "hostile exchange", "stream"]


def is_quiet(page: ShownPage, file: Path) -> bool:
    """Whether a page has loaded only itself and has reported nothing."""
    return (page.requests, page.messages) == ([file.as_uri()], [])


@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_and_runs_nothing_and_fits_a_phone(browser: Browser, pages: dict[str, Path], name: str) -> None:
    page = browser.open(pages[name], PHONE)
    title = page.evaluate("document.title")
    # Folded parts are part of the page, too.
    page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    assert page.evaluate("document.querySelectorAll('script, iframe, form, base, object, embed, link').length") == 0
    assert page.evaluate("[...document.images].filter((each) => !each.src.startsWith('data:image/')).length") == 0
    assert page.evaluate("[...document.links].every((each) => ['https:', 'http:', 'mailto:'].includes(each.protocol))")
    assert page.evaluate("document.title") == title != "owned"
    assert len(page.screenshot()) > 5_000
    assert is_quiet(page, pages[name]), (page.requests, page.messages)


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["conversation", "exchange"])
def test_all_text_of_a_page_has_enough_contrast(
    browser: Browser, pages: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    page = browser.open(pages[name], width, scheme)
    page.evaluate(UNFOLD)
    contrasts = page.evaluate(READ_CONTRAST)
    assert len(contrasts) > 8
    assert {name: ratio for name, ratio in contrasts.items() if ratio < MIN_CONTRAST} == {}


def test_the_color_schemes_differ(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.open(pages["exchange"], DESKTOP)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.set_view(DESKTOP, scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_requests_are_side_by_side_on_a_desktop_and_below_each_other_on_a_phone(
    browser: Browser, pages: dict[str, Path]
) -> None:
    tops = "[...document.querySelectorAll('.request')].map((each) => Math.round(each.getBoundingClientRect().top))"
    page = browser.open(pages["exchange"], DESKTOP)
    first, second = page.evaluate(tops)
    assert first == second
    page.set_view(PHONE)
    first, second = page.evaluate(tops)
    assert first < second


def test_frames_that_only_add_content_are_folded_at_first(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.open(pages["hostile exchange"], DESKTOP)
    seen = "[...document.querySelectorAll('.fold > .row')].filter((each) => each.checkVisibility()).length"
    assert page.evaluate(seen) == 0
    page.evaluate("document.querySelector('.fold > summary').click()")
    assert page.evaluate(seen) >= 300


def test_the_policy_stops_what_an_error_in_a_page_would_let_through(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    text = pages["conversation"].read_text()
    file = tmp_path / "leaky.html"
    file.write_text(text.replace("</body>", "<script>document.title = 'owned'</script><p style='color: red'></body>"))
    page = browser.open(file)
    assert page.evaluate("document.title") != "owned"
    assert len(page.messages) == 2
    assert all("Content Security Policy" in message for message in page.messages)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_the_pictures_of_the_documentation_are_small_and_can_be_taken_again(
    browser: Browser, picture: Picture, tmp_path: Path
) -> None:
    kept = (IMAGES / f"{picture.name}.webp").read_bytes()
    assert len(kept) < MAX_BYTES
    taken = take(browser, picture, tmp_path)
    for data in (kept, taken):
        assert (data[:4], data[8:12]) == (b"RIFF", b"WEBP")
        assert _webp_size(data) == (picture.width, picture.height)


def _webp_size(data: bytes) -> tuple[int, int]:
    """The size in the header of a lossy WebP picture (RFC 9649, section 2.5), which may follow an extended one."""
    at = data.index(b"\x9d\x01\x2a") + 3
    width, height = (int.from_bytes(data[start : start + 2], "little") & 0x3FFF for start in (at, at + 2))
    return width, height
