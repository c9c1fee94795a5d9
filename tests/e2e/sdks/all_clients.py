"""Every client of the loops."""

from __future__ import annotations

from tests.e2e.needs import MISSING_JS

from .javascript import JAVASCRIPT, JAVASCRIPT_LEGACY
from .python_anthropic import ANTHROPIC
from .python_genai import GENAI
from .python_openai import LEGACY, OPENAI

CLIENTS = [*OPENAI, *ANTHROPIC, *GENAI, *([] if MISSING_JS else JAVASCRIPT)]
LEGACY_CLIENTS = [*LEGACY, *([] if MISSING_JS else JAVASCRIPT_LEGACY)]
