"""What of MCP servers no log may say, and what may stand there all the same."""

from __future__ import annotations

import pytest

from toolglot.config.schema import Config, McpConfig, McpServerConfig
from toolglot.config.secrets import mcp_secrets


def secrets_of(server: McpServerConfig) -> tuple[str, ...]:
    return mcp_secrets(Config(mcp=McpConfig(servers={"a": server})))


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("GITHUB_TOKEN", "ghp_16C7e42F292c6912E7", True),
        ("DB_PASSWORD", "correcthorse", True),
        ("SESSION", "/looks/like/a/path", True),
        ("NOTHING_TELLING", "ghp_16C7e42F292c6912E7", True),
        ("API_KEY", "short", False),
        ("NODE_ENV", "production", False),
        ("TIMEOUT", "600000", False),
        ("FOLDER", "/home/me/my notes", False),
        ("FOLDER", "~/notes", False),
        ("FOLDER", r"C:\Users\me", False),
        ("BASE_URL", "https://api.example/v1", False),
        ("BASE", "/abc+def/ghi==", True),
    ],
)
def test_a_variable_is_a_secret_by_its_name_or_by_its_looks(name: str, value: str, is_secret: bool) -> None:
    assert secrets_of(McpServerConfig(command="s", env={name: value})) == ((value,) if is_secret else ())


@pytest.mark.parametrize(
    ("server", "secrets"),
    [
        (
            McpServerConfig(url="https://h", headers={"Authorization": "Bearer abc-123", "x": "tiny"}),
            ("Bearer abc-123", "abc-123"),
        ),
        (McpServerConfig(url="https://h/mcp?apiKey=abc-123&page=second"), ("abc-123",)),
        (
            McpServerConfig(command="s", env={"PG": "postgres://me:p%40ssword@h/db"}),
            ("p%40ssword", "p@ssword"),
        ),
        (
            McpServerConfig(command="s", args=("--api-key", "abc-123", "--root", "/srv", "--token=def-456", "plain-1")),
            ("abc-123", "def-456"),
        ),
        (McpServerConfig(command="s", args=("postgres://me:password1@h", "--key", "--other")), ("password1",)),
        (McpServerConfig(command="s", args=("http://[",)), ()),
    ],
)
def test_headers_addresses_and_arguments_have_secrets_too(server: McpServerConfig, secrets: tuple[str, ...]) -> None:
    assert secrets_of(server) == secrets
    assert not any(secret in repr(server) for secret in secrets)


def test_an_address_is_printed_without_what_it_asks() -> None:
    shown = repr(McpServerConfig(url="https://h/mcp?key=abc"))
    assert "url='https://h/mcp?(hidden)'" in shown
    assert "url='https://h/mcp'" in repr(McpServerConfig(url="https://h/mcp"))
