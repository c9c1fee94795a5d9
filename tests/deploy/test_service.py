"""The systemd unit, and the time limits that every way of running has in common."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import CHART, COMPOSE, CONFIG, NGINX, UNIT, sections, yaml_of
from toolglot.cli.app import app
from toolglot.cli.serve import serve
from toolglot.config.load import load_config
from toolglot.config.schema import Limits
from toolglot.upstream.transport import Timeouts

SECTIONS = sections(UNIT.read_text())
SERVICE = SECTIONS["Service"]


def setting(name: str) -> str:
    [value] = [value for each, value in SERVICE if each == name]
    return value


def test_the_service_says_itself_when_it_is_ready_and_is_reloaded_by_a_signal() -> None:
    assert (setting("Type"), setting("NotifyAccess")) == ("notify", "main")
    assert setting("ExecReload") == "/bin/kill -HUP $MAINPID"


def test_the_command_has_options_that_exist() -> None:
    program, command, *arguments = setting("ExecStart").split()
    assert program == "/opt/toolglot/bin/toolglot"
    assert command in app.list_commands(app.make_context("toolglot", [command], resilient_parsing=True))
    known = {option for parameter in serve.params for option in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("-")} <= known


def test_the_service_writes_to_its_state_directory_alone() -> None:
    assert (setting("DynamicUser"), setting("ProtectSystem"), setting("NoNewPrivileges")) == ("yes", "strict", "yes")
    environment = dict(word.split("=", 1) for word in setting("Environment").split())
    assert f"{environment['XDG_STATE_HOME']}/{setting('StateDirectory')}" == "/var/lib/toolglot"


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    text = UNIT.read_text().replace("/opt/toolglot/bin/toolglot", "/bin/true")
    assert set(SECTIONS) == {"Unit", "Service", "Install"}
    assert all(
        (name and value) or name == "CapabilityBoundingSet" for lines in SECTIONS.values() for name, value in lines
    )
    if program is not None:
        (tmp_path / "toolglot.service").write_text(text)
        command = [program, "verify", "--man=no", str(tmp_path / "toolglot.service")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, [line for line in done.stderr.splitlines() if "toolglot.service" in line]) == (0, [])


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_every_way_of_running_waits_longer_for_the_end_than_the_gateway_needs() -> None:
    drain = load_config(CONFIG, {"TOOLGLOT_KEY": "k"}).config.limits.drain
    assert drain == Limits().drain
    values = yaml_of(CHART / "values.yaml")
    services = yaml_of(COMPOSE)["services"]
    assert seconds(setting("TimeoutStopSec")) > drain
    assert seconds(services["gateway-1"]["stop_grace_period"]) > drain
    assert values["terminationGracePeriodSeconds"] > drain + values["preStopSeconds"]


def test_nginx_waits_longer_than_the_gateway_and_takes_bodies_as_large() -> None:
    text = NGINX.read_text()
    assert f"client_max_body_size {Limits().body // 1024 // 1024}m;" in text
    assert Timeouts().first_byte < 660
    annotations = yaml_of(CHART / "values.yaml")["ingress"]["annotations"]
    assert "proxy_read_timeout 660s;" in text
    assert annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "660"
    assert annotations["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    assert "proxy_buffering off;" in text


@pytest.mark.parametrize("name", ["gateway-1", "gateway-2"])
def test_a_gateway_of_the_compose_file_is_confined_and_shares_the_store(name: str) -> None:
    service = yaml_of(COMPOSE)["services"][name]
    assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], ["/tmp"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["volumes"] == ["./toolglot.toml:/etc/toolglot/toolglot.toml:ro", "state:/var/lib/toolglot"]
    assert "ports" not in service  # only nginx is open
    assert service["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}


def test_the_compose_file_names_what_exists() -> None:
    compose = yaml_of(COMPOSE)
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (COMPOSE.parent / source).is_file() if source.startswith(".") else source in compose["volumes"]
        assert set(service.get("depends_on", {})) <= set(compose["services"])
    for name in compose["services"]:
        assert name == "nginx" or f"server {name}:4141 " in NGINX.read_text()
