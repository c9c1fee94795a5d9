"""What of MCP servers no log may say, and what may stand there all the same."""

from __future__ import annotations

import pytest

from toolglot.config.schema import Config, McpConfig, McpServerConfig, TeamConfig
from toolglot.config.secrets import credentials_of, header_secrets, mcp_secrets, team_secrets


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
        ("GITHUB_PAT", "lettersonly", True),
        ("githubPat", "lettersonly", True),
        ("SMTP_PASS", "lettersonly", True),
        ("SSH_PASSPHRASE", "lettersonly", True),
        ("PRIVATE_DATA", "lettersonly", True),
        ("PATH_PATTERN", "lettersonly", False),
        ("BYPASS", "lettersonly", False),
        ("GIT_AUTHOR_NAME", "lettersonly", False),
        ("AUTHORIZATION", "lettersonly", True),
        ("AUTH_MODE", "bearer", False),
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


@pytest.mark.parametrize(
    ("server", "credentials"),
    [
        (
            McpServerConfig(
                url="https://someone:hunter2hunter@h/v1/s/Ab3dE5gH7jK9mN1pQ3sT/mcp?api_key=abc-123&page=second",
                headers={"X-Api-Key": "def-456", "Authorization": "Basic Zm9vOmJhcg==", "X-Team": "our-team"},
            ),
            {"someone", "hunter2hunter", "Ab3dE5gH7jK9mN1pQ3sT", "abc-123", "def-456", "Zm9vOmJhcg=="},
        ),
        (McpServerConfig(url="https://abc-123@h/a-server-for-documentation-v2"), {"abc-123"}),
        (McpServerConfig(command="s", env={"ID": "1b4e28ba-2fa1-11d2", "URL": "https://me:abc-123@h/x"}), {"abc-123"}),
        (McpServerConfig(command="s", args=("--token", "abc-123", "--root", "def-456")), {"abc-123"}),
    ],
)
def test_a_model_sees_nothing_that_is_a_secret_by_its_name_or_place(
    server: McpServerConfig, credentials: set[str]
) -> None:
    assert set(credentials_of(server)) == credentials
    assert credentials <= set(secrets_of(server))


def test_an_address_is_printed_without_what_it_asks() -> None:
    shown = repr(McpServerConfig(url="https://h/mcp?key=abc"))
    assert "url='https://h/mcp?(hidden)'" in shown
    assert "url='https://h/mcp'" in repr(McpServerConfig(url="https://h/mcp"))


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("x-role", "assistant", False),
        ("x-kind", "messages", False),
        ("x-env", "production", False),
        ("x-version", "1.0.0", False),
        ("x-year", "2024", False),
        ("accept", "application/json, text/event-stream", False),
        ("content-type", "application/json; charset=utf-8", False),
        ("http-referer", "https://example.test/app", False),
        ("x-auth-mode", "bearer", False),
        ("http-referer", "https://me:hunter22@example.test/app", True),
        ("x-api-key", "assistant", True),
        ("x-session", "abcdefgh", True),
        ("x-extra", "Custom abcdefgh", True),
        ("x-extra", "abc-123456", True),
        ("x-extra", "12345678901234", True),
    ],
)
def test_an_ordinary_value_of_an_ordinary_header_is_no_secret(name: str, value: str, is_secret: bool) -> None:
    assert (value in header_secrets({name: value})) == is_secret


def test_passwords_of_a_teams_servers_reach_no_log() -> None:
    team = TeamConfig(database="postgresql://u:p%40ssword@db.example/x", limits="redis://:rediss-word@cache.example/0")
    assert team_secrets(team) == ("p@ssword", "rediss-word")
    assert "ssword" not in repr(team)
    assert "rediss-word" not in repr(team)
