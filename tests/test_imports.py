"""The edges of the package: what may import what, what importing does, and what is public."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, get_origin

import pytest

import toolglot

ROOT = Path(toolglot.__file__).parent
SHELLS = (
    "agent",
    "chat",
    "cli",
    "config",
    "demo",
    "doctor",
    "recordings.rerun",
    "recordings.writing",
    "gateway",
    "in_process",
    "server",
    "store",
    "team",
    "tool_server",
    "upstream",
    "__main__",
)
"""What may use more than the standard library and msgspec; the core never imports these."""


def module_names() -> list[str]:
    return ["toolglot", *(info.name for info in pkgutil.walk_packages([str(ROOT)], "toolglot."))]


def is_shell(name: str) -> bool:
    return any(name == f"toolglot.{shell}" or name.startswith(f"toolglot.{shell}.") for shell in SHELLS)


WARP = "toolglot.dialects.warp"


def needs_protobuf(name: str) -> bool:
    """Is this a module that imports protobuf, an extra? Only Warp's dialect has such, loaded when it is used."""
    return name.startswith(f"{WARP}.") and name.removeprefix(f"{WARP}.") not in LIGHT


LIGHT = (
    "bridge_routes",
    "declared",
    "dialect",
    "errors",
    "integers",
    "lint",
    "listing",
    "marks",
    "models",
    "native",
    "schema",
)
"""The modules of Warp's dialect that come with the package itself."""
CORE = [name for name in module_names() if not is_shell(name) and not needs_protobuf(name)]

IMPORT_AND_WATCH = """
import importlib, json, sys
# What msgspec imports is its own affair.
import msgspec, msgspec.json, msgspec.structs
before = set(sys.modules)
touched = []
def watch(event, arguments):
    if event == "open":
        touched.append(("open", str(arguments[0])))
    elif event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "urllib.")):
        touched.append((event, ""))
sys.addaudithook(watch)
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print(json.dumps({"modules": sorted(set(sys.modules) - before), "touched": touched}))
"""


class Imported(NamedTuple):
    modules: list[str]
    touched: list[tuple[str, str]]


@pytest.fixture(scope="module")
def imported() -> Imported:
    """What a fresh interpreter loads and touches when it imports the whole core."""
    command = [sys.executable, "-B", "-c", IMPORT_AND_WATCH, json.dumps(CORE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    return Imported(told["modules"], [tuple(entry) for entry in told["touched"]])


def test_the_core_imports_the_standard_library_and_msgspec_alone(
    imported: Imported,
) -> None:
    roots = {name.partition(".")[0] for name in imported.modules}
    assert roots - sys.stdlib_module_names - {"toolglot", "msgspec"} == set()


def test_importing_the_core_opens_no_socket_and_no_file_but_modules(
    imported: Imported,
) -> None:
    homes = (str(ROOT), *sys.path[1:], sys.prefix, sys.base_prefix)
    for event, path in imported.touched:
        assert event == "open", event
        assert path.startswith(homes), path
        assert path.endswith((".py", ".pyc", ".so")), path


def test_importing_the_shells_too_opens_no_socket_and_starts_nothing() -> None:
    """Gateways that fetched price lists and vocabularies at import could not be started without a network."""
    everything = [name for name in module_names() if name != "toolglot.__main__"]
    command = [sys.executable, "-B", "-c", IMPORT_AND_WATCH, json.dumps(everything)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert [event for event, _ in told["touched"] if event != "open"] == []


def test_the_core_never_imports_the_shells(imported: Imported) -> None:
    assert not [name for name in imported.modules if name.startswith("toolglot.") and is_shell(name)]


def imports_of(path: Path) -> set[str]:
    """Every module that a file names in an import, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


FOLDERS = sorted(path.parent.name for path in (ROOT / "dialects").glob("*/__init__.py"))


ON_PASSES = ("history_demand.py", "remedies.py")
"""Modules of a dialect that are passes themselves, and work with what passes have in common."""


@pytest.mark.parametrize("dialect", FOLDERS)
def test_a_dialect_imports_no_other_dialect_and_nothing_above_it(dialect: str) -> None:
    own = f"toolglot.dialects.{dialect}"
    below = (
        "capabilities",
        "dialect",
        "errors",
        "events",
        "ir",
        "lint",
        "manifest",
        "marks",
        "models",
        "readable",
        "receipt",
        "tokens",
        "tools",
        "wire",
        "schema",
        "state_fields",
    )
    for path in sorted((ROOT / "dialects" / dialect).rglob("*.py")):
        for name in imports_of(path):
            if name.startswith("toolglot") and not f"{name}.".startswith(f"{own}."):
                on_passes = path.name in ON_PASSES and name.startswith(("toolglot.passes", "toolglot.features"))
                assert on_passes or name.split(".")[1] in below, f"{path.name} imports {name}"


FORBIDDEN = ("asyncio", "logging", "os", "random", "secrets", "socket", "time", "uuid")


def file_of(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if "." in shell])
def test_a_shell_inside_of_a_pure_package_is_a_folder_and_each_module_in_it_has_to_be_there(shell: str) -> None:
    """So nobody has to look a module up to know whether it is pure, and nothing pure hides among what is not."""
    inside = [name for name in module_names() if name.startswith(f"toolglot.{shell}.")]
    assert inside
    for name in inside:
        imports = imports_of(file_of(name))
        beyond = {each for each in imports if each.partition(".")[0] in FORBIDDEN}
        beyond |= {each for each in imports if is_shell(each) and not each.startswith(f"toolglot.{shell}.")}
        assert beyond, f"{name} is pure: it belongs outside of {shell}"


@pytest.mark.parametrize("name", [name for name in module_names() if not is_shell(name)])
def test_the_core_has_no_clock_no_chance_no_environment_and_no_log(name: str) -> None:
    roots = {imported_name.partition(".")[0] for imported_name in imports_of(file_of(name))}
    assert not roots & set(FORBIDDEN)
    assert not re.search(r"\.(now|utcnow|today)\(", file_of(name).read_text())


@pytest.mark.parametrize("name", module_names())
def test_what_a_module_says_it_exports_is_true_and_sorted(name: str) -> None:
    module = importlib.import_module(name) if name != "toolglot.__main__" else None
    exported = getattr(module, "__all__", None)
    if exported is not None:
        assert len(set(exported)) == len(exported)
        assert all(hasattr(module, entry) for entry in exported)
        assert list(exported) == sorted(exported, key=sorting_key)


def sorting_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as the linter sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_everything_public_is_documented() -> None:
    for name in toolglot.__all__:
        value = getattr(toolglot, name)
        is_alias = get_origin(value) is not None  # a type alias has no docstring at run time
        assert is_alias or isinstance(value, dict) or value.__doc__, name


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_begins_by_saying_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path.relative_to(ROOT)} has no docstring"
