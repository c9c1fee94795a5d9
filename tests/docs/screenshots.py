"""`python -m tests.docs.screenshots`: takes the pictures of pages that the documentation shows.

They are WebP, in the size of the page. Fonts differ between machines, so the pictures are not compared by a test.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.browser import Browser, chromium
from tests.cli.run import run
from tests.docs.markdown import ROOT

IMAGES = ROOT / "docs" / "images"
EXAMPLES = ROOT / "docs" / "examples"
MAX_BYTES = 150 * 1024


class Picture(NamedTuple):
    name: str
    command: tuple[str, ...]
    """Its last argument is missing: the page."""
    width: int
    height: int
    scheme: str


EXPLAIN = ("explain", str(EXAMPLES / "weather.exchange.jsonl"), "--html")
EXPORT = ("export", str(EXAMPLES / "umbrella.json"), "-o")
PICTURES = (
    Picture("explain-light", EXPLAIN, 1100, 1240, "light"),
    Picture("explain-dark", EXPLAIN, 1100, 1240, "dark"),
    Picture("export-light", EXPORT, 820, 1250, "light"),
    Picture("export-dark", EXPORT, 820, 1250, "dark"),
)


def take(browser: Browser, picture: Picture, folder: Path) -> bytes:
    page = folder / f"{picture.name}.html"
    done = run(*picture.command, str(page))
    assert done.exit_code == 0, done.output
    shown = browser.open(page, picture.width, picture.scheme)
    shown.set_view(picture.width, picture.height, picture.scheme)
    return shown.screenshot(form="webp")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        for picture in PICTURES:
            (IMAGES / f"{picture.name}.webp").write_bytes(take(browser, picture, Path(folder)))
