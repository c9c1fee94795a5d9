"""`python -m tests.docs.rewrite`: writes anew what the commands in the README and the documentation print.

Arguments name the pages; without any, it is all of them. Examples in Python are left alone. Read the diff: it is what
users will see.
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.cli.run import in_background, on_terminal, run
from tests.docs.markdown import PAGES, ROOT, Block, blocks
from tests.docs.model_servers import model_servers

TABLE = re.compile(r"^\|  \| openai_chat .*?\n(?!\|)", re.MULTILINE | re.DOTALL)
"""The table that `toolglot dialects --markdown` prints."""


def rewritten(page: Path, folder: Path) -> str:
    text = page.read_text()
    (folder / "docs").symlink_to(ROOT / "docs")
    with ExitStack() as servers:
        models = servers.enter_context(model_servers(page))
        for block in blocks(page):
            if block.is_server:
                servers.enter_context(in_background(models.actual(block.commands[0]), folder, models.environment))
            elif block.language == "bash" and not block.is_set_up:
                output = on_terminal(models.actual(block.script), folder, models.environment).output
                text = with_output(text, block, models.shown(output))
    table = run("dialects", "--markdown").stdout
    return TABLE.sub(lambda _: table, text)


def with_output(text: str, block: Block, output: str) -> str:
    if block.expected is None:
        return text
    language, old = block.expected
    commands = f"```bash\n{block.text}```\n\n```{language}\n"
    return text.replace(f"{commands}{old}```", f"{commands}{output}```", 1)


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(rewritten(page, Path(folder)))
