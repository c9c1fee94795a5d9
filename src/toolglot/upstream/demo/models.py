"""Names of the demo's models without native tools: `demo-text`, and `demo-text-FORMAT` for any text format.

Separate from the models' behavior (`text_model.py`), because every request checks its model's name here and few
use one.
"""

from __future__ import annotations

import re

from toolglot.textcalls import ALIASES, FORMATS
from toolglot.textcalls.model_families import DEFAULT_FORMAT

TEXT_MODEL = re.compile(r"demo-text(?:-(?P<format>[a-z0-9_-]+))?", re.IGNORECASE)


def demo_format(model: str) -> str | None:
    """Return the text format of this model; None if it is not one of these."""
    name = TEXT_MODEL.fullmatch(model)
    if name is None:
        return None
    wanted = (name["format"] or DEFAULT_FORMAT).replace("-", "_").lower()
    wanted = ALIASES.get(wanted, wanted)
    return wanted if wanted in FORMATS else DEFAULT_FORMAT
