"""The names of the demo's models without native tools: `demo-text`, and `demo-text-FORMAT` for any text format.

Apart from what those models do (`text.py`): every request is asked for its model's name, and few are for one of these.
"""

from __future__ import annotations

import re

from toolglot.textcalls import ALIASES, FORMATS
from toolglot.textcalls.families import DEFAULT_FORMAT

NAME = re.compile(r"demo-text(?:-(?P<format>[a-z0-9_-]+))?", re.IGNORECASE)


def demo_format(model: str) -> str | None:
    """The text format of this model; None when it is none of these."""
    name = NAME.fullmatch(model)
    if name is None:
        return None
    wanted = (name["format"] or DEFAULT_FORMAT).replace("-", "_").lower()
    wanted = ALIASES.get(wanted, wanted)
    return wanted if wanted in FORMATS else DEFAULT_FORMAT
