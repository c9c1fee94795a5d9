"""`python -m tests.docs.rewrite`: writes anew what the commands in the README and the documentation print.

Examples in Python are left alone. Read the diff: it is what users will see.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.cli.run import in_background, on_terminal, run
from tests.docs.markdown import PAGES, ROOT, Block, blocks

TABLE = re.compile(r"^\|  \| openai_chat .*?\n(?!\|)", re.MULTILINE | re.DOTALL)
"""The table that `toolglot dialects --markdown` prints."""


def rewritten(page: Path, folder: Path) -> str:
    text = page.read_text()
    (folder / "docs").symlink_to(ROOT / "docs")
    with ExitStack() as servers:
        for block in blocks(page):
            if block.is_server:
                servers.enter_context(in_background(block.commands[0], folder))
            elif block.language == "bash" and not block.is_set_up:
                text = with_output(text, block, on_terminal(block.text, folder).output)
    table = run("dialects", "--markdown").stdout
    return TABLE.sub(lambda _: table, text)


def with_output(text: str, block: Block, output: str) -> str:
    if block.expected is None:
        return text
    language, old = block.expected
    commands = f"```bash\n{block.text}```\n\n```{language}\n"
    return text.replace(f"{commands}{old}```", f"{commands}{output}```", 1)


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(rewritten(page, Path(folder)))
