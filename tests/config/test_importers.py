"""`toolglot config import`: files of LiteLLM and claude-code-router."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.run import run
from tests.cli.scripted_upstream import Asked, Said, said, scripted
from tests.server.process import serving
from toolglot.config import json_document
from toolglot.config.documents import Document
from toolglot.config.importers import claude_code_router, litellm
from toolglot.config.importers.run import ImportedFile, convert_document, import_config
from toolglot.config.importers.source import NotTaken
from toolglot.config.load import load_config
from toolglot.config.problems import ConfigError, field_name

FOLDER = Path(__file__).parent / "gateways"
LITELLM = FOLDER / "litellm.yaml"
ROUTER = FOLDER / "claude-code-router.json"
SAMPLES = pytest.mark.parametrize("sample", [LITELLM, ROUTER], ids=lambda sample: sample.stem)


def convert(value: dict[str, Any]) -> ImportedFile:
    return convert_document(Document(str(FOLDER / "sample"), value, {}))


def deployment(**params: Any) -> dict[str, Any]:
    return {"model_list": [{"model_name": "m", "litellm_params": {"model": "openai/gpt-5", **params}}]}


def provider(**members: Any) -> dict[str, Any]:
    return {"Providers": [{"name": "p", "api_base_url": "https://p.example/v1/chat/completions", **members}]}


class Row(NamedTuple):
    what: str
    source: dict[str, Any]
    path: tuple[str, ...]
    value: Any
    """What the written file has there; None: nothing."""


ROWS = [
    Row("a vendor's model", deployment(model="groq/llama"), ("models", "m"), {"upstream": "groq", "model": "llama"}),
    Row("a vendor's model", deployment(model="groq/llama"), ("upstreams", "groq"), {}),
    Row("a name without a provider", deployment(model="gpt-5"), ("upstreams", "openai"), {}),
    Row("a provider in a field", deployment(custom_llm_provider="xai", model="g"), ("models", "m", "upstream"), "xai"),
    Row("a provider with another name here", deployment(model="together_ai/a/b"), ("models", "m", "model"), "a/b"),
    Row(
        "LiteLLM's variable for a key",
        deployment(model="together_ai/a/b"),
        ("upstreams", "together", "key"),
        "${TOGETHERAI_API_KEY}",
    ),
    Row(
        "any server of OpenAI's API",
        deployment(api_base="https://x.example/v1/"),
        ("upstreams", "openai-compatible"),
        {"dialect": "openai_chat", "base_url": "https://x.example/v1"},
    ),
    Row("OpenAI's own address", deployment(api_base="https://api.openai.com/v1"), ("upstreams", "openai"), {}),
    Row(
        "a server on this machine",
        deployment(api_base="http://localhost:9000/v1"),
        ("upstreams", "local", "base_url"),
        "http://localhost:9000/v1",
    ),
    Row(
        "the Responses API",
        deployment(model="openai/responses/gpt-5", api_base="https://x.example/v1"),
        ("upstreams", "openai-compatible", "dialect"),
        "openai_responses",
    ),
    Row(
        "an address of a whole endpoint",
        deployment(model="anthropic/claude", api_base="https://x.example/v1/messages"),
        ("upstreams", "anthropic-compatible"),
        {"dialect": "anthropic", "base_url": "https://x.example"},
    ),
    Row(
        "an Azure resource",
        deployment(model="azure/gpt", api_base="https://r.openai.azure.com/", api_key="os.environ/K"),
        ("upstreams", "azure"),
        {"base_url": "https://r.openai.azure.com/openai/v1", "key": "${K}"},
    ),
    Row(
        "an Azure address of a deployment",
        deployment(model="azure/gpt", api_base="https://r.openai.azure.com/openai/deployments/d"),
        ("upstreams", "azure", "base_url"),
        "https://r.openai.azure.com/openai/v1",
    ),
    Row("a key", deployment(api_key="sk-1"), ("upstreams", "openai", "key"), "${OPENAI_API_KEY}"),
    Row("a reference", deployment(api_key="os.environ/K"), ("upstreams", "openai", "key"), "${K}"),
    Row(
        "text that looks like a reference",
        deployment(api_base="http://a/${b}"),
        ("upstreams", "openai-compatible", "base_url"),
        "http://a/$${b}",
    ),
    Row(
        "an organization",
        deployment(organization="org"),
        ("upstreams", "openai", "headers"),
        {"openai-organization": "org"},
    ),
    Row("a time limit", deployment(timeout="2.5"), ("upstreams", "openai", "timeouts", "first_byte"), 2.5),
    Row("retries", deployment(max_retries=0), ("upstreams", "openai", "retries", "attempts"), 1),
    Row(
        "the default of all deployments",
        {**deployment(), "litellm_settings": {"request_timeout": 9, "num_retries": 1}},
        ("upstreams", "openai"),
        {"timeouts": {"first_byte": 9}, "retries": {"attempts": 2}},
    ),
    Row(
        "a deployment's own value before the default",
        {**deployment(timeout=5), "router_settings": {"timeout": 9}},
        ("upstreams", "openai", "timeouts", "first_byte"),
        5,
    ),
    Row("losses that are refused", {**deployment(), "litellm_settings": {"drop_params": False}}, ("strict",), True),
    Row("losses that are dropped", {**deployment(), "litellm_settings": {"drop_params": True}}, ("strict",), None),
    Row("a log for programs", {**deployment(), "litellm_settings": {"json_logs": True}}, ("log", "format"), "json"),
    Row("more of a log", {**deployment(), "litellm_settings": {"set_verbose": True}}, ("log", "level"), "debug"),
    Row("a size", {**deployment(), "general_settings": {"max_request_size_mb": 2}}, ("limits", "body"), 2097152),
    Row(
        "a number",
        {**deployment(), "general_settings": {"global_max_parallel_requests": 7}},
        ("limits", "concurrent_requests"),
        7,
    ),
    Row(
        "a key of the gateway",
        {**deployment(), "general_settings": {"master_key": "sk-1"}},
        ("server", "keys"),
        ["${TOOLGLOT_KEY}"],
    ),
    Row(
        "an alias",
        {**deployment(), "router_settings": {"model_group_alias": {"a": "m"}}},
        ("models", "a"),
        {"upstream": "openai", "model": "gpt-5"},
    ),
    Row(
        "an alias that is not listed",
        {**deployment(), "router_settings": {"model_group_alias": {"a": {"model": "m", "hidden": True}}}},
        ("models", "a", "hidden"),
        True,
    ),
    Row(
        "an address of a chat endpoint",
        provider(),
        ("upstreams", "p"),
        {"dialect": "openai_chat", "base_url": "https://p.example/v1"},
    ),
    Row("the models of a provider", provider(models=["a", "b"]), ("upstreams", "p", "models"), ["a", "b"]),
    Row("a key", provider(api_key="sk-1"), ("upstreams", "p", "key"), "${P_API_KEY}"),
    Row("no key", provider(api_key=""), ("upstreams", "p", "key"), None),
    Row("a word in place of a key", provider(api_key="ollama"), ("upstreams", "p", "key"), "ollama"),
    Row("a reference", provider(api_key="$KEY"), ("upstreams", "p", "key"), "${KEY}"),
    Row(
        "an API by its transformer",
        provider(api_base_url="https://p.example/v1beta", transformer={"use": ["gemini"]}),
        ("upstreams", "p"),
        {"dialect": "gemini", "base_url": "https://p.example"},
    ),
    Row(
        "an API by the end of its address, whatever the transformers say",
        provider(transformer={"use": ["anthropic", "mine"]}),
        ("upstreams", "p", "dialect"),
        "openai_chat",
    ),
    Row(
        "a vendor's server under the name that users know",
        provider(name="fast", api_base_url="https://api.groq.com/openai/v1/chat/completions"),
        ("upstreams", "fast"),
        {"vendor": "groq"},
    ),
    Row(
        "another server under a vendor's name",
        provider(name="gemini"),
        ("upstreams", "gemini-compatible", "dialect"),
        "openai_chat",
    ),
    Row(
        "the model for every task",
        {**provider(), "Router": {"default": "p, x"}},
        ("models", "claude-*"),
        {"upstream": "p", "model": "x"},
    ),
    Row(
        "the model for background calls",
        {**provider(), "Router": {"background": "p,x"}},
        ("models", "claude-*haiku*", "model"),
        "x",
    ),
    Row(
        "the model for other names",
        {**provider(), "Router": {"default": "p,x"}},
        ("upstreams", "p", "default_model"),
        "x",
    ),
    Row(
        "a time limit in milliseconds",
        {**provider(), "API_TIMEOUT_MS": 1500},
        ("upstreams", "p", "timeouts", "first_byte"),
        1.5,
    ),
    Row("a host without a key", {**provider(), "HOST": "0.0.0.0"}, ("server", "host"), None),
    Row("a host with a key", {**provider(), "HOST": "0.0.0.0", "APIKEY": "k"}, ("server", "host"), "0.0.0.0"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_setting_becomes_its_equivalent(row: Row) -> None:
    value: Any = tomllib.loads(convert(row.source).text)
    for name in row.path:
        value = value.get(name) if isinstance(value, dict) else None
    assert value == row.value


class Refused(NamedTuple):
    source: dict[str, Any]
    field: str
    reason: str


REFUSED = [
    Refused(deployment(model="bedrock/claude"), "model_list[0]", "toolglot knows no vendor"),
    Refused(deployment(model="gemini-3-pro"), "model_list[0]", "toolglot knows no vendor"),
    Refused(deployment(model="*"), "model_list[0]", "the name decides the provider"),
    Refused({"model_list": [{"model_name": "m"}]}, "model_list[0]", "a model needs"),
    Refused(deployment(litellm_credential_name="x"), "model_list[0]", "no credential of this name"),
    Refused(deployment(api_key=["a"]), "model_list[0].litellm_params.api_key", "expected text"),
    Refused(deployment(api_key="os.environ/A-B"), "model_list[0].litellm_params.api_key", "not valid here"),
    Refused(deployment(timeout="soon"), "model_list[0].litellm_params.timeout", "expected a number"),
    Refused(deployment(timeout=-1), "model_list[0].litellm_params.timeout", "expected seconds, more than 0"),
    Refused(deployment(max_retries=1000), "model_list[0].litellm_params.max_retries", "expected a whole number <= 100"),
    Refused(deployment(api_base="ftp://x"), "model_list[0].litellm_params.api_base", "must start with http"),
    Refused(
        deployment(api_base="http://u:canary@x"), "model_list[0].litellm_params.api_base", "no credentials in a URL"
    ),
    Refused(
        deployment(api_base="http://x?key=canary"), "model_list[0].litellm_params.api_base", "must not have a query"
    ),
    Refused(
        deployment(api_base="http://127.0.0.1:4141"), "model_list[0].litellm_params.api_base", "the gateway itself"
    ),
    Refused(
        deployment(api_base="http://x.example"), "model_list[0].litellm_params", "LiteLLM sends OPENAI_API_KEY there"
    ),
    Refused(deployment(api_base="ftp://x", timeout=5), "model_list[0]", "`base_url`"),
    Refused(
        {**deployment(), "router_settings": {"timeout": 1}, "litellm_settings": {"request_timeout": 2}},
        "litellm_settings.request_timeout",
        "not used: router_settings.timeout",
    ),
    Refused(
        deployment(max_retries=1, num_retries=2), "model_list[0].litellm_params.num_retries", "not used: max_retries"
    ),
    Refused(
        deployment(headers={"a": "1"}, extra_headers={"A": "2"}), "model_list[0].litellm_params.headers.a", "duplicate"
    ),
    Refused(
        {**deployment(), "router_settings": {"model_group_alias": {"m": "m"}}},
        "router_settings.model_group_alias.m",
        "a model has this name",
    ),
    Refused(
        {
            "model_list": [
                {**each, "model_info": {"max_tokens": number}}
                for number, each in enumerate(deployment()["model_list"] * 2, 1)
            ]
        },
        "model_list[1].model_info.max_tokens",
        "has another value",
    ),
    Refused(
        deployment(model="openai/own-tune", input_cost_per_token=1e-6),
        "model_list[0].litellm_params",
        "`input` and `output` are needed",
    ),
    Refused(
        deployment(input_cost_per_token_above_200k_tokens=1e-6),
        "model_list[0].litellm_params.input_cost_per_token_above_200k_tokens",
        "no such price",
    ),
    Refused({**deployment(), "include": "x.yaml"}, "include", "expected a list of files"),
    Refused(
        {**deployment(), "router_settings": {"fallbacks": [{"m": ["z"]}]}},
        "router_settings.fallbacks[0].m[0]",
        "no model of this name",
    ),
    Refused({**deployment(), "unheard_of": {"a": 1}}, "unheard_of.a", "toolglot has no setting"),
    Refused(
        provider(api_base_url="https://x.example", transformer={"use": ["vertex-gemini"]}),
        "Providers[0]",
        "decides what this provider's API is",
    ),
    Refused(provider(api_base_url="https://x.example/v1"), "Providers[0]", "the address has no API path"),
    Refused(provider(transformer={"use": ["mine"]}), "Providers[0].transformer.use[0]", "no transformer of this kind"),
    Refused({"Providers": [{"name": "p"}]}, "Providers[0]", "a provider needs"),
    Refused({**provider(), "Router": {"default": "q,x"}}, "Router.default", "no imported provider has this name"),
    Refused({**provider(), "Router": {"default": "x"}}, "Router.default", "expected `provider,model`"),
    Refused({**provider(), "HOST": "0.0.0.0"}, "HOST", "needs a key"),
    Refused({**provider(), "PORT": 99999}, "PORT", "<= 65535"),
    Refused({**provider(), "transformers": [{"path": "x.js"}]}, "transformers", "runs no code"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.reason)
def test_what_cannot_be_taken_over_is_reported_with_its_place_and_a_reason(refused: Refused) -> None:
    imported = convert(refused.source)
    found = [problem for problem in imported.reports if problem.field == refused.field]
    assert any(refused.reason in problem.message for problem in found), imported.reports
    assert "canary" not in imported.text + str(imported.reports)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    else:
        yield path


def without(value: Any, path: tuple[str | int, ...]) -> Any:
    changed = copy.deepcopy(value)
    inside = changed
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = None
    return changed


ALREADY_SO = {"LOG", "litellm_settings.drop_params"}
"""Settings of the samples that are toolglot's defaults."""


