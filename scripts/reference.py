"""Generate the reference pages and `llms.txt` from the code: commands, settings, HTTP endpoints, metrics, Python names.

    python -m scripts.reference

A test fails if a page differs from what this writes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import click

import toolglot
from scripts.docs_site import CONFIG, DOCS, OUTSIDE, ROOT
from toolglot.cli.app import app
from toolglot.config.json_schema import json_schema
from toolglot.dialects import DIALECTS
from toolglot.server.actions import ACTIONS
from toolglot.server.metrics import Counter, Histogram, Metrics, PoolMember
from toolglot.server.routes import ROUTES

WRITTEN = "<!-- Written by `python -m scripts.reference`; do not edit. -->"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page(title: str, lead: str, *parts: str) -> str:
    wrapped = textwrap.fill(lead, 120, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join([f"# {title}", WRITTEN, wrapped, *(part.strip("\n") for part in parts)]) + "\n"


# Commands


def cli_page() -> str:
    lead = (
        "Every command and its options, as `--help` prints them. [The command line](../command-line.md) explains them "
        "with examples."
    )
    return page(
        "Command line reference", lead, *(_command(path, command) for path, command in _commands(app, "toolglot"))
    )


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command, info_name=path)
    for name in command.list_commands(context):
        if (inner := command.get_command(context, name)) is not None:
            yield from _commands(inner, f"{path} {name}")


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```"
    about = inspect.cleandoc(command.help or "").replace("\b\n", "")
    rows = [
        (f"`{' '.join(record[0].split())}`", record[1])
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None and "--help" not in parameter.opts
    ]
    return "\n\n".join([f"## {path}", usage, about, *([table(("option", "meaning"), rows)] if rows else [])])


# Settings


def settings_page() -> str:
    definitions: Mapping[str, Any] = json_schema()["$defs"]
    sections = [
        f"## {title}\n\n{definitions[name].get('description', '')}\n\n{_settings(definitions[name])}"
        for name, title in _sections(definitions)
    ]
    lead = (
        "Every setting of `toolglot.toml` or `toolglot.yaml`. [Configuration](../configuration.md) explains them with "
        "examples; [the JSON Schema](../toolglot.schema.json) is for editors."
    )
    return page("Settings reference", lead, *sections)


def _sections(definitions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The records of the configuration with the tables that hold them, from the outermost inward."""
    found = {"Config": "The file"}
    pending = [("Config", "")]
    while pending:
        name, path = pending.pop(0)
        for member, schema in definitions[name]["properties"].items():
            many = ".NAME" if "additionalProperties" in schema else ""
            for inner in re.findall(r"#/\$defs/(\w+)", str(schema)):
                if inner not in found and "properties" in definitions[inner]:
                    found[inner] = f"[{path}{member}{many}]"
                    pending.append((inner, f"{path}{member}{many}."))
    yield from ((name, f"`{title}`" if title.startswith("[") else title) for name, title in found.items())


def _settings(definition: Mapping[str, Any]) -> str:
    rows = [
        (f"`{name}`", _type(schema), _default(schema), schema.get("description", ""))
        for name, schema in definition["properties"].items()
    ]
    return table(("setting", "type", "default", "meaning"), rows)


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        kinds = [_type(inner) for inner in schema["anyOf"]]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind and kind != "null"))
    if "$ref" in schema:
        return "table"
    kind = schema.get("type", "")
    if isinstance(kind, list):
        return " or ".join(each for each in kind if each != "null")
    return {"object": "table", "array": "list"}.get(kind, str(kind))


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if value is None or value in ({}, [], ()) or "$ref" in schema:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# HTTP


def http_page() -> str:
    groups = [(manifest.name, DIALECTS[manifest.name].title) for manifest in DIALECTS.manifests.values()]
    sections = []
    for name, title in (*groups, (None, "All clients, and operation")):
        rows = [
            (route.method, f"`{route.path}`", _purpose(route), "no" if route.open else "yes")
            for route in ROUTES
            if route.dialect == name
        ]
        sections.append(f"## {title}\n\n{table(('method', 'path', 'purpose', 'needs a key'), rows)}")
    lead = (
        "Every endpoint of [the gateway](../gateway.md). A key is needed only if the gateway has `server.keys`. Paths "
        "work with and without `/v1`, and below a prefix that names the dialect (`/openai`, `/anthropic`, `/gemini`, "
        "`/ollama`)."
    )
    return page("HTTP reference", lead, *sections)


