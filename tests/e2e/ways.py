"""Every way in which an application can read an answer with an official SDK."""

from __future__ import annotations

from .js_ways import AI_LOOPS as _AI_LOOPS
from .js_ways import JS_LOOPS, JS_WAYS
from .needs import MISSING_JS
from .python_loops import PYTHON_LOOPS
from .python_ways import PYTHON_WAYS

WAYS = PYTHON_WAYS + ([] if MISSING_JS else JS_WAYS)
STREAMING = [way for way in WAYS if way.streams]
LOOPS = PYTHON_LOOPS + ([] if MISSING_JS else JS_LOOPS)
AI_LOOPS = [] if MISSING_JS else _AI_LOOPS
