"""Build the documentation site from the Markdown pages, check every link in it, or serve it.

    python -m scripts.docs_site build [FOLDER]
    python -m scripts.docs_site serve [--port 8000]

The pages stay readable on GitHub, so their links are relative paths in the repository. A page may link to files outside
of `docs/`; the site has copies of some of them (`OUTSIDE`) and links to the repository for the rest. The built site is
self-contained: it works from a local folder, without a network.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from urllib.parse import unquote

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CONFIG = ROOT / "zensical.toml"
REPOSITORY: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]

OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/RESULTS.md": "benchmark-results.md",
    "bench/results.svg": "images/benchmark.svg",
}
"""Files outside of `docs/` that the site has, and their paths in it."""
ALIASES = {"README.md": "index.md"}
"""Files whose place in the site another page takes."""
LEFT_OUT = shutil.ignore_patterns("__pycache__", "example-dialect")

_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\(|\bsrc=\")([^)\s\"]+)([)\"])")
_NESTED_ITEM = re.compile(r"^ {2,3}(?=[-*] |[0-9]+\. )", re.MULTILINE)
"""The indent of an item in a list of a list. GitHub takes fewer than four spaces, Python-Markdown does not."""
_TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


class Site(NamedTuple):
    folder: Path
    """Has the staged pages in `docs` and the built site in `site`."""

    @property
    def pages(self) -> Path:
        return self.folder / "docs"

    @property
    def html(self) -> Path:
        return self.folder / "site"


def build(site: Site) -> None:
    """Build the site with Zensical in strict mode. Raises `subprocess.CalledProcessError` if it finds a problem."""
    shutil.rmtree(site.folder, ignore_errors=True)
    stage(site.pages)
    shutil.copy(CONFIG, site.folder)
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=site.folder,
        env={**os.environ, "NO_COLOR": "1"},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for page in site.pages.rglob("*.md"):  # for `llms.txt`, and for people who prefer the source
        shutil.copy(page, site.html / page.relative_to(site.pages))


def stage(folder: Path) -> None:
    """Copy the pages and what they show to a folder, with links that work there."""
    shutil.copytree(DOCS, folder, ignore=LEFT_OUT)
    for source, target in OUTSIDE.items():
        (folder / target).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / source, folder / target)
    origins = {target: source for source, target in OUTSIDE.items()}
    for page in folder.rglob("*.md"):
        place = page.relative_to(folder).as_posix()
        text = rewrite_links(page.read_text(), origins.get(place, f"docs/{place}"), place)
        page.write_text(adapt_markdown(text))


def adapt_markdown(text: str) -> str:
    """Markdown as GitHub reads it, for Python-Markdown: nested lists, and pipes in the code of a table's cell."""
    text = _NESTED_ITEM.sub("    ", text)
    return _TABLE_ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def rewrite_links(text: str, origin: str, place: str) -> str:
    """The text of a page with its links adapted: from a path in the repository to a path in the site."""

    def replace(link: re.Match[str]) -> str:
        return f"{link[1]}{site_link(link[2], origin, place)}{link[3]}"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(replace, part) for part in parts)


def site_link(link: str, origin: str, place: str) -> str:
    path, hash_mark, fragment = link.partition("#")
    if not path or _EXTERNAL.match(link):
        return link
    target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    known = OUTSIDE.get(target) or ALIASES.get(target)
    if known is None and target.startswith("docs/") and (ROOT / target).is_file():
        known = target.removeprefix("docs/")
    if known is None:
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{REPOSITORY}/{kind}/main/{target}{hash_mark}{fragment}"
    return posixpath.relpath(known, posixpath.dirname(place) or ".") + hash_mark + fragment


class _Page(HTMLParser):
    """Anchors, links and loaded resources of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.resources.append(found.get("href", ""))
        elif "src" in found:
            self.resources.append(found["src"])


def find_problems(site: Path) -> Iterator[str]:
    """Links that lead nowhere, and resources that the built site would load from elsewhere."""
    pages = {page: _Page(page.read_text()) for page in sorted(site.rglob("*.html"))}
    for page, content in pages.items():
        where = page.relative_to(site)
        for resource in content.resources:
            if _EXTERNAL.match(resource) and not resource.startswith("data:"):
                yield f"{where}: loads {resource}"
        for link in (*content.links, *content.resources):
            if _EXTERNAL.match(link):
                continue
            path, _, fragment = link.partition("#")
            start = site if path.startswith("/") else page.parent
            target = (start / unquote(path.partition("?")[0]).lstrip("/")).resolve() if path else page
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield f"{where}: {link}: there is no such page"
            elif fragment and target in pages and unquote(fragment) not in pages[target].anchors:
                yield f"{where}: {link}: the page has no such heading"
    for sheet in site.rglob("*.css"):
        for url in re.findall(r"url\(([^)]+)\)", sheet.read_text()):
            if _EXTERNAL.match(url.strip("\"'")) and not url.strip("\"'").startswith("data:"):
                yield f"{sheet.relative_to(site)}: loads {url}"


def build_and_check(site: Site) -> list[str]:
    try:
        build(site)
    except subprocess.CalledProcessError as error:
        return [str(error.output)]
    return list(find_problems(site.html))


def _newest_change() -> float:
    files = [CONFIG, *(ROOT / name for name in OUTSIDE), *(path for path in DOCS.rglob("*") if path.is_file())]
    return max(path.stat().st_mtime for path in files)


def serve(site: Site, port: int) -> None:
    """Serve the site on loopback and rebuild it when a page changes."""
    report(build_and_check(site), site)
    handler = partial(SimpleHTTPRequestHandler, directory=str(site.html))
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    built = _newest_change()
    while True:
        time.sleep(1)
        if (changed := _newest_change()) > built:
            built = changed
            report(build_and_check(site), site)


def report(problems: list[str], site: Site) -> None:
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(list(site.html.rglob('*.html')))} pages in {site.html}, all links work")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.docs_site", description=__doc__)
    parser.add_argument("command", choices=["build", "serve"])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "docs")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    site = Site(options.folder.resolve())
    if options.command == "serve":
        try:
            serve(site, options.port)
        except KeyboardInterrupt:
            return 0
    problems = build_and_check(site)
    report(problems, site)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
