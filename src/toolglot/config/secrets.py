"""What of MCP servers must not reach a log.

Whatever is in here is blotted out wherever it stands. So a value is left out that is no secret and would take half of
a log with it: one that is short (`1`, `true`, `prod`), one plain word, a path. Where the name of a variable, a header
or an option speaks of a secret, any value of six characters counts, whatever it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

from toolglot.config.schema import Config, McpServerConfig

SHORTEST = 6
_NAMED = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie|session|signature|dsn", re.IGNORECASE)
_HARMLESS = re.compile(r"[A-Za-z]+|[0-9.]+|(?:~|\.{0,2}|[A-Za-z]:)[/\\][\w./\\ @-]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]* +(?=\S)")
_OPTION = re.compile(r"-{1,2}([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)


def mcp_secrets(config: Config) -> tuple[str, ...]:
    """Values of environments and headers, and what addresses and arguments hold of credentials; each once."""
    found = [secret for server in config.mcp.servers.values() for secret in _of_server(server)]
    return tuple(dict.fromkeys(secret for secret in found if len(secret) >= SHORTEST))


def _of_server(server: McpServerConfig) -> Iterator[str]:
    for name, value in server.env.items():
        yield from _of_value(name, value)
    for value in server.headers.values():
        yield value
        # Logs may have the credential without the word before it.
        yield _SCHEME.sub("", value, count=1)
    yield from _of_address(server.url or "")
    yield from _of_arguments(server.args)


def _of_value(name: str, value: str) -> Iterator[str]:
    if _NAMED.search(name) or not (_HARMLESS.fullmatch(value) or _is_address(value)):
        yield value
    yield from _of_address(value)


def _is_address(value: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", value, re.IGNORECASE) is not None


def _of_address(url: str) -> Iterator[str]:
    """The password, and what the query says under a telling name."""
    if not _is_address(url):
        return
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))
    for name, value in parse_qsl(parts.query):
        if _NAMED.search(name):
            yield value


def _of_arguments(arguments: Iterable[str]) -> Iterator[str]:
    before = ""
    for argument in arguments:
        option = _OPTION.fullmatch(argument)
        if option is None and before:
            yield from _of_value(before, argument)
        yield from _of_address(argument)
        if option is not None and option[2] is not None and _NAMED.search(option[1]):
            yield option[2]
        before = option[1] if option is not None and option[2] is None and _NAMED.search(option[1]) else ""
