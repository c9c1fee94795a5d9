"""The image: what the Dockerfile says, and its command as its user on a root that is read-only.

`deploy/try-image` builds and runs the image itself.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.files import CONFIG, DOCKERFILE, Instruction, instructions
from tests.docs.markdown import ROOT
from tests.waiting import FAILSAFE
from toolglot.config.load import load_config

INSTRUCTIONS = instructions(DOCKERFILE.read_text())
LAST = max(each.stage for each in INSTRUCTIONS)


def final(name: str) -> list[Instruction]:
    return [each for each in INSTRUCTIONS if (each.stage, each.name) == (LAST, name)]


def environment() -> dict[str, str]:
    return dict(word.split("=", 1) for each in final("ENV") for word in each.words)


def test_only_known_instructions_are_used_and_programs_are_started_without_a_shell() -> None:
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {each.name for each in INSTRUCTIONS} == known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    for name in ("ENTRYPOINT", "CMD"):
        [only] = final(name)
        assert json.loads(only.text)
    assert json.loads(final("HEALTHCHECK")[0].text.partition("CMD ")[2])


def test_every_package_of_an_index_is_installed_by_its_hash() -> None:
    installs = [
        command
        for each in INSTRUCTIONS
        if each.name == "RUN"
        for command in each.text.split("&&")
        if re.search(r"\bpip\b.* install ", command)
    ]
    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command, command
    named = set(re.findall(r"requirements/[a-z]+\.txt", DOCKERFILE.read_text()))
    assert named == {"requirements/build.txt", "requirements/run.txt"}


def test_what_is_copied_exists_and_is_what_the_builder_gets() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] not in "#"]
    assert lines[0] == "*"
    sent = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        source
        for each in INSTRUCTIONS
        if each.name == "COPY" and "--from" not in each.text
        for source in each.words[:-1]
    }
    assert copied == sent
    assert all((ROOT / path).exists() for path in sent)


def test_the_image_has_no_shell_step_of_its_own_and_runs_as_a_user_without_rights() -> None:
    assert final("RUN") == []
    assert [each.text for each in final("USER")] == ["65532:65532"]
    assert environment()["PATH"].startswith("/opt/toolglot/bin:")
    [build] = [each for each in INSTRUCTIONS if each.name == "RUN" and "compileall" in each.text]
    assert "--invalidation-mode unchecked-hash" in build.text
    assert "--chown=65532:65532 /build/state /var/lib/toolglot" in [each.text for each in final("COPY")][1]


def test_the_configuration_for_containers_is_valid() -> None:
    loaded = load_config(CONFIG, {"TOOLGLOT_KEY": "a-key"})
    assert loaded.doubts == ()
    assert load_config(CONFIG, {"TOOLGLOT_KEY": "k", "TOOLGLOT_HOST": "llm.example"}).config.server.hosts == (
        "llm.example",
    )


SANDBOX = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
cd "$1/root"
mkdir -p opt/toolglot/bin etc/toolglot var/lib/toolglot
cp "$2" etc/toolglot/toolglot.toml
ln -s "$3" opt/toolglot/bin/toolglot
for folder in $4; do
  while [ "$folder" != / ]; do
    chmod o+rx ".$folder"
    folder="$(dirname "$folder")"
  done
done
mount -o remount,ro overlay "$1/root"
mount -t tmpfs -o mode=1777 tmpfs tmp
for folder in $4; do
  top="$(echo "$folder" | cut -d / -f 1-3)"
  case "$top" in /tmp/*) mkdir -p ".$top" && mount --bind "$top" ".$top" && mount -o remount,bind,ro ".$top";; esac
done
mount -t tmpfs -o uid=65532,gid=65532,mode=700 tmpfs var/lib/toolglot
mount --rbind /proc proc
mount --rbind /dev dev
shift 4
exec chroot --userspec=65532:65532 . "$@"
"""
"""A root as the image has it: this machine's files, read-only, with the volume and the configuration in place."""


class Sandbox(NamedTuple):
    command: list[str]
    is_confined: bool
    """Whether the process is another user on a read-only root. Some machines let nobody mount anything."""


def sandbox(folder: Path) -> Sandbox:
    """What puts a command into such a root, as far as this machine allows it."""
    script = Path(sys.executable).parent / "toolglot"
    needed = f"{Path(sys.executable).parent} {sysconfig.get_config_var('prefix')} {sys.base_prefix} {ROOT}/src"
    inside = ["sh", "-c", SANDBOX, "sandbox", str(folder), str(CONFIG), str(script), needed]
    for prefix in (["unshare", "--mount"], ["sudo", "-n", "unshare", "--mount"]):
        try:
            tried = subprocess.run([*prefix, *inside, "true"], capture_output=True, check=False, timeout=FAILSAFE)
        except FileNotFoundError:
            continue
        if tried.returncode == 0:
            return Sandbox([*prefix, *inside], True)
    return Sandbox(["env"], False)


@contextmanager
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, Sandbox]]:
    """The entry point with the usual command, at another port."""
    place = tmp_path / "sandbox"
    place.mkdir()
    made = sandbox(place)
    variables = {**environment(), "TOOLGLOT_KEY": "a-key"}
    if not made.is_confined:
        state = tmp_path / "state"
        variables |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        variables |= {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(state)}
        (tmp_path / "toolglot").mkdir()
        (tmp_path / "toolglot" / "toolglot.toml").write_text(CONFIG.read_text())
    pairs = [f"{name}={value}" for name, value in variables.items()]
    command = [*made.command, *([] if not made.is_confined else ["env"]), "-i", *pairs]
    command += [*final("ENTRYPOINT")[0].words, *final("CMD")[0].words, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, start_new_session=True) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            while True:
                line = process.stderr.readline().decode()
                assert line, "".join(said)
                said.append(json.loads(line)["message"] if line.startswith("{") else line)
                if found := re.search(r"ready at (http://\S+)", said[-1]):
                    yield process, found[1], made
                    return
        finally:
            process.kill()


def status_of(url: str, key: str) -> int:
    body = {"model": "demo", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), {"x-api-key": key})
    try:
        with urllib.request.urlopen(request, timeout=FAILSAFE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux")
def test_the_command_runs_as_the_user_of_the_image_on_a_read_only_root(tmp_path: Path) -> None:
    with running(tmp_path) as (process, url, made):
        assert (status_of(url, "wrong"), status_of(url, "a-key")) == (401, 200)
        health = json.loads(final("HEALTHCHECK")[0].text.partition("CMD ")[2])
        assert health[0] == "toolglot"
        program = Path(sys.executable).parent / "toolglot"
        checked = subprocess.run([program, *health[1:], "--url", url], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stdout) == (0, "ready\n")
        status = Path(f"/proc/{process.pid}/status").read_text()
        if made.is_confined and "sudo" not in made.command:
            assert re.search(r"^Uid:\t65532\t65532\t", status, re.MULTILINE)
            assert re.search(r"^CapEff:\t0{16}$", status, re.MULTILINE)
            mounts = [line.split() for line in Path(f"/proc/{process.pid}/mounts").read_text().splitlines()]
            writable = {path for _, path, kind, options, *_ in mounts if kind != "proc" and "rw" in options.split(",")}
            assert {path for path in writable if not path.startswith(("/dev", "/proc", "/sys"))} == {
                "/tmp",
                "/var/lib/toolglot",
            }
        process.send_signal(signal.SIGTERM)
        assert process.wait(FAILSAFE) == 0
