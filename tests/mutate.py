"""Mutation testing: break the code in one place, run the tests that should notice, count what they miss.

    python -m tests.mutate --sample 200 --seed 1 [PATH …]

Mutants are drawn at random, but the same seed draws the same ones. Each runs in a fork of a process that has loaded
pytest already, on a copy of the package; the working tree is never touched.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "toolglot"
DEFAULT = ("dialects", "passes", "events.py")
TIMEOUT = 180

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def docstrings(tree: ast.AST) -> set[int]:
    """The ids of constants that are documentation: strings that stand alone."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def mutations(tree: ast.Module) -> Iterator[tuple[ast.AST, str, object]]:
    """Every place that can be broken: (node, field, broken value)."""
    documentation = docstrings(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
                yield node, "ops", [COMPARISONS[type(operator)]()]
            case ast.BoolOp(op=operator):
                yield node, "op", ast.Or() if isinstance(operator, ast.And) else ast.And()
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield node, "test", ast.UnaryOp(ast.Not(), test)
            case ast.Constant(value=bool() as value):
                yield node, "value", not value
            case ast.Constant(value=int() as value):
                yield node, "value", value + 1
            case ast.Constant(value=str() as value) if id(node) not in documentation:
                yield node, "value", f"{value}~"
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield node, "value", ast.Constant(None)
            case ast.Expr(value=ast.Call()):
                yield node, "value", ast.Constant(None)
            case ast.BinOp(op=ast.Add()):
                yield node, "op", ast.Sub()


def in_annotation(tree: ast.Module) -> set[int]:
    """Nodes inside annotations and imports, which the running program never reads."""
    parts: list[ast.AST] = []
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation):
                parts.append(annotation)
            case ast.arg(annotation=ast.expr() as annotation):
                parts.append(annotation)
            case ast.FunctionDef(returns=ast.expr() as returns):
                parts.append(returns)
    return {id(inner) for part in parts for inner in ast.walk(part)}


def mutants(path: Path) -> list[int]:
    """The numbers of the mutants of this file."""
    tree = ast.parse(path.read_text())
    skipped = in_annotation(tree)
    return [number for number, (node, _, _) in enumerate(mutations(tree)) if id(node) not in skipped]


def mutate(path: Path, number: int) -> tuple[str, str]:
    """The broken source, and a line that tells what was broken."""
    tree = ast.parse(path.read_text())
    node, field, value = list(mutations(tree))[number]
    before = copy.deepcopy(node)
    setattr(node, field, value)
    line = getattr(node, "lineno", 0)
    told = f"{path.relative_to(PACKAGE)}:{line}: {ast.unparse(before)[:90]!r} -> {ast.unparse(node)[:90]!r}"
    return ast.unparse(ast.fix_missing_locations(tree)), told


def tests_for(path: Path) -> list[str]:
    """The tests that should notice a mutant of this file, nearest first."""
    parts = path.relative_to(PACKAGE).parts
    if parts[0] == "dialects" and len(parts) > 2:
        near, law = f"tests/dialects/{parts[1]}", "3_lossless"
    elif parts[0] == "passes":
        near, law = "tests/passes", "8_receipt"
    else:
        near, law = "tests/test_events.py", "4_twins"
    return [near, "tests/test_cases.py", "tests/test_translate.py", "tests/pitfalls", f"tests/laws/test_law_{law}.py"]


def survives(copied: Path, path: Path, source: str) -> bool:
    target = copied / path.relative_to(PACKAGE.parent)
    target.write_text(source)
    child = os.fork()
    if child == 0:
        os.setpgrp()
        run_tests(copied, tests_for(path))
    deadline = time.monotonic() + TIMEOUT
    try:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) == 0
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return False  # an endless loop is noticed too
            time.sleep(0.05)
    finally:
        shutil.copy(path, target)


def run_tests(copied: Path, tests: list[str]) -> None:
    import pytest

    sys.path.insert(0, str(copied))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    code = 1  # a mutant that does not even load is noticed
    try:
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        os._exit(code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=DEFAULT, help="files or folders below src/toolglot")
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import pytest  # noqa: F401  loaded once, before the forks

    os.chdir(ROOT)
    files = [file for path in options.paths for file in sorted((PACKAGE / path).rglob("*.py"))]
    files += [PACKAGE / path for path in options.paths if (PACKAGE / path).is_file()]
    everything = [(file, number) for file in files for number in mutants(file)]
    drawn = random.Random(options.seed).sample(everything, min(options.sample, len(everything)))
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        shutil.copytree(PACKAGE, copied / "toolglot")
        for tests in {tuple(tests_for(file)): file for file, _ in drawn}.items():
            if not survives(copied, tests[1], tests[1].read_text()):
                print(f"these fail without any mutant: {' '.join(tests[0])}")
                return 2
        for count, (file, number) in enumerate(drawn, 1):
            source, told = mutate(file, number)
            if survives(copied, file, source):
                survivors += 1
                print(f"survived: {told}", flush=True)
            if count % 25 == 0:
                print(f"{count} of {len(drawn)} mutants, {survivors} survived", flush=True)
    print(f"{len(drawn)} of {len(everything)} mutants drawn with seed {options.seed}: {survivors} survived")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
