"""The published schema is the one that the records make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolglot.capabilities import PLACES
from toolglot.config.json_schema import json_schema, text
from toolglot.upstream.vendors import VENDORS

PUBLISHED = Path(__file__).parent.parent.parent / "docs" / "toolglot.schema.json"


def test_the_published_schema_is_current() -> None:
    """`toolglot config schema > docs/toolglot.schema.json` writes it anew."""
    assert PUBLISHED.read_text() == text()


def test_every_reference_of_the_schema_leads_somewhere() -> None:
    schema = json_schema()

    def references(value: Any) -> set[str]:
        if isinstance(value, list):
            return set[str]().union(*map(references, value))
        if isinstance(value, dict):
            own = {value["$ref"]} if "$ref" in value else set()
            return own.union(*map(references, value.values()))
        return set()

    assert references(schema) == {f"#/$defs/{name}" for name in schema["$defs"]}


def test_fields_are_described_in_the_words_of_the_records() -> None:
    properties = json_schema()["$defs"]["UpstreamConfig"]["properties"]
    assert properties["headers"]["description"] == "Extra headers for every call."
    assert "openrouter" in json.dumps(properties["vendor"])
    assert "openai_chat" in json.dumps(properties["dialect"])


def test_numbers_and_truths_may_be_references() -> None:
    port = json_schema()["$defs"]["ServerConfig"]["properties"]["port"]
    assert port["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 65535}
    assert port["anyOf"][1] == {"type": "string", "pattern": r"\$\{"}
    assert port["default"] == 4141


def test_quirks_are_the_capabilities() -> None:
    definition = json_schema()["$defs"]["Capabilities"]
    assert definition["properties"].keys() == PLACES.keys()
    assert definition["required"] == []
    assert definition["additionalProperties"] is False


def test_the_documentation_names_every_field_and_every_vendor() -> None:
    page = (PUBLISHED.parent / "configuration.md").read_text()
    definitions = json_schema()["$defs"]
    others = ("Capabilities", "TextFormat")
    fields = {name for title in definitions if title not in others for name in definitions[title]["properties"]}
    missing = [name for name in sorted(fields - {"$schema", "upstreams"}) if f"`{name}`" not in page]
    missing += [vendor.name for vendor in VENDORS.values() if f"`{vendor.name}`" not in page]
    missing += [vendor.keys[0].name for vendor in VENDORS.values() if vendor.keys and vendor.keys[0].name not in page]
    assert missing == []
