"""`toolglot chat`: talk to any configured model in the terminal, with the tools of MCP servers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from toolglot.cli.parameters import decode_chunks, exit_bad_config, read_chunks, upstream_key_option
from toolglot.config.problems import ConfigError
from toolglot.server.startup import StartOptions


@click.command(short_help="Talk to a model in the terminal.")
@click.option("--model", metavar="NAME", help="Model to talk to; /model switches to another one later.")
@click.option("--system", metavar="TEXT", default="", help="System prompt.")
@click.option("--effort", metavar="LEVEL", help="Reasoning effort of the model: low, medium, high …")
@click.option(
    "--print", "prompt", metavar="PROMPT", help="Print one answer and exit; `-` reads the prompt from standard input."
)
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration file (TOML or YAML).")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="DIALECT=URL",
    help="Use only this upstream. Repeatable: the first one answers for every model.",
)
@upstream_key_option
@click.option(
    "--discover/--no-discover", default=None, help="Look for API keys in the environment and for local model servers."
)
@click.option(
    "--mcp-config",
    "mcp_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="JSON file with `mcpServers`. Repeatable.",
)
@click.option("--mcp", multiple=True, metavar="NAME", help="Attach only this MCP server. Repeatable.")
@click.option("--example-tools/--no-example-tools", default=None, help="Offer the tools of the bundled MCP server.")
@click.option("--no-tools", is_flag=True, help="Attach no MCP server.")
@click.option("--demo-dialect", metavar="DIALECT", help="Dialect of the demo upstream.")
@click.option(
    "--demo-pace", type=click.Choice(["human", "none"]), default="human", help="Streaming speed of the demo upstream."
)
def chat(
    model: str | None,
    system: str,
    effort: str | None,
    prompt: str | None,
    file: Path | None,
    upstreams: tuple[str, ...],
    key_variables: tuple[str, ...],
    discover: bool | None,
    mcp_files: tuple[Path, ...],
    mcp: tuple[str, ...],
    example_tools: bool | None,
    no_tools: bool,
    demo_dialect: str | None,
    demo_pace: str,
) -> None:
    """Talk to a model that can use the tools of MCP servers. Tools that change something ask you first.

    Without an API key or a configuration, the demo model answers and uses the tools of a small bundled MCP server.
    With --print, or if standard input is not a terminal, the command prints one answer and exits.

    Exit status: 0 success, 1 no answer arrived or it could not be written, 2 invalid file or option, 130 Ctrl-C.
    """
    if no_tools and (mcp or mcp_files or example_tools):
        raise click.UsageError("--no-tools cannot be combined with --mcp, --mcp-config or --example-tools")
    _check_encoding({"--model": model, "--system": system, "--effort": effort, "--print": prompt})
    said = None if prompt is None and sys.stdin is not None and sys.stdin.isatty() else _read_prompt(prompt)
    _reopen_closed_streams()
    # These imports load the gateway, which is slow.
    from toolglot.chat.startup import ChatOptions
    from toolglot.chat.terminal import ChatRequest, print_answer, run_dialogue

    start_options = StartOptions(
        file=file,
        upstreams=upstreams,
        key_variables=key_variables,
        discover=discover,
        demo_dialect=demo_dialect,
        demo_pace=demo_pace,
        mcp_files=mcp_files,
    )
    options = ChatOptions(start_options=start_options, model=model, mcp=mcp, tools=not no_tools, example=example_tools)
    wanted = ChatRequest(options=options, effort=effort, system=system)
    try:
        status = run_dialogue(wanted, os.environ) if said is None else print_answer(wanted, said, os.environ)
    except ConfigError as error:
        exit_bad_config(error.problems)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # everything has ended; another signal would only look like a failure
    sys.exit(status)


def _read_prompt(prompt: str | None) -> str:
    """Return the prompt for one answer, from standard input if none is given."""
    if prompt in (None, "-") and sys.stdin is None:
        raise click.UsageError("no prompt: standard input is closed")
    said = prompt if prompt not in (None, "-") else "".join(decode_chunks(read_chunks(Path("-")), Path("-")))
    if not said or not said.strip():
        raise click.UsageError("the prompt is empty")
    return said.strip("\n")


def _check_encoding(options: Mapping[str, str | None]) -> None:
    """Refuse text that is not UTF-8. Python keeps such bytes on a command line as surrogates, which no API accepts."""
    for name, value in options.items():
        try:
            (value or "").encode()
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{name}: invalid UTF-8 at character {error.start}") from None


def _reopen_closed_streams() -> None:
    """Refuse a closed standard output. Replace a closed standard error, for which Python has no object."""
    if sys.stdout is None:
        raise click.UsageError("standard output is closed: the answer cannot be written")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until everything has ended)
