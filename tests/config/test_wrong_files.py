"""Every kind of wrong file, and the lines that a person gets to see about it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from toolglot.config import documents
from toolglot.config.load import read_config
from toolglot.config.problems import ConfigError

SECRET = "sk-very-secret"
ENVIRON = {"OPENAI_API_KEY": SECRET, "PORT": "99999", "WORD": SECRET, "EMPTY": ""}
ELSEWHERE = "`toolglot config import FILE` converts it; see `Coming from …` in docs/configuration.md"


class Wrong(NamedTuple):
    what: str
    file: str
    text: str | bytes
    problems: list[str]


_MODEL = '[models.m]\nupstream = "demo"\n'

WRONG = [
    Wrong(
        "servers of a team",
        "a.toml",
        '[team]\ndatabase = "mysql://db/x"\nlimits = "memcached://cache"\n',
        [
            "a.toml:2:1: team.database: expected a file, or a URL that begins with postgresql:// or postgres://",
            "a.toml:3:1: team.limits: expected a file, or a URL that begins with redis:// or rediss:// or unix://",
        ],
    ),
    Wrong(
        "prices that say too little",
        "a.toml",
        '[prices.mine]\ninput = 1\n[prices."local/mine"]\noutput = 1\n[prices.yours]\ninput = 0\noutput = 0\n'
        '[prices."up/yours"]\noutput = 1\n[prices."gpt-5.2"]\ninput = 1\n[prices.empty]\n',
        [
            f"a.toml:{line}: prices.{name}: the table of prices has no such model, so `input` and `output` are needed; "
            "`toolglot prices` lists the models"
            for line, name in (("1:9", "mine"), ("3:9", '"local/mine"'), ("12:9", "empty"))
        ],
    ),
    Wrong(
        "a price that is none",
        "a.toml",
        '[prices.m]\ninput = -1\noutput = "free"\ncached = 2\n',
        [
            "a.toml:2:1: prices.m.input: expected a number >= 0.0",
            "a.toml:3:1: prices.m.output: expected a number or nothing, got text",
            "a.toml:4:1: prices.m.cached: unknown field; did you mean `cache_read`?",
        ],
    ),
    Wrong(
        "a way to give tools",
        "a.toml",
        _MODEL + 'tools = "natve"\n',
        ["a.toml:3:1: models.m.tools: there is no text format `natve`; did you mean `native`?"],
    ),
    Wrong(
        "a text format",
        "a.toml",
        _MODEL + 'tools = "hermes-xml"\nrescue = "qwen-coder"\nhistory = "cline-xml"\n',
        [
            "a.toml:3:1: models.m.tools: there is no text format `hermes-xml`; did you mean `hermes_json`?",
            "a.toml:4:1: models.m.rescue: there is no text format `qwen-coder`; did you mean `qwen3_coder`?",
            "a.toml:5:1: models.m.history: there is no text format `cline-xml`; did you mean `cline_xml`?",
        ],
    ),
    Wrong(
        "a rescue beside a text format",
        "a.toml",
        _MODEL + 'tools = "hermes_json"\nrescue = true\n',
        [
            "a.toml:4:1: models.m.rescue: no effect with `tools = hermes_json`: all calls of this model are "
            "text; it applies only to models with native calls"
        ],
    ),
    Wrong(
        "a history that is native",
        "a.toml",
        _MODEL + 'history = "anthropic-xmls"\nrescue = 1\nbad_calls = "retry"\n',
        [
            "a.toml:3:1: models.m.history: there is no text format `anthropic-xmls`; did you mean `anthropic_xml`?",
            "a.toml:4:1: models.m.rescue: expected true or false or text, got a whole number",
            "a.toml:5:1: models.m.bad_calls: `retry` is not a valid choice; there are pass, ask, fail",
        ],
    ),
    Wrong(
        "toml syntax",
        "a.toml",
        "[server]\nport 4141\n",
        ["a.toml:2:6: not TOML: expected '=' after a key in a key/value pair"],
    ),
    Wrong(
        "toml ends early",
        "a.toml",
        "\n[server\n",
        ["a.toml:2:8: not TOML: expected ']' at the end of a table declaration"],
    ),
    Wrong(
        "toml key twice",
        "a.toml",
        "strict = true\nstrict = false\n",
        ["a.toml:2:15: not TOML: cannot overwrite a value"],
    ),
    Wrong("toml long number", "a.toml", "a = " + "9" * 5000, ["a.toml: not TOML: a number is too long"]),
    Wrong("toml depth", "a.toml", "a = " + "[" * 100_000, ["a.toml: nested too deeply"]),
    Wrong(
        "yaml syntax",
        "a.yaml",
        "server:\n  port: [1\nlog: 3\n",
        ["a.yaml:3:4: not YAML: expected ',' or ']', but got ':'"],
    ),
    Wrong(
        "yaml tab",
        "a.yaml",
        "server:\n\tport: 1\n",
        ["a.yaml:2:1: not YAML: found character '\\t' that cannot start any token"],
    ),
    Wrong(
        "yaml character",
        "a.yaml",
        "server:\n  host: \x07\n",
        ["a.yaml:2: not YAML: special characters are not allowed"],
    ),
    Wrong("yaml key twice", "a.yml", "server:\n  port: 1\n  port: 2\n", ["a.yml:3:3: server.port: duplicate field"]),
    Wrong(
        "yaml object",
        "a.yaml",
        "server: !!python/object:os.system {}\n",
        ["a.yaml:1:9: server: only plain values are allowed here"],
    ),
    Wrong(
        "yaml two documents",
        "a.yaml",
        "strict: true\n---\nstrict: false\n",
        ["a.yaml:2:1: not YAML: but found another document"],
    ),
    Wrong("yaml unknown alias", "a.yaml", "server: *base\n", ["a.yaml:1:9: not YAML: found undefined alias 'base'"]),
    Wrong(
        "yaml date",
        "a.yaml",
        "default_upstream: 2026-13-45\n",
        ["a.yaml:1:19: default_upstream: not YAML: invalid value"],
    ),
    Wrong("yaml loop", "a.yaml", "models: &a\n  x: *a\n", ["a.yaml:1:9: aliases or nesting make this too large"]),
    Wrong("yaml name", "a.yaml", "models:\n  [a, b]: 1\n", ["a.yaml:2:3: models: a name must be text"]),
    Wrong("no table", "a.yaml", "- 1\n- 2\n", ["a.yaml:1: expected named fields, such as `upstreams`"]),
    Wrong("not utf-8", "a.toml", b"a = 1\nb = '\xff'\n", ["a.toml:2: not UTF-8"]),
    Wrong("unknown format", "a.json", "{}", ["a.json: the file's name must end in .toml, .yaml, .yml"]),
    Wrong(
        "a LiteLLM configuration",
        "config.yaml",
        "model_list:\n  - model_name: gpt-4o\n    litellm_params: {model: openai/gpt-4o}\n",
        [f"config.yaml: this is a configuration of LiteLLM; {ELSEWHERE}"],
    ),
    Wrong(
        "MCP servers alone",
        ".mcp.json",
        '{"mcpServers": {}}',
        [".mcp.json: this file has MCP servers, not a configuration; use `--mcp-config FILE`, or `files` under `mcp`"],
    ),
    Wrong(
        "a claude-code-router configuration",
        "config.json",
        '{"LOG": true, // mine\n "Providers": [], "Router": {}}',
        [f"config.json: this is a configuration of claude-code-router; {ELSEWHERE}"],
    ),
    Wrong(
        "server",
        "a.toml",
        "[server]\nhosts = ['http://foo.com/', '*', '*.x.example', 'box:80', '::1', '[::1]:80', 'a b', 'http://[']\n"
        "origins = ['foo.com', 'https://a.example/x', 'vscode-webview://abc', 'https://b.example:8443/', '*', 'a b']\n"
        f"keys = ['{SECRET}', ' {SECRET}', 'a b', '{SECRET}']\n",
        [
            "a.toml:2:10: server.hosts[0]: expected a host name; did you mean `foo.com`?",
            "a.toml:2:78: server.hosts[6]: expected a host name; such as `box.example`",
            "a.toml:2:85: server.hosts[7]: expected a host name; such as `box.example`",
            "a.toml:3:12: server.origins[0]: expected an origin: a scheme, a host and an optional port; "
            "did you mean `https://foo.com`?",
            "a.toml:3:23: server.origins[1]: expected an origin: a scheme, a host and an optional port; "
            "did you mean `https://a.example`?",
            "a.toml:3:102: server.origins[5]: expected an origin: a scheme, a host and an optional port; "
            "such as `https://app.example`",
            "a.toml:4:27: server.keys[1]: a key must not contain spaces or line breaks",
            "a.toml:4:46: server.keys[2]: a key must not contain spaces or line breaks",
            "a.toml:4:53: server.keys[3]: duplicate key",
        ],
    ),
    Wrong(
        "the demo's name",
        "a.toml",
        "[upstreams.demo]\nbase_url = 'http://h'\n",
        ["a.toml:2:1: upstreams.demo.base_url: `demo` is reserved for the demo; choose another name"],
    ),
    Wrong(
        "too large",
        "a.toml",
        "#" * (documents.MAX_BYTES + 1),
        ["a.toml: more than 1048576 bytes: too large for a configuration"],
    ),
    Wrong(
        "half of what renews a token",
        "a.toml",
        "[upstreams.warp]\nkey = 'k'\nrefresh_token = 'r'\nrefresh_url = 'tokens'\nwarp_history = 'none'\n",
        [
            "a.toml:3:1: upstreams.warp.refresh_token: `refresh_key` is missing: both are needed",
            "a.toml:4:1: upstreams.warp.refresh_url: a base URL must start with http:// or https://",
            "a.toml:5:1: upstreams.warp.warp_history: `none` is not a valid choice; there are replay, native, text",
        ],
    ),
    Wrong(
        "histories",
        "a.toml",
        "[history]\nresult_bytes = 100\ncut_to = 0\nmax_token = 1\n"
        "[upstreams.openai]\nkey = 'k'\nmax_history_messages = 5\n"
        "[upstreams.openai.history]\nmax_messages = 6\ncalls = 'cline-xml'\n"
        + _MODEL
        + "[models.m.history]\nmax_images = -1\ncontinuation = ''\n",
        [
            "a.toml:2:1: history.result_bytes: a truncated result needs at least 256 bytes: its start, its end "
            "and a line between them; 0 means no limit",
            "a.toml:3:1: history.cut_to: expected a number >= 0.1",
            "a.toml:4:1: history.max_token: unknown field; did you mean `max_tokens`?",
            "a.toml:7:1: upstreams.openai.max_history_messages: `history.max_messages` of this upstream sets "
            "the same limit; remove one of them",
            "a.toml:10:1: upstreams.openai.history.calls: there is no text format `cline-xml`; did you mean "
            "`cline_xml`?",
            "a.toml:14:1: models.m.history.max_images: expected a whole number >= 0",
            "a.toml:15:1: models.m.history.continuation: must not be empty; omit the field instead",
        ],
    ),
    Wrong(
        "a history that is neither a format nor a table",
        "a.toml",
        _MODEL + "history = 7\n",
        ["a.toml:3:1: models.m.history: expected text or a table of names and values or nothing, got a whole number"],
    ),
    Wrong(
        "unknown fields, near and far",
        "a.toml",
        "[upstream.x]\n[server]\nprot = 1\n[upstreams.openai]\napi_key = 'x'\nbaseURL = 'y'\nzzz = 1\n",
        [
            "a.toml:1:2: upstream: unknown field; did you mean `upstreams`?",
            "a.toml:3:1: server.prot: unknown field; did you mean `port`?",
            "a.toml:5:1: upstreams.openai.api_key: unknown field; did you mean `key`?",
            "a.toml:6:1: upstreams.openai.baseURL: unknown field; did you mean `base_url`?",
            "a.toml:7:1: upstreams.openai.zzz: unknown field; there are vendor, dialect, base_url, key, "
            "key_header, headers, models, default_model, quirks, verbatim, cache_marks, max_history_messages, "
            "max_tool_results, "
            "warp_history, disable_warp_tools, refresh_token, refresh_key, refresh_url, replay_speed, history, "
            "timeouts, retries, breaker, pool",
        ],
    ),
    Wrong(
        "types",
        "a.yaml",
        "server:\n  host: 7\n  port: high\n  keys: one\nupstreams: [1]\nstrict: 'yes'\nlog: {level: loud}\n",
        [
            "a.yaml:2:3: server.host: expected text, got a whole number",
            "a.yaml:3:3: server.port: expected a whole number, got text",
            "a.yaml:4:3: server.keys: expected a list, got text",
            "a.yaml:5:1: upstreams: expected a table of names and values, got a list",
            "a.yaml:6:1: strict: expected true or false, got text",
            "a.yaml:7:7: log.level: `loud` is not a valid choice; there are debug, info, warning, error",
        ],
    ),
    Wrong(
        "ranges",
        "a.toml",
        "server.port = 70000\nlimits.body = 0\n[upstreams.openai]\nretries = { attempts = 0 }\n"
        "timeouts = { idle = -1, connect = nan, first_byte = inf }\nbreaker.rest = -0.5\n",
        [
            "a.toml:1:8: server.port: expected a whole number <= 65535",
            "a.toml:2:8: limits.body: expected a whole number >= 1",
            "a.toml:4:13: upstreams.openai.retries.attempts: expected a whole number >= 1",
            "a.toml:5:14: upstreams.openai.timeouts.idle: expected seconds, more than 0",
            "a.toml:5:25: upstreams.openai.timeouts.connect: expected seconds, more than 0",
            "a.toml:5:40: upstreams.openai.timeouts.first_byte: expected seconds, more than 0",
            "a.toml:6:9: upstreams.openai.breaker.rest: expected a number >= 0.0",
        ],
    ),
    Wrong(
        "references",
        "a.toml",
        "[server]\nport = '${PORT}'\nkeys = ['${NOBODY}', '${WORD', '${EMPTY}', 'file:missing']\n"
        "[log]\nlevel = '${WORD}'\n[upstreams.openai]\nkey = '${OPENAI_API_KEYS}'\n",
        [
            "a.toml:2:1: server.port: expected a whole number <= 65535",
            "a.toml:3:9: server.keys[0]: the environment variable NOBODY is not set; "
            "set it, or add a default: `${NOBODY:-default}`",
            "a.toml:3:22: server.keys[1]: incomplete reference: `${` needs a name and `}`; "
            "write `$${` for a plain `${`",
            "a.toml:3:32: server.keys[2]: must not be empty; omit the field instead",
            "a.toml:3:44: server.keys[3]: missing: no such file or directory",
            "a.toml:5:1: log.level: this is not a valid choice; there are debug, info, warning, error",
            "a.toml:7:1: upstreams.openai.key: the environment variable OPENAI_API_KEYS is not set; "
            "did you mean `OPENAI_API_KEY`?",
        ],
    ),
    Wrong(
        "upstreams",
        "a.toml",
        "[upstreams.a]\nvendor = 'opnai'\n[upstreams.b]\ndialect = 'openai-chatt'\nbase_url = 'ftp://x'\n"
        "[upstreams.c]\n[upstreams.grok]\ndialect = 'gemini'\n[upstreams.azure]\n[upstreams.'a/b']\nvendor = 'groq'\n",
        [
            "a.toml:2:1: upstreams.a.vendor: there is no vendor `opnai`; did you mean `openai`?",
            "a.toml:4:1: upstreams.b.dialect: there is no dialect `openai-chatt`; did you mean `openai_chat`?",
            "a.toml:5:1: upstreams.b.base_url: a base URL must start with http:// or https://",
            "a.toml:6:12: upstreams.c: `dialect` and `base_url` are missing; or name a `vendor`",
            "a.toml:7:12: upstreams.grok: `base_url` is missing; did you mean `groq`?",
            "a.toml:9:12: upstreams.azure: `base_url` is missing; Azure OpenAI has no address shared by all customers",
            'a.toml:10:12: upstreams."a/b": an upstream\'s name may contain only letters, digits, `.`, `_` and `-`',
        ],
    ),
    Wrong(
        "addresses",
        "a.yaml",
        "upstreams:\n"
        f"  a: {{dialect: gemini, base_url: 'http://me:{SECRET}@host/v1'}}\n"
        f"  b: {{dialect: gemini, base_url: 'http://host/v1?key={SECRET}'}}\n"
        "  c: {dialect: gemini, base_url: 'http://host:99999'}\n"
        "  d: {dialect: gemini, base_url: 'https:///v1'}\n"
        "  e: {dialect: gemini, base_url: 'http://a b'}\n",
        [
            "a.yaml:2:24: upstreams.a.base_url: no credentials in a URL; use `key`",
            "a.yaml:3:24: upstreams.b.base_url: a base URL must not have a query or a fragment",
            "a.yaml:4:24: upstreams.c.base_url: this is not a URL",
            "a.yaml:5:24: upstreams.d.base_url: this URL has no host",
            "a.yaml:6:24: upstreams.e.base_url: a URL must not contain spaces",
        ],
    ),
    Wrong(
        "headers",
        "a.yaml",
        f'upstreams:\n  openai:\n    key: "{SECRET}\\n"\n    key_header: "a b"\n'
        f'    headers:\n      "x y": a\n      x-z: "{SECRET}\\r\\nb: c"\n',
        [
            "a.yaml:3:5: upstreams.openai.key: invalid header value: it contains a line break or another "
            "control character",
            "a.yaml:4:5: upstreams.openai.key_header: invalid header name",
            'a.yaml:6:7: upstreams.openai.headers."x y": invalid header name',
            "a.yaml:7:7: upstreams.openai.headers.x-z: invalid header value: it contains a line break or "
            "another control character",
        ],
    ),
    Wrong(
        "models that lead nowhere",
        "a.toml",
        "default_upstream = 'lokal'\ndiscover = false\n[upstreams.local]\ndialect = 'gemini'\nbase_url = 'http://h'\n"
        "[upstreams.other]\ndialect = 'gemini'\nbase_url = 'http://h'\n"
        "[models.a]\nupstream = 'groq'\n[models.b]\n[models.c]\nupstream = 'local'\nfallbacks = ['d', 'demos']\n",
        [
            "a.toml:1:1: default_upstream: there is no upstream `lokal`; did you mean `local`?",
            "a.toml:10:1: models.a.upstream: there is no upstream `groq`; write an upstream `groq`",
            "a.toml:11:9: models.b: `upstream` is missing",
            "a.toml:14:14: models.c.fallbacks[0]: no upstream serves `d`",
            "a.toml:14:19: models.c.fallbacks[1]: no upstream serves `demos`; did you mean `demo`?",
        ],
    ),
    Wrong(
        "patterns",
        "a.yaml",
        "models:\n  'a b': {upstream: demo}\n  'a**': {upstream: demo}\n  '*a*b*c*d*e': {upstream: demo}\n"
        "  'claude-*': {upstream: demo, model: '*-*', fallbacks: ['demo/*/*']}\n"
        "  plain: {upstream: demo, model: 'x-*'}\nupstreams:\n  openai: {models: ['', 'x y']}\n",
        [
            'a.yaml:2:3: models."a b": a model name must not be empty or contain spaces',
            'a.yaml:3:3: models."a**": one `*` already matches any text',
            'a.yaml:4:3: models."*a*b*c*d*e": a pattern has at most 4 `*`',
            'a.yaml:5:32: models."claude-*".model: more `*` than in the name claude-*',
            'a.yaml:5:58: models."claude-*".fallbacks[0]: more `*` than in the name claude-*',
            "a.yaml:6:27: models.plain.model: more `*` than in the name plain",
            "a.yaml:8:21: upstreams.openai.models[0]: must not be empty; omit the field instead",
        ],
    ),
    Wrong(
        "fallbacks in circles",
        "a.yaml",
        "models:\n  a: {upstream: demo, fallbacks: [b]}\n  b: {upstream: demo, fallbacks: [c, a]}\n"
        "  c: {upstream: demo, fallbacks: [c]}\n",
        [
            "a.yaml:2:23: models.a.fallbacks: this is a cycle: a -> b -> a",
            "a.yaml:3:23: models.b.fallbacks: this is a cycle: b -> a -> b",
            "a.yaml:4:23: models.c.fallbacks: this is a cycle: c -> c",
        ],
    ),
    Wrong(
        "quirks",
        "a.toml",
        "[models.a]\nupstream = 'demo'\nquirks = { max_tool = 3, max_tools = 'many', system = 'top', efforts = [1] }\n",
        [
            "a.toml:3:12: models.a.quirks.max_tool: unknown capability; did you mean `max_tools`?",
            "a.toml:3:26: models.a.quirks.max_tools: expected a whole number or nothing, got text",
            "a.toml:3:46: models.a.quirks.system: `top` is not a valid choice; there are anywhere, leading, first, "
            "after_user",
            "a.toml:3:62: models.a.quirks.efforts: expected text, got a whole number",
        ],
    ),
    Wrong(
        "values of quirks",
        "a.toml",
        "[models.a]\nupstream = 'demo'\nquirks = { id_pattern = '(', property_pattern = '[', max_tools = -1 }\n",
        [
            "a.toml:3:12: models.a.quirks.id_pattern: not a regular expression: missing ), unterminated subpattern at "
            "position 0",
            "a.toml:3:30: models.a.quirks.property_pattern: not a regular expression: unterminated character set at "
            "position 0",
            "a.toml:3:54: models.a.quirks.max_tools: must not be negative",
        ],
    ),
    Wrong(
        "MCP servers",
        "a.toml",
        "[mcp.servers.none]\npolicy = 'yes'\n[mcp.servers.both]\ncommand = 's'\nurl = 'https://h'\n"
        f"[mcp.servers.far]\nurl = 'https://me:{SECRET}@h/mcp'\nargs = ['{SECRET}']\nenv = {{ A = 'b' }}\ncwd = '/'\n"
        "[mcp.servers.near]\ncommand = 'npx -y server'\nheaders = { a = 'b' }\n[mcp.servers.odd]\nurl = 'ws://h'\n"
        f"headers = {{ 'a b' = 'c', x = \"{SECRET}\\n\" }}\n[mcp.servers.'a__b']\ncommand = 's'\n"
        f"env = {{ 'a=b' = '{SECRET}' }}\n"
        "tools = { 'a b' = 'auto', '**' = 'auto', '*a*b*c*d*e' = 'ask', c = 'sometimes' }\n"
        "[mcp.servers.'my.server']\ncommand = ''\n",
        [
            "a.toml:1:14: mcp.servers.none: `command` or `url` is missing; set the program to start, or the "
            "address of a running server",
            "a.toml:2:1: mcp.servers.none.policy: `yes` is not a valid choice; there are auto, ask, never",
            "a.toml:5:1: mcp.servers.both.url: set either `command` or `url`, not both",
            "a.toml:7:1: mcp.servers.far.url: no credentials in a URL; use `headers`",
            "a.toml:8:1: mcp.servers.far.args: `args` applies only to a `command`; this server has a `url`",
            "a.toml:9:1: mcp.servers.far.env: `env` applies only to a `command`; this server has a `url`",
            "a.toml:10:1: mcp.servers.far.cwd: `cwd` applies only to a `command`; this server has a `url`",
            "a.toml:12:1: mcp.servers.near.command: this contains arguments, but the command is not run by a "
            "shell; put each argument into `args`",
            "a.toml:13:1: mcp.servers.near.headers: `headers` applies only to a `url`; use `env` for a `command`",
            "a.toml:15:1: mcp.servers.odd.url: the address of an MCP server must start with http:// or https://",
            'a.toml:16:13: mcp.servers.odd.headers."a b": invalid header name',
            "a.toml:16:26: mcp.servers.odd.headers.x: invalid header value: it contains a line break or another "
            "control character",
            "a.toml:17:14: mcp.servers.a__b: an MCP server's name may have up to 32 letters, digits, `-` and "
            "`_`, and no `__`; such as `a_b`",
            'a.toml:19:9: mcp.servers.a__b.env."a=b": invalid variable name',
            'a.toml:20:11: mcp.servers.a__b.tools."a b": a tool name must not be empty or contain spaces',
            'a.toml:20:27: mcp.servers.a__b.tools."**": one `*` already matches any text',
            'a.toml:20:42: mcp.servers.a__b.tools."*a*b*c*d*e": a pattern has at most 4 `*`',
            "a.toml:20:64: mcp.servers.a__b.tools.c: `sometimes` is not a valid choice; there are auto, ask, never",
            'a.toml:21:14: mcp.servers."my.server": an MCP server\'s name may have up to 32 letters, digits, `-` '
            "and `_`, and no `__`; such as `my_server`",
            'a.toml:22:1: mcp.servers."my.server".command: must not be empty; omit the field instead',
        ],
    ),
    Wrong(
        "MCP in other words",
        "a.yaml",
        "mcp_server: {}\nmcp:\n  server: {}\n  servers:\n    a: {command: s, environment: {}, arguments: [], "
        "autoApprove: []}\nmodels:\n  m: {upstream: demo, mcp: [b, filesystem]}\n  n: {upstream: demo, mcp: a}\n"
        "mcpServers: {filesystems: {command: s}, wrong: {type: sse, url: 'http://h'}}\n",
        [
            "a.yaml:1:1: mcp_server: unknown field; did you mean `mcp`?",
            "a.yaml:3:3: mcp.server: unknown field; did you mean `servers`?",
            "a.yaml:5:21: mcp.servers.a.environment: unknown field; did you mean `env`?",
            "a.yaml:5:38: mcp.servers.a.arguments: unknown field; did you mean `args`?",
            "a.yaml:5:53: mcp.servers.a.autoApprove: unknown field; did you mean `tools`?",
            "a.yaml:7:29: models.m.mcp[0]: there is no MCP server `b`; there are a, filesystems, wrong",
            "a.yaml:7:32: models.m.mcp[1]: there is no MCP server `filesystem`; did you mean `filesystems`?",
            "a.yaml:8:23: models.n.mcp: expected a list, got text",
            "a.yaml:9:49: mcpServers.wrong.type: the transport `sse` was replaced in 2025 and is not supported; "
            "most such servers also offer Streamable HTTP: `type: http`",
        ],
    ),
    Wrong(
        "lists of tables",
        "a.toml",
        "[[upstreams]]\nname = 'x'\n[[models]]\n",
        [
            "a.toml:1:3: upstreams: expected a table of names and values, got a list",
            "a.toml:3:3: models: expected a table of names and values, got a list",
        ],
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.what)
def test_a_wrong_file_is_refused_with_all_its_problems(wrong: Wrong) -> None:
    data = wrong.text.encode() if isinstance(wrong.text, str) else wrong.text
    with pytest.raises(ConfigError) as caught:
        read_config(documents.parse_document(data, wrong.file), ENVIRON)
    assert [str(problem) for problem in caught.value.problems] == wrong.problems
    assert str(caught.value) == "\n".join(wrong.problems)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.what)
def test_no_problem_repeats_a_secret(wrong: Wrong) -> None:
    assert SECRET not in "\n".join(wrong.problems)


@pytest.mark.parametrize(
    ("text", "doubts"),
    [
        (
            "[server]\nhost = '0.0.0.0'\n",
            [
                "a.toml:2:1: server.host: refusing to serve on '0.0.0.0' without keys: anyone who can reach this "
                "machine could spend money from your accounts and read stored conversations. Set server.keys, use "
                "`serve --key-env NAME`, or serve on 127.0.0.1 only. With `insecure = true` in [server], it serves "
                "everyone on the network without keys"
            ],
        ),
        ("[server]\nhost = '0.0.0.0'\nkeys = ['k']\n", []),
        (
            "[upstreams.me]\ndialect = 'gemini'\nbase_url = 'http://localhost:4141/v1'\n",
            ["a.toml:3:1: upstreams.me.base_url: this points to the gateway itself, which listens on port 4141"],
        ),
        (
            "[server]\nhost = '192.0.2.7'\nport = 80\nkeys = ['k']\n"
            "[upstreams.me]\ndialect = 'gemini'\nbase_url = 'http://192.0.2.7:80'\n",
            ["a.toml:7:1: upstreams.me.base_url: this points to the gateway itself, which listens on port 80"],
        ),
        ("server.port = 5000\n[upstreams.other]\ndialect = 'gemini'\nbase_url = 'http://localhost:4141/v1'\n", []),
        ("[upstreams.ollama]\n[upstreams.demo]\ndialect = 'gemini'\n", []),
        (
            "[server]\nworkers = 2\n[store]\npath = ':memory:'\n",
            [
                "a.toml:4:1: store.path: a `:memory:` store belongs to one process: with several workers, use a "
                "file or `none`; or use `serve --store FILE`"
            ],
        ),
        ("[server]\nworkers = 2\n[store]\npath = 'none'\n", []),
    ],
)
def test_what_the_command_line_could_mend_is_a_doubt_and_refuses_nothing(text: str, doubts: list[str]) -> None:
    loaded = read_config(documents.parse_document(text.encode(), "a.toml"), ENVIRON)
    assert [str(doubt) for doubt in loaded.doubts] == doubts


def test_an_alias_bomb_is_refused_before_it_goes_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    with pytest.raises(ConfigError, match="aliases or nesting make this too large"):
        documents.parse_document("\n".join(lines).encode(), "a.yaml")