_PURPOSES = {
    ("generate", "POST"): "Ask a model",
    ("count", "POST"): "Count the tokens of a request",
    ("stored", "GET"): "Read what is stored",
    ("stored", "POST"): "Create, change or cancel what is stored",
    ("stored", "DELETE"): "Delete what is stored",
}
"""Of actions whose function serves many routes, or is elsewhere."""


def _purpose(route: Any) -> str:
    if route.action == "function":
        module, _, name = route.function.partition(":")
        about = _first_sentence(getattr(import_module(module), name))
    elif (route.action, route.method) in _PURPOSES:
        about = _PURPOSES[route.action, route.method]
    else:
        about = _first_sentence(ACTIONS[route.action])
    streams = {True: ", streamed", False: ", whole", None: ""}[route.streams]
    return about + streams + (f"; only with `server.{route.setting}`" if route.setting else "")


def _first_sentence(function: Callable[..., Any]) -> str:
    text = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:;]) ", text)[0].rstrip(".:;")


# Metrics


def metrics_page() -> str:
    metrics = Metrics()
    rows = [
        (f"`{metric.name}`", type(metric).__name__.lower(), _labels(metric.labels), metric.text)
        for metric in vars(metrics).values()
        if isinstance(metric, Counter | Histogram)
    ]
    lead = (
        "Everything that `GET /metrics` returns, in Prometheus' text format. Labels are routes, dialects and "
        "upstreams, never user input. Names that begin with `gen_ai_` are those of OpenTelemetry's conventions for "
        "generative AI."
    )
    return page("Metrics reference", lead, table(("metric", "type", "labels", "meaning"), [*rows, *_gauges(metrics)]))


def _gauges(metrics: Metrics) -> Iterator[tuple[str, ...]]:
    members = [PoolMember("NAME", "NAME", 0, is_cooling=False)]
    text = metrics.text(in_flight=0, resting={"NAME": False}, up={"NAME": True}, members=members).decode()
    for name in re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE):
        found = re.search(rf"^# HELP {name} (.*)$", text, re.MULTILINE)
        sample = re.search(rf"^{name}\{{(.*)\}} ", text, re.MULTILINE)
        labels = re.findall(r"(\w+)=", sample[1]) if sample else []
        yield f"`{name}`", "gauge", _labels(labels), found[1] if found else ""


