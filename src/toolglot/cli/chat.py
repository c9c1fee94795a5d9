"""`toolglot chat`: talk to any configured model in the terminal, with the tools of MCP servers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from toolglot.cli.parameters import decode_chunks, exit_bad_config, read_chunks
from toolglot.config.problems import ConfigError
from toolglot.server.startup import StartOptions


@click.command(short_help="Talk to a model in the terminal.")
@click.option("--model", metavar="NAME", help="The model; /model switches to another one later.")
@click.option("--system", metavar="TEXT", default="", help="The system text.")
@click.option("--effort", metavar="LEVEL", help="How much the model is to reason: low, medium, high …")
@click.option("--print", "prompt", metavar="PROMPT", help="Print one answer and end; `-` reads standard input.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="toolglot.toml or .yaml.")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="DIALECT=URL",
    help="Send all that nothing else claims there. Repeatable.",
)
@click.option(
    "--upstream-key-env", "key_variables", multiple=True, metavar="NAME", help="The variable with that upstream's key."
)
@click.option("--discover/--no-discover", default=None, help="Look for keys in the environment and for local servers.")
@click.option(
    "--mcp-config",
    "mcp_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with `mcpServers` in it. Repeatable.",
)
@click.option("--mcp", multiple=True, metavar="NAME", help="Attach this MCP server alone. Repeatable.")
@click.option("--example-tools/--no-example-tools", default=None, help="The tools of the MCP server that is bundled.")
@click.option("--no-tools", is_flag=True, help="Attach no MCP server.")
@click.option("--demo-dialect", metavar="DIALECT", help="The dialect that the demo upstream speaks.")
@click.option("--demo-pace", type=click.Choice(["human", "none"]), default="human", help="How fast the demo streams.")
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
    """Talk to a model, and let it use tools of MCP servers: those that change something ask you first.

    Without a key and without a configuration the demo answers, with the tools of a small MCP server that is bundled.
    With --print, or where standard input is no terminal, one answer is printed.

    Exit status: 0 done, 1 no answer came or could be written, 2 a file or an option is not as it should be, 130 Ctrl-C.
    """
    if no_tools and (mcp or mcp_files or example_tools):
        raise click.UsageError("--no-tools leaves nothing for --mcp, --mcp-config and --example-tools")
    _check_encoding({"--model": model, "--system": system, "--effort": effort, "--print": prompt})
    said = None if prompt is None and sys.stdin is not None and sys.stdin.isatty() else _read_prompt(prompt)
    _reopen_closed_streams()
    # These imports load the gateway, which takes a moment.
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
        raise click.UsageError("there is nothing to answer: standard input is closed")
    said = prompt if prompt not in (None, "-") else "".join(decode_chunks(read_chunks(Path("-")), Path("-")))
    if not said or not said.strip():
        raise click.UsageError("there is nothing to answer: the prompt is empty")
    return said.strip("\n")


def _check_encoding(options: Mapping[str, str | None]) -> None:
    """Python keeps bytes that are not UTF-8 on a command line as surrogates, which no API accepts."""
    for name, value in options.items():
        try:
            (value or "").encode()
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{name}: invalid UTF-8 at character {error.start}") from None


def _reopen_closed_streams() -> None:
    """Python has no stream object for a closed stream."""
    if sys.stdout is None:
        raise click.UsageError("standard output is closed: there is no place for an answer")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until everything has ended)
