"""`toolglot health`: check whether a gateway accepts requests, for health checks of containers and scripts."""

from __future__ import annotations

import click

from toolglot.cli.failures import FAILED
from toolglot.cli.running_gateway import ANSWER_TIMEOUT, GatewayAddress, fetch_json

DEFAULT_URL = "http://127.0.0.1:4141"


@click.command(short_help="Check whether a gateway accepts requests.")
@click.option("--url", default=DEFAULT_URL, show_default=True, help="URL of the gateway.")
@click.option("--timeout", type=click.FloatRange(min=0.01), default=ANSWER_TIMEOUT, show_default=True, help="Seconds.")
def health(url: str, timeout: float) -> None:
    """Check whether a running gateway accepts requests. The exit status is 1 if it does not, or if it does not answer.

    No key is needed, and no upstream is called.
    """
    status, answer = fetch_json(GatewayAddress(url.rstrip("/"), ""), "/readyz", timeout)
    word = answer.get("status") if isinstance(answer, dict) else None
    if (status, word) == (200, "ready"):
        click.echo("ready")
        return
    said = word if isinstance(word, str) else f"status {status}" if status else "no answer"
    click.echo(f"toolglot: {url}: {said[:100]}", err=True)
    raise click.exceptions.Exit(FAILED)
