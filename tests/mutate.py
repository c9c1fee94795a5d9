"""Mutation testing: break the code in one place, run the tests that should notice, count what they miss.

    python -m tests.mutate --sample 200 --seed 1 [PATH …]

Mutants are drawn at random, but the same seed draws the same ones from the same code. Each runs in a fork of a process
that has loaded pytest already, on a copy of the package and its tests: the working tree is never touched, and may
change meanwhile.

Not drawn, but counted, is what no test could or should notice:

- `annotation`: types, and the members of a `Literal`. The running program does not read them; mypy does.
- `declaration`: `__all__`, `__slots__`, and `kw_only=` and `gc=` of a record. They guard against a programmer, or
  save memory. (`frozen=` is drawn.)
- `documentation`: strings that stand alone.
- `wording`: the sentences that a person reads in a receipt (its `what` and `why`; `where` and the severity are drawn),
  in a `DecodeError` (`where` is drawn), behind the rule of a `StreamError` (the rule is drawn), and in the reason of a
  `ModelRule`. Tests that repeat a sentence only make it hard to improve. A sentence that goes to a model or to a client
  in a message is no wording: it is bytes on the wire, and drawn.
- `twice`: the negation of a test that is one comparison, where the turned comparison is the same mutant.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "toolglot"
DEFAULT = ("dialects", "passes", "events.py")
CPU_SECONDS = 90
"""Processor time of a stage of tests: an endless loop is ended, and a busy machine ends nothing."""
MOST_SECONDS = 900
"""The same on the clock, for a mutant that waits."""

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


def mutations(tree: ast.Module) -> Iterator[tuple[ast.AST, str, object]]:
    """Every place that can be broken: (node, field, broken value)."""
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
            case ast.Constant(value=int() | float() as value):
                yield node, "value", value + 1
            case ast.Constant(value=str() as value):
                yield node, "value", f"{value}~"
            case ast.Constant(value=bytes() as value):
                yield node, "value", value + b"~"
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield node, "value", ast.Constant(None)
            case ast.Expr(value=ast.Call()):
                yield node, "value", ast.Constant(None)
            case ast.BinOp(op=ast.Add()):
                yield node, "op", ast.Sub()
            case ast.BinOp(op=ast.Sub()):
                yield node, "op", ast.Add()


SAME_NEGATED = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
DECLARED = ("kw_only", "gc")
# Function or method -> the places of its arguments that are sentences.
SENTENCES = {
    "loss": (1, 2),
    "note": (1, 2),
    "DecodeError": (1,),
    "expected": (1,),
    "StreamError": (1,),
    "ModelRule": (2,),
}
SENTENCE_NAMES = ("why", "what")


def not_drawn(tree: ast.Module) -> dict[int, str]:
    """The ids of the nodes that are not broken, and why: the classes that stand above."""
    reasons: dict[int, str] = {}
    takes_why = {
        node.name: [argument.arg for argument in node.args.args if argument.arg != "self"].index("why")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(argument.arg == "why" for argument in node.args.args)
    }
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=part) | ast.arg(annotation=ast.expr() as part):
                reasons |= dict.fromkeys(_inside(part), "annotation")
            case ast.FunctionDef(returns=ast.expr() as part):
                reasons |= dict.fromkeys(_inside(part), "annotation")
            case ast.Subscript(value=ast.Name(id="Literal")):
                reasons |= dict.fromkeys(_inside(node), "annotation")
            case ast.Expr(value=ast.Constant()):
                reasons[id(node.value)] = "documentation"
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], SAME_NEGATED):
                    reasons[id(node)] = "twice"
            case ast.ClassDef(keywords=keywords):
                parts = [keyword.value for keyword in keywords if keyword.arg in DECLARED]
                reasons |= dict.fromkeys(map(id, parts), "declaration")
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                reasons |= _assigned(name, value)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                reasons |= _assigned(name, value)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments):
                places = SENTENCES.get(name) or ((takes_why[name],) if name in takes_why else ())
                sentences = [arguments[place] for place in places if place < len(arguments)]
                reasons |= {id(word): "wording" for part in sentences for word in _words(part)}
    return reasons


def _inside(part: ast.AST) -> list[int]:
    return [id(inner) for inner in ast.walk(part)]


def _assigned(name: str, value: ast.expr) -> dict[int, str]:
    if name in ("__all__", "__slots__"):
        return dict.fromkeys(_inside(value), "declaration")
    return {id(word): "wording" for word in _words(value)} if name in SENTENCE_NAMES else {}


def _words(part: ast.expr) -> Iterator[ast.Constant]:
    """The strings that make up a sentence, and how much of one is shown; not what something is looked up by."""
    match part:
        case ast.Subscript(slice=ast.Slice(upper=ast.Constant() as length)):
            yield length
        case ast.Constant(value=str()):
            yield part
        case ast.JoinedStr(values=values):
            yield from (value for value in values if isinstance(value, ast.Constant))
        case ast.IfExp(body=first, orelse=second) | ast.BinOp(left=first, right=second):
            yield from _words(first)
            yield from _words(second)


def mutants(path: Path) -> tuple[list[int], Counter[str]]:
    """The numbers of the mutants of this file, and how many are not drawn for which reason."""
    tree = ast.parse(path.read_text())
    reasons = not_drawn(tree)
    numbers: list[int] = []
    left_out: Counter[str] = Counter()
    for number, (node, _, _) in enumerate(mutations(tree)):
        if id(node) in reasons:
            left_out[reasons[id(node)]] += 1
        else:
            numbers.append(number)
    return numbers, left_out


def mutate(path: Path, number: int) -> tuple[str, str]:
    """The broken source, and a line that tells what was broken."""
    tree = ast.parse(path.read_text())
    node, field, value = list(mutations(tree))[number]
    before = copy.deepcopy(node)
    setattr(node, field, value)
    line = getattr(node, "lineno", 0)
    told = f"{path.relative_to(PACKAGE)}:{line}: {ast.unparse(before)[:90]!r} -> {ast.unparse(node)[:90]!r}"
    return ast.unparse(ast.fix_missing_locations(tree)), told


EVERYWHERE = ["tests/test_records.py", "tests/test_limits.py", "tests/test_cases.py", "tests/test_translate.py"]


def stages_for(path: Path) -> list[list[str]]:
    """The tests that should notice a mutant of this file: the nearest alone, then the others while it survives."""
    parts = path.relative_to(PACKAGE).parts
    homes = [Path("tests", *parts[:depth]) for depth in range(len(parts) - 1, -1, -1)]
    exact = [str(home / f"test_{parts[-1]}") for home in homes if (ROOT / home / f"test_{parts[-1]}").exists()]
    near, laws = _neighbours(parts)
    return [stage for stage in ([*exact], *near, [*EVERYWHERE, "tests/pitfalls"], laws) if stage]


def _neighbours(parts: tuple[str, ...]) -> tuple[list[list[str]], list[str]]:
    """The tests of the same folder in stages, and the laws."""
    if parts[0] == "passes":
        laws = ["tests/laws/test_law_8_receipt.py", "tests/laws/test_law_9_idempotence.py"]
        quick = [f"tests/passes/test_{name}.py" for name in ("prepared", "every_capability", "tables", "reporter")]
        return [quick, ["tests/passes", "--deselect=tests/passes/test_laws.py"]], laws
    if parts[0] != "dialects":
        return [], ["tests/laws/test_law_4_twins.py"]
    laws = ["tests/laws/test_law_3_lossless.py"]
    if len(parts) == 2:
        return [["tests/dialects"]], laws
    quick = [
        f"tests/dialects/test_{name}.py" for name in ("capabilities", "encoders", "error_pages", "understood", "usage")
    ]
    thorough = [f"tests/dialects/test_{name}.py" for name in ("paths", "lossless")]
    return [[f"tests/dialects/{parts[1]}", *quick], [*thorough, "-k", parts[1]]], laws


def copy_of_everything(folder: Path) -> None:
    """The package and its tests, compiled; nothing is compiled later, so that no mutant is taken for another."""
    ignored = shutil.ignore_patterns("__pycache__", "node_modules", ".mypy_cache")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored)
    shutil.copy2(ROOT / "pyproject.toml", folder)
    compileall.compile_dir(folder / "src", quiet=2)


def survives(copied: Path, path: Path, source: str) -> bool:
    target = copied / path.relative_to(ROOT)
    whole = target.read_text()
    for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
        compiled.unlink()
    target.write_text(source)
    try:
        return all(passes(copied, tests) for tests in stages_for(path))
    finally:
        target.write_text(whole)


def passes(copied: Path, tests: list[str]) -> bool:
    child = os.fork()
    if child == 0:
        os.setpgrp()
        run_tests(copied, tests)
    deadline = time.monotonic() + MOST_SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        if time.monotonic() > deadline or processor_seconds(child) > CPU_SECONDS:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False  # an endless loop is noticed too
        time.sleep(0.02)


def processor_seconds(process: int) -> float:
    """Read from outside: a limit on the process itself (`RLIMIT_CPU`) makes its clock tick in steps of milliseconds."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def run_tests(copied: Path, tests: list[str]) -> None:
    import pytest

    os.chdir(copied)
    sys.path[:0] = [str(copied), str(copied / "src")]
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    code = 1  # a mutant that does not even load is noticed
    try:
        # Hypothesis is loaded already, which pytest would warn of.
        quiet = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = int(pytest.main(["-x", *quiet, *tests]))
    finally:
        os._exit(code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=DEFAULT, help="files or folders below src/toolglot")
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", action="store_true", help="only count the mutants")
    options = parser.parse_args()
    files = [file for path in options.paths for file in sorted((PACKAGE / path).rglob("*.py"))]
    files += [PACKAGE / path for path in options.paths if (PACKAGE / path).is_file()]
    everything: list[tuple[Path, int]] = []
    left_out: Counter[str] = Counter()
    for file in files:
        numbers, reasons = mutants(file)
        everything += [(file, number) for number in numbers]
        left_out += reasons
    told = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
    print(f"{len(everything)} mutants; not drawn: {told}", flush=True)
    drawn = random.Random(options.seed).sample(everything, min(options.sample, len(everything)))
    if options.count:
        return 0
    return run(drawn, f"{len(drawn)} of {len(everything)} mutants drawn with seed {options.seed}")


def run(drawn: list[tuple[Path, int]], title: str) -> int:
    import hypothesis
    import pytest  # loaded once, before the forks

    del hypothesis, pytest
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        copy_of_everything(copied)
        broken = [(file, *mutate(file, number)) for file, number in drawn]
        for tests in {tuple(tests): tests for file, _ in drawn for tests in stages_for(file)}.values():
            if not passes(copied, tests):
                print(f"these fail without any mutant: {' '.join(tests)}")
                return 2
        for count, (file, source, told) in enumerate(broken, 1):
            if survives(copied, file, source):
                survivors += 1
                print(f"survived: {told}", flush=True)
            if count % 25 == 0:
                print(f"{count} of {len(broken)} mutants, {survivors} survived", flush=True)
    print(f"{title}: {survivors} survived")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