def _labels(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


# Python


def python_page() -> str:
    lead = (
        "Every name that `toolglot` exports. [The library](../library.md) explains them with examples. Everything else "
        "may change between versions, except for the values in `toolglot.ir` and the events in `toolglot.events`."
    )
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Exceptions": [], "Values": []}
    for name in toolglot.__all__:
        if name in _ALIASES:
            continue
        groups[_kind(getattr(toolglot, name))].append(_python(name))
    groups["Types"] = [_alias(module, name) for name, module in _ALIASES.items()]
    return page("Python reference", lead, *("\n\n".join([f"## {kind}", *parts]) for kind, parts in groups.items()))


_ALIASES = {
    "AnyDialect": "toolglot.dialects",
    "DialectName": "toolglot.dialects",
    "Chunk": "toolglot.wire.chunks",
    "Document": "toolglot.wire.json",
    "Fragment": "toolglot.fragments",
}
"""Names of types in signatures that are no classes, with their modules."""


def _alias(module: str, name: str) -> str:
    """A type alias as its module defines it, with the text below it."""
    nodes = ast.parse(inspect.getsource(import_module(module))).body
    for node, after in pairwise([*nodes, ast.Pass()]):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(node, ast.Assign | ast.AnnAssign):
            about = after.value if isinstance(after, ast.Expr) else None
            text = inspect.cleandoc(str(about.value)) if isinstance(about, ast.Constant) else ""
            assert node.value is not None
            return "\n\n".join(
                [
                    f"### {name}",
                    f"```text\n{name} = {_annotation(ast.unparse(node.value))}\n```",
                    *([text] if text else []),
                ]
            )
    raise LookupError(f"{module} defines no {name}")


def _kind(value: object) -> str:
    if inspect.isfunction(value):
        return "Functions"
    if inspect.isclass(value):
        return "Exceptions" if issubclass(value, BaseException) else "Classes"
    return "Values"


def _python(name: str) -> str:
    value = getattr(toolglot, name)
    parts = [f"### {name}"]
    if callable(value) and not (inspect.isclass(value) and issubclass(value, BaseException)):
        parts.append(f"```text\n{_signature(name, value)}\n```")
    parts.append(_docstring(value))
    if inspect.isclass(value):
        members = [(f"`{member}`", about) for member, about in _members(value)]
        if members:
            parts.append(table(("member", "meaning"), members))
    return "\n\n".join(parts)


def _signature(name: str, value: Callable[..., Any]) -> str:
    """The signature on one line, or with a line for each parameter."""
    signature = inspect.signature(value)
    parameters = [_parameter(parameter) for parameter in signature.parameters.values()]
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    answer = "" if inspect.isclass(value) else f" -> {_annotation(signature.return_annotation)}"
    one_line = f"{name}({', '.join(parameters)}){answer}"
    if len(one_line) <= 110:
        return one_line
    return f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f"){answer}"


def _parameter(parameter: inspect.Parameter) -> str:
    """A parameter with its type; its default only if that is a plain value."""
    text = parameter.name
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        text = f"*{text}"
    elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
        text = f"**{text}"
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return text
    is_plain = parameter.default is None or isinstance(parameter.default, str | int | float | tuple)
    return f"{text} = {parameter.default!r}" if is_plain else f"{text} = ..."


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", text)


def _docstring(value: object) -> str:
    """A docstring as Markdown: examples in fences, the sections of arguments and errors as lists."""
    text = inspect.getdoc(value) or ""
    text = re.sub(r"^(Args|Raises|Returns):\n", lambda found: f"**{found[1]}**\n\n", text, flags=re.MULTILINE)
    return re.sub(r"^ {4}(?! |>>>|\.\.\.)(\w[\w, *]*): ", r"- `\1`: ", text, flags=re.MULTILINE)


def _members(value: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties that the class and its bases here document."""
    for name, member in [pair for each in reversed(value.__mro__) for pair in vars(each).items()]:
        if name.startswith("_"):
            continue
        function = member.fget if isinstance(member, property) else member
        if not inspect.isfunction(function) or not function.__module__.startswith("toolglot"):
            continue
        if (about := inspect.getdoc(function)) and not about.startswith("The earlier name of"):
            yield name if isinstance(member, property) else f"{name}()", about.split("\n\n")[0]


# llms.txt


def llms_text() -> str:
    """The pages of the site with a line about each, in the form of llmstxt.org."""
    project = tomllib.loads(CONFIG.read_text())["project"]
    lines = [f"# {project['site_name']}", f"> {project['site_description']}"]
    for section in project["nav"]:
        for title, entries in section.items():
            lines.append(f"## {title}")
            lines.append("\n".join(_line(place) for place in _places(entries)))
    return "\n\n".join(lines) + "\n"


def _places(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from _places(inner)


def _line(place: str) -> str:
    origins = {target: source for source, target in OUTSIDE.items()}
    source = ROOT / origins[place] if place in origins else DOCS / place
    text = PAGES[place]() if place in PAGES else source.read_text()
    title = text.partition("\n")[0].removeprefix("# ")
    paragraphs = [part for part in text.split("\n\n")[1:] if not re.match(r"[<|#-]|```", part)]
    about = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraphs[0].split())) if paragraphs else ""
    sentence = re.split(r"(?<=\.) ", about)[0].rstrip(".:")
    return f"- [{title}]({place}){f': {sentence}' if sentence else ''}"


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/settings.md": settings_page,
    "reference/http.md": http_page,
    "reference/metrics.md": metrics_page,
    "reference/python.md": python_page,
}
GENERATED: Mapping[str, Callable[[], str]] = {**PAGES, "llms.txt": llms_text}


if __name__ == "__main__":
    for name, write in GENERATED.items():
        (DOCS / name).write_text(write())
    sys.exit(0)
