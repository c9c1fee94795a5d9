"""Fenced blocks of a Markdown page, and how each kind is run.

- `python`: with `>>>` it is a doctest, else it is executed; all blocks of a page share their names.
- `bash`: run by bash on a terminal, in a folder of the page's own that has the examples, with `toolglot` on the path. A
  `json` or `text` block right behind it is what a person then sees, character by character.
- A `bash` block with the one command `toolglot serve …`: a server that runs while the rest of the page is run.
- `toml`: a configuration file, which must be accepted.
- A `bash` block of set-up commands (`make`, `pip install` …) is checked and not run, see `test_pages`.
- A `bash` block with `toolglot launch …`: run with `--show`, since an agent would want a person.
- A comment `<!-- server: VENDOR at HOST:PORT with MODEL, N tokens -->`: the page's commands find such a model server at
  that address, see `model_servers`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SET_UP = re.compile(
    r"^(make|pip|pipx|git|cd|\.ci/run|uvx?|source|\.|npm|ollama|OLLAMA_\w+=\d+ ollama|vllm|llama-server"
    r"|docker|helm|systemctl|install|python3 -m venv|/opt/toolglot/bin/pip)\b"
)


class Block(NamedTuple):
    language: str
    text: str
    line: int
    expected: tuple[str, str] | None = None
    """Language and text of the output, for a block of commands."""

    @property
    def is_set_up(self) -> bool:
        return self.language == "bash" and not self.is_server and all(_SET_UP.match(line) for line in self.commands)

    @property
    def is_launch(self) -> bool:
        """Whether it starts agents."""
        return self.language == "bash" and all(
            line.startswith("toolglot launch ") and "--show" not in line for line in self.commands
        )

    @property
    def script(self) -> str:
        """What a test runs."""
        return self.text.replace("toolglot launch ", "toolglot launch --show ") if self.is_launch else self.text

    @property
    def is_server(self) -> bool:
        return self.language == "bash" and len(self.commands) == 1 and self.commands[0].startswith("toolglot serve")

    @property
    def commands(self) -> list[str]:
        """The lines that are commands; comments are not."""
        return [line for line in self.text.splitlines() if line.strip() and not line.startswith("#")]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        block = Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        follows = found and found[-1].language == "bash" and text[end : match.start()].strip() == ""
        if follows and block.language in ("json", "text"):
            found[-1] = found[-1]._replace(expected=(block.language, block.text))
        else:
            found.append(block)
        end = match.end()
    return found
