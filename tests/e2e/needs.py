"""What these tests need and the machine may lack: the official SDKs, and a Node that can run the JavaScript ones."""

from __future__ import annotations

import os
from importlib.util import find_spec

from .js_ways import FOLDER, NODE

NO_SKIPS = os.environ.get("TOOLGLOT_NO_SKIPS") == "1"


def _has(module: str) -> bool:
    parent = module.rpartition(".")[0]
    return (not parent or _has(parent)) and find_spec(module) is not None


MISSING_PYTHON = [module for module in ("openai", "anthropic", "google.genai") if not _has(module)]
MISSING_JS = [
    package
    for package in ("openai", "@anthropic-ai/sdk", "@google/genai")
    if not (FOLDER / "node_modules" / package / "package.json").exists()
]
if not NODE.exists():
    MISSING_JS.append("node")
