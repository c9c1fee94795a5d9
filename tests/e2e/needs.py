"""What these tests need and the machine may lack: SDKs in two languages, agents, MCP servers, an inference engine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .agents.agents import AGENTS
from .js_ways import FOLDER, NODE

MCP_SERVERS = Path(__file__).parent / "mcp" / "node_modules" / "@modelcontextprotocol"


def _has(module: str) -> bool:
    parent = module.rpartition(".")[0]
    return (not parent or _has(parent)) and find_spec(module) is not None


MISSING_PYTHON = [module for module in ("openai", "anthropic", "google.genai") if not _has(module)]
MISSING_ENGINE = [module for module in ("xllamacpp",) if not _has(module)]
MISSING_SUITE = [module for module in ("llm_comply",) if not _has(module)]
MISSING_TRACING = [module for module in ("opentelemetry.sdk",) if not _has(module)]
MISSING_MCP = [module for module in ("mcp",) if not _has(module)] + [
    package
    for package in ("server-everything", "server-filesystem")
    if not (MCP_SERVERS / package / "package.json").exists()
]
MISSING_JS = [
    package
    for package in (
        "openai",
        "@anthropic-ai/sdk",
        "@google/genai",
        "ai",
        "@ai-sdk/anthropic",
        "@ai-sdk/google",
        "@ai-sdk/openai",
        "@ai-sdk/openai-compatible",
    )
    if not (FOLDER / "node_modules" / package / "package.json").exists()
]
MISSING_AGENTS = [agent.name for agent in AGENTS if not agent.installed]
if not NODE.exists():
    MISSING_JS.append("node")
    MISSING_AGENTS.append("node")
    MISSING_MCP.append("node")
MISSING = {
    "the official Python SDKs": MISSING_PYTHON,
    "the JavaScript SDKs": MISSING_JS,
    "the coding agents": MISSING_AGENTS,
    "the inference engine": MISSING_ENGINE,
    "the conformance suite": MISSING_SUITE,
    "OpenTelemetry": MISSING_TRACING,
    "MCP's SDK and servers": MISSING_MCP,
}