def plain(imported: ImportedFile) -> tuple[str, set[tuple[str, str]]]:
    """The settings of a file, and what was reported."""
    settings = [line.partition("  #")[0] for line in imported.text.splitlines() if not line.startswith("#")]
    return "\n".join(settings), {(problem.field, problem.message) for problem in imported.reports}


@SAMPLES
def test_every_value_of_a_file_has_an_effect_or_a_report(sample: Path) -> None:
    document = read_sample(sample)
    whole = plain(convert(document))
    for path in leaves(document):
        if field_name(path) in ALREADY_SO:
            continue
        reported = any(
            field_name(path) == field or field_name(path).startswith((f"{field}.", f"{field}["))
            for field, _ in whole[1]
        )
        assert reported or plain(convert(without(document, path))) != whole, field_name(path)


def read_sample(sample: Path) -> dict[str, Any]:
    from toolglot.config import yaml_document

    parse = json_document.parse_json5 if sample.suffix == ".json" else yaml_document.parse
    value: dict[str, Any] = parse(sample.read_text(), sample.name)[0]
    return value


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("os.environ/NAME"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@SAMPLES
@given(data=st.data())
def test_a_file_with_anything_anywhere_becomes_one_that_loads(sample: Path, data: st.DataObject) -> None:
    document = read_sample(sample)
    path = data.draw(st.sampled_from(list(leaves(document))))
    path = path[: data.draw(st.integers(1, len(path)))]
    changed = without(document, path)
    inside = changed
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = data.draw(_ANY)
    if sample == LITELLM:
        changed.pop("include", None)
    if not {"model_list", "Providers", "Router", "router_settings"} & changed.keys():
        return
    tomllib.loads(convert(changed).text)  # it was checked with the schema before it was written


@SAMPLES
def test_no_credential_of_a_file_is_printed(sample: Path, tmp_path: Path) -> None:
    assert sample.read_text().count("canary") > 3
    result = run("config", "import", str(sample))
    assert result.exit_code == 0
    assert "canary" not in result.output
    result = run("config", "import", str(sample), "--output", str(tmp_path / "new.toml"))
    assert result.exit_code == 0
    assert "canary" not in result.output + (tmp_path / "new.toml").read_text()


@SAMPLES
def test_the_written_file_loads_and_names_the_variables_that_it_needs(sample: Path, tmp_path: Path) -> None:
    imported = import_config(sample)
    file = tmp_path / "new.toml"
    file.write_text(imported.text)
    environ = {name: "https://x.example" if name.endswith("_BASE") else "a-key" for name in imported.variables}
    loaded = load_config(file, environ)
    assert (len(loaded.config.upstreams), len(loaded.config.models)) == (imported.upstreams, imported.models)
    assert loaded.doubts == ()
    for name in imported.variables:
        with pytest.raises(ConfigError, match=name):
            load_config(file, {other: value for other, value in environ.items() if other != name})


def test_comments_name_the_lines_that_settings_come_from() -> None:
    text = import_config(LITELLM).text
    lines = LITELLM.read_text().splitlines()
    named = {int(number) for number in re.findall(r"# .*litellm\.yaml:(\d+)$", text, re.MULTILINE)}
    assert "first_byte = 60  # litellm.yaml:16" in text
    assert lines[15].strip() == "timeout: 60"
    assert all(lines[number - 1].strip() for number in named)
    assert "[models.local]  # models.yaml:2" in text


def test_an_export_of_claude_code_router_3_gives_its_providers(tmp_path: Path) -> None:
    members = {"api_base_url": "https://p.example/v1", "apiKey": "canary-key", "models": ["m"]}
    providers = [
        {"name": "own", "type": "anthropic_messages", "extraHeaders": {"X-Token": "canary-token"}, **members},
        {"name": "off", "enabled": False, **members},
        {"name": "pictures", "type": "openai_image_generations", **members},
        {"name": "many", "credentials": [{"apiKey": "canary-credential"}], **members},
    ]
    export = {
        "kind": "claude-code-router-data-export",
        "version": 1,
        "exportedAt": "2026-11-18T00:00:00Z",
        "app": {"name": "CCR", "version": "3.1.1"},
        "config": {"Providers": providers, "Router": {"rules": [{"model": "x"}]}, "PORT": 3456},
        "files": [{"name": "usage.sqlite", "base64": "canary" * 400_000}],
    }
    (tmp_path / "data.json").write_text(json.dumps(export))
    imported = import_config(tmp_path / "data.json")
    assert "canary" not in imported.text + str(imported.reports)
    written = tomllib.loads(imported.text)
    assert written["upstreams"]["own"] == {
        "dialect": "anthropic",
        "base_url": "https://p.example/v1",
        "key": "${OWN_API_KEY}",
        "models": ["m"],
        "headers": {"x-token": "${OWN_X_TOKEN}"},
    }
    assert written["server"] == {"port": 3456}
    assert [problem.field for problem in imported.reports] == [
        "config.Providers[0].extraHeaders.X-Token",
        "config.Providers[0].apiKey",
        "config.Providers[1]",
        "config.Providers[2]",
        "config.Providers[3]",
        "config.Providers[3].credentials",
        "config.Providers[3].apiKey",
        "config.Router.rules",
        "files",
    ]


def test_several_deployments_of_a_model_are_fallbacks_in_their_order() -> None:
    first, second, third = (
        {"model": f"openai/{name}", "order": order} for name, order in (("a", 2), ("b", 1), ("c", 2))
    )
    source = {"model_list": [{"model_name": "m", "litellm_params": params} for params in (first, second, third)]}
    imported = convert(source)
    assert tomllib.loads(imported.text)["models"]["m"] == {
        "upstream": "openai",
        "model": "b",
        "fallbacks": ["openai/a", "openai/c"],
    }
    assert [problem.field for problem in imported.reports] == ["model_list[0]", "model_list[2]"]


def test_equal_servers_are_one_upstream_and_different_keys_are_not() -> None:
    keys = ("sk-1", "sk-2", "sk-1")
    source = {
        "model_list": [
            {"model_name": f"m{number}", "litellm_params": {"model": "openai/gpt-5", "api_key": key}}
            for number, key in enumerate(keys)
        ]
    }
    written = tomllib.loads(convert(source).text)
    assert written["upstreams"] == {
        "openai": {"key": "${OPENAI_API_KEY}"},
        "openai-2": {"vendor": "openai", "key": "${OPENAI_API_KEY_2}"},
    }
    assert [model["upstream"] for model in written["models"].values()] == ["openai", "openai-2", "openai"]


def test_files_that_are_included_are_read_once_and_replace_sections(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("include: [b.yaml, b.yaml]\nmodel_list: []\nrouter_settings: {timeout: 1}\n")
    (tmp_path / "b.yaml").write_text(
        "include: [a.yaml]\nrouter_settings: {timeout: 2}\n"
        "model_list: [{model_name: m, litellm_params: {model: groq/x}}]\n"
    )
    imported = import_config(tmp_path / "a.yaml")
    assert tomllib.loads(imported.text)["upstreams"] == {"groq": {"timeouts": {"first_byte": 2}}}
    assert [(problem.line, problem.field) for problem in imported.reports] == [(3, "router_settings")]


def test_a_file_that_cannot_be_included_is_an_error_at_the_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("model_list: []\ninclude:\n  - gone.yaml\n")
    result = run("config", "import", str(tmp_path / "a.yaml"))
    assert result.exit_code == 2
    assert "a.yaml:3:5: include[0]: no such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("config.sqlite", b"SQLite format 3\x00...", "claude-code-router 3's database: export"),
        ("x.yaml", b"upstreams: {}", "neither LiteLLM's file nor claude-code-router's"),
        ("x.json", b"{", "not JSON"),
        ("x.yaml", b"- 1", "expected a table"),
        ("x.yaml", b"a: [", "not YAML"),
    ],
)
def test_other_files_are_refused(name: str, data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    result = run("config", "import", str(tmp_path / name))
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr


@pytest.mark.parametrize("name", ["config", "config.json", "config.yaml"])
def test_the_format_is_that_of_the_name_or_else_of_the_content(name: str, tmp_path: Path) -> None:
    text = json.dumps(deployment(model="groq/x"))
    (tmp_path / name).write_text(
        text if name != "config.yaml" else "{model_list: [{model_name: m, litellm_params: {model: groq/x}}]}"
    )
    assert import_config(tmp_path / name).upstreams == 1


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "toolglot.toml"
    file.write_text("strict = true\n")
    result = run("config", "import", str(LITELLM), "--output", str(file))
    assert (result.exit_code, file.read_text()) == (2, "strict = true\n")


@pytest.mark.parametrize("rows", [litellm.NOT_TAKEN, claude_code_router.NOT_TAKEN], ids=["litellm", "router"])
def test_no_row_of_reasons_is_hidden_by_an_earlier_one(rows: tuple[NotTaken, ...]) -> None:
    for number, row in enumerate(rows):
        assert not any(earlier.matches(row.pattern) for earlier in rows[:number]), row.pattern


def answer(asked: Asked) -> Said:
    message = {"role": "assistant", "content": f"{asked.document['model']} {asked.headers.get('authorization')}"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return said({"id": "c", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice]})


@pytest.mark.parametrize("gateway", ["litellm", "claude-code-router"])
def test_the_gateway_runs_with_an_imported_file(gateway: str, tmp_path: Path) -> None:
    with scripted(answer) as upstream:
        files = {
            "litellm": (
                "config.yaml",
                "model_list:\n- model_name: claude-*\n  litellm_params:\n    model: openai/own-model\n"
                f"    api_base: {upstream.url}/v1\n    api_key: os.environ/OWN_KEY\n"
                "general_settings:\n  master_key: sk-client\n",
            ),
            "claude-code-router": (
                "config.json",
                '{"Providers": [{"name": "own", "api_base_url": "' + upstream.url + '/v1/chat/completions", '
                '"api_key": "$OWN_KEY", "models": ["own-model"]}], "Router": {"default": "own,own-model"}, '
                '"APIKEY": "sk-client"}',
            ),
        }
        name, text = files[gateway]
        (tmp_path / name).write_text(text)
        imported = import_config(tmp_path / name)
        assert imported.variables == ("OWN_KEY", "TOOLGLOT_KEY")
        environment = {"OWN_KEY": "sk-own", "TOOLGLOT_KEY": "sk-client"}
        with serving(tmp_path, imported.text, environment=environment) as process:
            body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
            assert process.ask("anthropic", body=body).status == 401
            answered = process.ask("anthropic", body=body, headers={"x-api-key": "sk-client"})
            assert answered.json()["content"][0]["text"] == "own-model Bearer sk-own"
