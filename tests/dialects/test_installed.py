"""A dialect that an installed package brings: the example of the documentation, installed from its folder and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import ROOT
from toolglot.dialects.installed import BadPluginError, installed_manifests

EXAMPLE = ROOT / "docs/example-dialect"
TOOL = {
    "name": "get_weather",
    "about": "The weather of a city",
    "takes": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASKED: dict[str, Any] = {"model": "demo", "turns": [{"by": "user", "text": "The weather in Paris?"}], "tools": [TOOL]}


def wheel_of(project: Path, folder: Path) -> Path:
    """The wheel that a build backend makes of a folder, without one: none may be installed, and there is no network."""
    told = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    name = told["name"].replace("-", "_")
    info = f"{name}-{told['version']}.dist-info"
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in told["entry-points"].items()
    ]
    files = {str(file.relative_to(project)): file.read_text() for file in sorted(project.glob("*/*.py"))}
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(groups),
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    path = folder / f"{name}-{told['version']}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, text in files.items():
            wheel.writestr(inner, text)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has the example installed."""
    folder = tmp_path_factory.mktemp("installed")
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(site), str(wheel_of(EXAMPLE, folder))], check=True)
    return {**os.environ, "PYTHONPATH": str(site), "HOME": str(folder)}


def run(environment: dict[str, str], *arguments: str, data: Any = None) -> str:
    written = None if data is None else json.dumps(data)
    command = [sys.executable, "-m", "toolglot", *arguments]
    done = subprocess.run(command, env=environment, input=written, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_is_listed_and_translated_both_ways(installed: dict[str, str]) -> None:
    assert "parley" in json.loads(run(installed, "dialects", "--json"))
    to_claude = json.loads(
        run(installed, "translate", "--kind", "request", "--from", "parley", "--to", "anthropic", data=ASKED)
    )
    assert to_claude["tools"][0]["input_schema"] == TOOL["takes"]
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
    from_claude = json.loads(
        run(installed, "translate", "--kind", "request", "--from", "anthropic", "--to", "parley", data=asked)
    )
    assert from_claude["turns"] == [{"by": "user", "text": "Hi"}]


@pytest.fixture
def address(installed: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """Where a gateway listens that has the example installed."""
    told = tmp_path / "address"
    os.mkfifo(told)
    command = [sys.executable, "-m", "toolglot", "serve", "--port", "0", "--address-file", str(told)]
    with subprocess.Popen(command, env=installed, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            yield told.read_text().strip().removeprefix("http://")
        finally:
            process.terminate()


def talk(address: str, body: Any) -> bytes:
    with closing(HTTPConnection(address, timeout=30)) as connection:
        connection.request("POST", "/parley/talk", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read()


def test_a_gateway_serves_a_client_of_the_example(address: str) -> None:
    (call,) = json.loads(talk(address, ASKED))["calls"]
    assert (call["name"], call["with"]) == ("get_weather", {"city": "Paris"})
    result = {"by": "tool", "of": call["id"], "text": "17 degrees"}
    turns = [*ASKED["turns"], {"by": "model", "text": "", "calls": [call]}, result]
    lines = [json.loads(line) for line in talk(address, {**ASKED, "turns": turns, "stream": True}).splitlines()]
    assert "17 degrees" in "".join(line.get("text", "") for line in lines)
    assert lines[-1] == {"why": "end"}


@pytest.mark.parametrize("reference", ["nowhere:MANIFEST", "json:loads"])
def test_a_package_that_brings_no_manifest_is_told(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "bad-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(f"[toolglot.dialects]\nbad = {reference}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadPluginError, match="the dialect bad"):
        list(installed_manifests())
