"""Generate the file that `toolglot config init` writes. Every line is a comment, so that it has no effect until it is
edited. The file is generated from the records, so that it has every setting with its docstring and default. Settings
without a default have an example here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from toolglot.config.json_schema import docstrings
from toolglot.config.schema import (
    BreakerConfig,
    Config,
    Limits,
    LogConfig,
    McpConfig,
    McpServerConfig,
    ModelConfig,
    OidcConfig,
    PoolMemberConfig,
    PriceConfig,
    ProxyConfig,
    RecordConfig,
    Retries,
    ServerConfig,
    StoreConfig,
    TeamConfig,
    UpstreamConfig,
)
from toolglot.dialects import DEFAULT
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.upstream.transport import Timeouts
from toolglot.wire import json

WIDTH = 118

HEAD = """\
# toolglot.toml: the configuration of toolglot. Every setting has a default; remove the # from a line to change it.
# `toolglot config check` reports problems in this file; `toolglot config schema` prints its JSON Schema.
# ${NAME} and ${NAME:-default} come from the environment; a key may also be in a file: "file:/run/secrets/openai".
# Each line shows the default, unless it is marked as an example.
"""


class TemplateSection(Struct, frozen=True):
    """A table of the file, or its top level if there is no name. `examples` are in TOML."""

    table: str
    record: type[Struct]
    examples: Mapping[str, str] = {}
    prose: str = ""
    only: tuple[str, ...] = ()
    """The fields to show, if another section has the others."""
    without: tuple[str, ...] = ()
    """The fields to omit."""


_HISTORY = {
    "max_messages": "400",
    "max_tool_results": "100",
    "max_tokens": "120000",
    "max_bytes": "4000000",
    "max_images": "20",
    "result_bytes": "50000",
    "keep_first": "true",
    "cut_to": "0.75",
    "repair": "true",
    "continuation": "true",
    "calls": '"cline_xml"',
}

SECTIONS = (
    TemplateSection("", Config, {"default_upstream": '"local"'}),
    TemplateSection(
        "server",
        ServerConfig,
        {"keys": '["${TOOLGLOT_KEY}"]', "hosts": '["box.example"]', "origins": '["https://app.example"]'},
    ),
    TemplateSection(
        "upstreams.openrouter",
        UpstreamConfig,
        {"key": '"${OPENROUTER_API_KEY}"'},
        "An upstream named after a vendor needs only a key, which can also come from the environment.",
        ("key",),
    ),
    TemplateSection(
        "[upstreams.openrouter.pool]",  # one of several tables
        PoolMemberConfig,
        {
            "name": '"second-key"',
            "key": '"${SECOND_KEY:-none}"',
            "base_url": '"https://openrouter.ai/api/v1"',
            "headers": '{ x-title = "blue" }',
            "quota_group": '"blue-team"',
        },
    ),
    TemplateSection(
        "upstreams.local",
        UpstreamConfig,
        {
            "vendor": '"vllm"',
            "dialect": f'"{DEFAULT}"',
            "base_url": '"http://127.0.0.1:8000/v1"',
            "key": '"${LOCAL_KEY:-none}"',
            "key_header": '"authorization"',
            "headers": '{ x-team = "blue" }',
            "models": '["qwen3-coder", "llama-*"]',
            "default_model": '"qwen3-coder"',
            "quirks": "{ max_tools = 128 }",
            "verbatim": "true",
            "max_history_messages": "100",
            "max_tool_results": "20",
            "refresh_token": '"${WARP_REFRESH_TOKEN:-none}"',
            "refresh_key": '"${WARP_REFRESH_KEY:-none}"',
        },
        "Any other server. `dialect` and `base_url` are sufficient.",
        without=("pool",),
    ),
    TemplateSection(
        "upstreams.local.history",
        HistoryPolicy,
        _HISTORY,
        "How much of a conversation to send to this upstream. Models can have the same fields.",
        ("max_tokens", "continuation"),
    ),
    TemplateSection("upstreams.local.timeouts", Timeouts),
    TemplateSection("upstreams.local.retries", Retries),
    TemplateSection("upstreams.local.breaker", BreakerConfig),
    TemplateSection(
        'models."claude-*"',
        ModelConfig,
        {
            "upstream": '"local"',
            "model": '"qwen3-coder"',
            "fallbacks": '["openrouter/anthropic/claude-*"]',
            "context_window": "131072",
            "max_output_tokens": "32768",
            "quirks": "{ max_tools = 128 }",
            "history": '"cline_xml"',
            "mcp": '["notes"]',
        },
        "Route for a model name. Here, all models that Claude Code requests go to a local model, then to OpenRouter.",
    ),
    TemplateSection(
        'prices."local/qwen3-coder"',
        PriceConfig,
        {"input": "0.0", "output": "0.0", "cache_read": "0.0", "cache_write": "0.0", "cache_write_long": "0.0"},
    ),
    TemplateSection("mcp", McpConfig),
    TemplateSection(
        "mcp.servers.notes",
        McpServerConfig,
        {
            "command": '"npx"',
            "args": '["-y", "@modelcontextprotocol/server-filesystem", "/srv/notes"]',
            "env": '{ LOG_LEVEL = "error" }',
            "cwd": '"/srv/notes"',
            "tools": '{ read_file = "auto", "delete_*" = "never" }',
        },
        "An MCP server that the gateway starts.",
        without=("url", "headers"),
    ),
    TemplateSection(
        "mcp.servers.search",
        McpServerConfig,
        {"url": '"https://search.example/mcp"', "headers": '{ authorization = "Bearer ${SEARCH_TOKEN:-none}" }'},
        "A remote MCP server.",
        ("url", "headers"),
    ),
    TemplateSection("history", HistoryPolicy, _HISTORY),
    TemplateSection("limits", Limits),
    TemplateSection("store", StoreConfig, {"path": '":memory:"'}),
    TemplateSection(
        "team",
        TeamConfig,
        {
            "database": '"/var/lib/toolglot/team.sqlite3"',
            "admins": '{ anna = "${TOOLGLOT_ADMIN_KEY:-none}" }',
            "viewers": '{ grafana = "${TOOLGLOT_VIEWER_KEY:-none}" }',
            "admin_groups": '["platform"]',
            "viewer_groups": '["engineering"]',
            "spool": '"/var/lib/toolglot/spool"',
            "limits": '"redis://:${REDIS_PASSWORD:-none}@redis.example:6379/0"',
            "pepper": '"${TOOLGLOT_PEPPER:-none}"',
        },
        without=("proxy", "oidc"),
    ),
    TemplateSection(
        "team.oidc",
        OidcConfig,
        {
            "issuer": '"https://login.example"',
            "client_id": '"toolglot"',
            "client_secret": '"${TOOLGLOT_OIDC_SECRET:-none}"',
            "redirect_url": '"https://box.example/auth/callback"',
        },
    ),
    TemplateSection("team.proxy", ProxyConfig, {"secret": '"${TOOLGLOT_PROXY_SECRET:-none}"'}),
    TemplateSection(
        "record",
        RecordConfig,
        {
            "directory": '"recordings"',
            "models": '["claude-*"]',
            "keys": '["key-1"]',
            "redact": "['[a-z.]+@[a-z.]+']",
        },
    ),
    TemplateSection("log", LogConfig),
)


def template() -> str:
    """Return the whole file."""
    return "\n".join([HEAD, *("\n".join([*_section(section), ""]) for section in SECTIONS)])


def _section(section: TemplateSection) -> Iterator[str]:
    if section.table:
        yield from _prose(section.prose or (section.record.__doc__ or ""))
        yield f"#[{section.table}]"
    told = dict(docstrings(section.record))
    for field in fields(section.record):
        if isinstance(field.default, Struct) or (section.record in (Config, McpConfig) and field.default is NODEFAULT):
            continue  # a table of its own
        if field.name in section.without or (section.only and field.name not in section.only):
            continue
        yield from _prose("" if section.only else told.get(field.name, ""))
        example = section.examples.get(field.name)
        if example is not None:
            yield f"#{field.name} = {example}  # an example"
        else:
            yield f"#{field.name} = {_toml(field.default)}"


def _prose(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")


def _toml(value: Any) -> str:
    """Format a default. JSON strings, numbers and booleans are also valid TOML."""
    return json.encode_text(value)
