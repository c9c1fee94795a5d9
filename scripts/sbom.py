"""Write the bill of materials of a release: CycloneDX 1.6, as JSON.

    python -m scripts.sbom [--output FILE]

The components are the exact versions in `requirements/run.txt`, with the hashes of their files. The same input gives
the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scripts.dependency_group import PYPROJECT, read_pyproject

LOCKED = PYPROJECT.parent / "requirements" / "run.txt"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)(?: ; ([^\\\n]+?))?(?: \\)?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pin(NamedTuple):
    """A locked package. `marker` says where it is installed; everywhere if empty."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{self.version}"


def read_pins(text: str) -> Iterator[Pin]:
    for entry in re.split(r"\n(?=\S)", text.strip()):
        first, *_ = entry.splitlines()
        if (found := _PIN.match(first)) is None:
            raise ValueError(f"not a locked package: {first}")
        yield Pin(found[1], found[2], found[3] or "", tuple(_HASH.findall(entry)))


def bill_of_materials(pins: list[Pin]) -> dict[str, Any]:
    project = read_pyproject()["project"]
    root = f"pkg:pypi/{project['name']}@{project['version']}"
    content = json.dumps([root, pins]).encode()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content.hex())}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": root,
                "externalReferences": [{"type": "vcs", "url": project["urls"]["Source"]}],
            }
        },
        "components": [_component(pin) for pin in pins],
        "dependencies": [{"ref": root, "dependsOn": [pin.purl for pin in pins]}],
    }


def _component(pin: Pin) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{pin.name}/{pin.version}/",
                "hashes": [{"alg": "SHA-256", "content": content} for content in pin.hashes],
            }
        ],
    }
    if pin.marker:
        component["properties"] = [{"name": "toolglot:marker", "value": pin.marker}]
    return component


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.sbom", description=__doc__)
    parser.add_argument("--output", type=Path, help="file to write; standard output otherwise")
    output: Path | None = parser.parse_args().output
    text = json.dumps(bill_of_materials(list(read_pins(LOCKED.read_text()))), indent=2) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
