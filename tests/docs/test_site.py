"""The documentation site: every page is in it, every link works, and it needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import docs_site
from scripts.docs_site import OUTSIDE, REPOSITORY, Site, find_problems, rewrite_links

from tests.docs.markdown import DOCS, PAGES, ROOT
from tests.waiting import FAILSAFE

_HEADING = re.compile(r"^#{1,6} +(.+?)$", re.MULTILINE)
_FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    built = Site(tmp_path_factory.mktemp("documentation"))
    assert docs_site.build_and_check(built) == []
    return built


def test_the_site_has_every_page_and_a_search_index(site: Site) -> None:
    for page in DOCS:
        assert (site.html / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page
    for target in OUTSIDE.values():
        assert (site.html / re.sub(r"\.md$", ".html", target)).is_file(), target
    index = (site.html / "search.js").read_text()
    assert '"location":"gateway.html#receipts-and-strict-mode"' in index


def test_the_site_is_served_on_loopback(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "scripts.docs_site", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = next(line.strip() for line in server.stdout if line.startswith("http://127.0.0.1:"))
            for page in ("index.html", "tutorials/your-own-agent.html", "search.json", "llms.txt", "gateway.md"):
                with urllib.request.urlopen(f"{url}/{page}", timeout=FAILSAFE) as answer:
                    assert answer.status == 200
        finally:
            server.terminate()


def test_the_navigation_names_every_page_once() -> None:
    def pages_of(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values() if isinstance(entry, dict) else entry:
                yield from pages_of(inner)

    named = sorted(pages_of(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in DOCS]
    assert named == sorted([*pages, *(target for target in OUTSIDE.values() if target.endswith(".md"))])


def test_the_check_finds_what_a_browser_would_not(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text("<h1 id='there'>There</h1>")
    (tmp_path / "index.html").write_text(
        "<a href='other.html#there'>fine</a> <a href='https://example.com'>fine</a> <img src='data:image/png;base64,'>"
        "<a href='gone.html'>gone</a> <a href='other.html#gone'>gone</a>"
        "<script src='https://example.com/a.js'></script> <link rel='stylesheet' href='//example.com/a.css'>"
    )
    (tmp_path / "style.css").write_text("@font-face { src: url('https://example.com/font.woff2') }")
    assert list(find_problems(tmp_path)) == [
        "index.html: loads https://example.com/a.js",
        "index.html: loads //example.com/a.css",
        "index.html: gone.html: there is no such page",
        "index.html: other.html#gone: the page has no such heading",
        "style.css: loads 'https://example.com/font.woff2'",
    ]


@pytest.mark.parametrize(
    ("origin", "place", "link", "expected"),
    [
        ("docs/a.md", "a.md", "gateway.md#security", "gateway.md#security"),
        ("docs/tutorials/a.md", "tutorials/a.md", "../gateway.md", "../gateway.md"),
        ("docs/a.md", "a.md", "../CONTRIBUTING.md#run-it", "contributing.md#run-it"),
        ("CONTRIBUTING.md", "contributing.md", "docs/gateway.md", "gateway.md"),
        ("docs/tutorials/a.md", "tutorials/a.md", "../../README.md", "../index.md"),
        ("docs/a.md", "a.md", "../src/toolglot/ir.py", f"{REPOSITORY}/blob/main/src/toolglot/ir.py"),
        ("docs/a.md", "a.md", "example-dialect", f"{REPOSITORY}/tree/main/docs/example-dialect"),
        ("docs/a.md", "a.md", "https://example.com/a.md", "https://example.com/a.md"),
        ("docs/a.md", "a.md", "#here", "#here"),
    ],
)
def test_a_link_that_works_on_github_works_in_the_site(origin: str, place: str, link: str, expected: str) -> None:
    fenced = f"```text\n[text]({link})\n```"
    text = f"[text]({link}) and more\n\n{fenced}\n"
    assert rewrite_links(text, origin, place) == f"[text]({expected}) and more\n\n{fenced}\n"


def test_lists_and_tables_are_those_that_github_shows(site: Site) -> None:
    assert "<code>--demo-pace [human|none]</code>" in (site.html / "reference/cli.html").read_text()
    assert "<ul>\n<li><code>__init__.py</code> has the" in (site.html / "contributing.html").read_text()


def github_anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    anchors: set[str] = set()
    for heading in _HEADING.findall(_FENCES.sub("", page.read_text())):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = 0
        while (numbered := f"{anchor}-{number}" if number else anchor) in anchors:
            number += 1
        anchors.add(numbered)
    return anchors


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_a_heading_works_on_github(page: Path) -> None:
    for path, anchor in _LINK.findall(_FENCES.sub("", page.read_text())):
        target = (page.parent / path).resolve() if path else page
        if target.suffix == ".md":
            assert anchor in github_anchors(target), f"{page.name}: {path}#{anchor}"
