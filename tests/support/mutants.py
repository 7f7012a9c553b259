"""Changes a module in each place, and lists the changes that no test notices: `make mutants ARGS=PATH`.

A test that cannot fail proves nothing, and a suite that became smaller may have lost what only the deleted test saw. So
each *mutant* is the module with one node of its syntax tree changed: a comparison, a condition, a number, a returned value,
an argument, a statement. One that none of the tests fails for that run the changed line has survived. Whoever deletes or
merges tests keeps the list from before: `diff` with the list from afterwards shows what is no longer noticed.

1. Which tests run which lines is measured once, by coverage, whose context is the running test; the result is kept in
   .cache until a Python file of the project changes. Unit tests are measured; with --linux also the others.
2. Each mutant is tried in a process that is forked before any module of ours is loaded, so that whoever imports from the
   module gets the changed names. They run until one fails, first those of the files that are most about it. First of all, the unchanged module must pass.
3. Of a script for bash, each line is left out in turn, and the test files that name it are run, with the changed script
   mounted over the real one in a private mount namespace. It takes root.

What is left to a reader: a survivor can be equivalent to the original. tests/tables/mutants.toml lists these, each with its
reason. A survivor that is not listed fails, and so does one that is listed and dies. Without a PATH, the modules of tonight
are tried: a part of the list, another one each night. Texts, annotations and decorators are not changed, and False does
not become None.

mutmut and cosmic-ray were not taken: for each mutant they collect the whole suite anew, which takes longer than the tests.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["LIST", "ROOMS", "Mutant", "known_survivors", "lines_of", "main", "mutants_of"]

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 600  # seconds after which a mutant counts as hanging
_ENOUGH = 60  # tests for one mutant
_UNREADABLE = 99  # an exit code that pytest does not have
_PAIRS: list[tuple[type, type]] = [
    (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE),
    (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.BitOr, ast.BitAnd), (ast.LShift, ast.RShift),
]  # fmt: skip
_SWAPS = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_NOT_CHANGED = {"annotation", "returns", "decorator_list", "bases"}


class Mutant(NamedTuple):
    """One change."""

    name: str
    """The definition that contains the mutant, and its change."""
    line: int
    text: str
    """The whole changed source."""


def mutants_of(source: str, *, with_text: bool = True) -> list[Mutant]:
    """Every mutant of this module, in the order of its lines; `with_text` costs most of the time."""
    tree = ast.parse(source)
    found: list[Mutant] = []

    def visit(node: Any, definitions: tuple[str, ...]) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions = (*definitions, node.name)
        for field, value in ast.iter_fields(node):
            if field in _NOT_CHANGED or (isinstance(node, ast.ClassDef) and field == "keywords"):
                continue
            children = value if isinstance(value, list) else [value]
            for place, child in enumerate(children):
                if isinstance(child, ast.AST) and not _is_left_alone(child):
                    if (new := _changed(child)) is not child:
                        children[place] = new
                        _put(node, field, value, children)
                        name = f"{'.'.join(definitions)}: {_short(child)} -> {_short(new)}"
                        text = ast.unparse(tree) if with_text else ""
                        found.append(Mutant(name, getattr(child, "lineno", None) or node.lineno, text))
                        children[place] = child
                        _put(node, field, value, children)
                    visit(child, definitions)

    visit(tree, ())
    return [*_numbered(sorted(found, key=lambda mutant: mutant.line))]


def _numbered(mutants: Iterable[Mutant]) -> Iterator[Mutant]:
    """The same, with a number behind the second and each later of the same name."""
    seen: Counter[str] = Counter()
    for mutant in mutants:
        seen[mutant.name] += 1
        yield mutant._replace(name=mutant.name + f" ({seen[mutant.name]})" * (seen[mutant.name] > 1))


def _put(node: Any, field: str, value: object, children: list[Any]) -> None:
    setattr(node, field, [child for child in children if child is not None] if isinstance(value, list) else children[0])


def _changed(node: Any) -> Any:
    """What this node becomes: itself where nothing is to be changed, None where it is left out."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op, *_]) if type(op) in _SWAPS:
            new.ops[0] = _SWAPS[type(op)]()
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in _SWAPS:
            new.op = _SWAPS[type(op)]()
        case ast.UnaryOp(op=ast.Not()):
            new = new.operand
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int() | float() as number):
            new.value = number + 1
        case ast.If() | ast.While() | ast.IfExp():
            new.test = ast.UnaryOp(ast.Not(), new.test)
        case ast.comprehension(ifs=[_, *_]):
            new.ifs = []
        case ast.Return(value=ast.AST()) if not (
            isinstance(new.value, ast.Constant) and new.value.value in {None, False}
        ):
            new.value = ast.Constant(None)
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            new = ast.Pass()
        case ast.Continue() | ast.Break():
            new = ast.Break() if isinstance(new, ast.Continue) else ast.Continue()
        case ast.keyword(arg=str()):
            return None
        case _:
            return node
    return ast.fix_missing_locations(ast.copy_location(new, node)) if hasattr(node, "lineno") else new


def _is_left_alone(node: ast.AST) -> bool:
    """Names that are offered, what is for type checkers, and what a module does when it is run."""
    text = ast.unparse(node) if isinstance(node, ast.If | ast.Assign) else ""
    return text.startswith(("__all__ =", "if TYPE_CHECKING", "if __name__"))


def _short(node: ast.AST | None) -> str:
    if node is None:
        return "nothing"
    head = f"if {ast.unparse(node.test)}" if isinstance(node, ast.If | ast.While) else ast.unparse(node)
    return " ".join(head.split())[:60]


def lines_of(source: str) -> list[Mutant]:
    """A script without each of its lines in turn; empty lines and comments always stay."""
    lines = source.splitlines(keepends=True)
    found = (
        Mutant(f"without: {line.strip()}", number, "".join(lines[: number - 1] + lines[number:]))
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.strip().startswith("#")
    )
    return [*_numbered(found)]


# Which survivors are known

LIST = ROOT / "tests/tables/mutants.toml"
ROOMS = ("check", "fib", "routes", "boot")
_NIGHTS = 7


def known_survivors() -> dict[str, dict[str, str] | str]:
    """By module: the mutants that survive, each with the reason; or a sentence, if its mutants were not tried yet."""
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


def _tonight() -> list[str]:
    modules = sorted(module for module, known in known_survivors().items() if isinstance(known, dict))
    return modules[int(time.time() // 86_400) % _NIGHTS :: _NIGHTS]


# Which tests run which lines


class _Measuring:
    """A plugin that tells coverage which test is running, and keeps how long each takes."""

    def __init__(self, coverage: Any) -> None:
        self._coverage, self.seconds = coverage, dict[str, float]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration


def _measure(target: str, tier: str) -> int:
    import coverage  # noqa: PLC0415  the processes that try mutants must not load it
    import pytest  # noqa: PLC0415

    measured = coverage.Coverage(data_file=target, source=["hostrouting", "phases"], config_file=False)
    plugin = _Measuring(measured)
    with measured.collect():
        code = int(pytest.main(["-q", "-p", "no:xdist", "-m", tier, "--no-header", "--no-summary"], plugins=[plugin]))
    measured.save()
    if not code:
        Path(target).with_suffix(".json").write_text(json.dumps(plugin.seconds))
    return code


def _reaching(path: Path, *, linux: bool) -> tuple[dict[int, set[str]], dict[str, float]]:
    """For each line of a module the tests that run it, and for each test its seconds."""
    tier = "(unit or linux) and not nightly" if linux else "unit and not nightly"
    digest = hashlib.sha256(tier.encode())
    for folder in ("hostrouting", "phases", "tests"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    kept = ROOT / ".cache" / "mutants" / digest.hexdigest()[:16]
    if not kept.with_suffix(".json").exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        _say(f"measuring which tests run which lines, once, until a file changes: pytest -m '{tier}'")
        words = [sys.executable, "-m", "tests.support.mutants", "--measure", str(kept), tier]
        subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    from coverage import CoverageData  # noqa: PLC0415  see _measure

    data = CoverageData(str(kept))
    data.read()
    by_line = {line: set(filter(None, tests)) for line, tests in data.contexts_by_lineno(str(path)).items()}
    every = set().union(*by_line.values())
    # A line that runs when the module is imported runs for no test, and every test of the module depends on it.
    return {line: tests or every for line, tests in by_line.items()}, json.loads(kept.with_suffix(".json").read_text())


# How a mutant is tried


class _Chosen:
    """A plugin that runs these tests alone, the fastest first."""

    def __init__(self, tests: set[str], seconds: dict[str, float]) -> None:
        self._tests, self._seconds = tests, seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = [item for item in items if item.nodeid in self._tests]
        items[:] = sorted(kept, key=lambda item: self._seconds.get(item.nodeid, 0))


class _Changed:
    """Loads the changed text instead of the module's file."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text
        relative = path.relative_to(ROOT).with_suffix("")
        self._is_package = relative.name == "__init__"
        self._name = ".".join((relative.parent if self._is_package else relative).parts)

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        inside = [str(self._path.parent)] if self._is_package else None
        make: Any = importlib.util.spec_from_file_location
        return make(name, self._path, loader=self, submodule_search_locations=inside) if name == self._name else None

    def create_module(self, _spec: object) -> None:
        """The usual one."""

    def get_data(self, path: str) -> bytes:
        """A file beside the module."""
        return Path(path).read_bytes()

    def exec_module(self, module: Any) -> None:
        exec(compile(self._text, str(self._path), "exec"), module.__dict__)  # noqa: S102  what this is for


def _by_relevance(path: Path, tests: set[str], seconds: dict[str, float]) -> list[str]:
    """The files of these tests: first the module's own, then those of its room, each those with most of their tests here.

    Of tests outside the room, _ENOUGH are enough: what only the test of something else notices, its own do not check.
    """
    chosen = Counter(test.partition("::")[0] for test in tests)
    of_file = Counter(test.partition("::")[0] for test in seconds)
    room = f"tests/{path.parent.relative_to(ROOT)}/"

    def rank(file: str) -> tuple[bool, bool, float, str]:
        return file != f"{room}test_{path.stem}.py", not file.startswith(room), -chosen[file] / of_file[file], file

    files = sorted(chosen, key=rank)
    before = itertools.accumulate((chosen[file] for file in files), initial=0)
    return [file for file, count in zip(files, before, strict=False) if count < _ENOUGH or file.startswith(room)]


def _try_module(path: Path, text: str, tests: set[str], seconds: dict[str, float]) -> int:
    """Fork a process whose exit code tells whether these tests pass with this text."""
    if child := os.fork():
        return child
    code = 3
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.environ["CI"] = "true"  # the same random examples each time
        sys.meta_path.insert(0, _Changed(path, text))
        import pytest  # noqa: PLC0415  loaded already, by the parent

        for file in _by_relevance(path, tests, seconds):
            words = ["-x", "-q", "-p", "no:xdist", "-o", "cache_dir=.cache/mutants/pytest"]
            words += ["-W", "ignore::pytest.PytestAssertRewriteWarning", file]
            if code := int(pytest.main(words, plugins=[_Chosen(tests, seconds)])):
                break  # also if none of them is collected, for their names come from what was changed
    finally:
        os._exit(code)


def _try_script(path: Path, text: str, files: Sequence[str]) -> int:
    """The same for a script; _UNREADABLE if bash cannot read the changed text."""
    if child := os.fork():
        return child
    os.setpgid(0, 0)
    with tempfile.NamedTemporaryFile("w", suffix=path.name) as changed:
        changed.write(text)
        changed.flush()
        os.chmod(changed.name, path.stat().st_mode)
        if subprocess.run(["bash", "-n", changed.name], capture_output=True, check=False).returncode:
            os._exit(_UNREADABLE)
        pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-m", "not nightly"]
        mounted = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", mounted, "sh", changed.name, str(path), *pytest, *files]
        environment = {**os.environ, "CI": "true"}
        os._exit(subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, check=False).returncode)


def _outcomes(mutants: Sequence[Mutant], start: Callable[[Mutant], int]) -> Iterator[tuple[Mutant, int]]:
    """The exit code for each mutant, as many at once as there are processors."""
    running: dict[int, tuple[Mutant, float]] = {}
    left = list(mutants)
    while left or running:
        while left and len(running) < (os.cpu_count() or 1):
            mutant = left.pop(0)
            running[start(mutant)] = (mutant, time.monotonic())
        for child, (mutant, began) in list(running.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if not done and time.monotonic() - began > _PATIENCE:
                os.killpg(child, signal.SIGKILL)
                done, status = os.waitpid(child, 0)
            if done:
                del running[child]
                yield mutant, os.waitstatus_to_exitcode(status)
        time.sleep(0.01)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main(words: Sequence[str]) -> int:
    """Print the survivors that are not listed, and listed ones that died; the exit code is 1 if there are any.

    It is 2 if the unchanged module fails its tests.
    """
    parser = argparse.ArgumentParser(prog="make mutants ARGS=", usage="make mutants ARGS='PATH [options]'")
    parser.add_argument("path", type=Path, nargs="?", help="a module, or a script for bash; without: those of tonight")
    parser.add_argument("--only", default="", metavar="NAME", help="only in the function or class with this name")
    parser.add_argument("--sample", type=int, default=10_000, metavar="N", help="only so many, evenly spread")
    parser.add_argument("--linux", action="store_true", help="also with the tests that start processes")
    asked = parser.parse_args(words)
    if asked.path is None:
        return max([main([module, *words]) for module in _tonight()], default=0)
    path = asked.path.resolve()
    source = path.read_text(encoding="utf-8")
    is_script = path.suffix != ".py"
    mutants = lines_of(source) if is_script else mutants_of(source)
    if asked.only:
        mutants = [mutant for mutant in mutants if asked.only in mutant.name.partition(":")[0].split(".")]
    mutants = mutants[:: -(-len(mutants) // asked.sample) or 1]

    if is_script:
        tests = sorted((ROOT / "tests").rglob("test_*.py"))
        files = [str(test) for test in tests if path.stem in test.read_text(encoding="utf-8")]
        unreached: list[Mutant] = []

        def start(mutant: Mutant) -> int:
            return _try_script(path, mutant.text, files)
    else:
        lines, seconds = _reaching(path, linux=asked.linux)
        unreached = [mutant for mutant in mutants if mutant.line not in lines]
        mutants = [mutant for mutant in mutants if mutant.line in lines]
        import hypothesis.strategies  # noqa: F401, PLC0415  loaded once, for all that are forked
        import pytest  # noqa: F401, PLC0415

        def start(mutant: Mutant) -> int:
            reached = lines[mutant.line] if mutant.line else set().union(*lines.values())
            return _try_module(path, mutant.text, reached, seconds)

    [(_, code)] = _outcomes([Mutant("unchanged", 0, source)], start)
    if code:
        _say(f"{asked.path}: its tests fail (exit code {code}) without any change, so they can show nothing")
        return 2
    began, survived, unread = time.monotonic(), list[Mutant](), 0
    for mutant, code in _outcomes(mutants, start):
        unread += code == _UNREADABLE
        if not code:
            survived.append(mutant)
    left = [(mutant, "survived") for mutant in survived] + [(mutant, "run by no test") for mutant in unreached]
    known = known_survivors().get(str(path.relative_to(ROOT)), {})
    reasons = {} if isinstance(known, str) else known
    new = [(mutant, why) for mutant, why in left if mutant.name not in reasons]
    for mutant, why in sorted(new, key=lambda told: told[0].line):
        sys.stdout.write(f"{asked.path}:{mutant.line}: {why}: {mutant.name}\n")
    tried = {mutant.name for mutant in (*mutants, *unreached)}
    gone = sorted({*reasons} & tried - {mutant.name for mutant, _ in left})
    for name in gone:
        sys.stdout.write(f"{asked.path}: listed as a survivor, but it died: {name}\n")
    _say(
        f"{len(mutants) + len(unreached) - unread} mutants: {len(mutants) - unread - len(survived)} died,"
        f" {len(survived)} survived, {len(unreached)} run by no test; {len(left) - len(new)} of these are listed,"
        f" {len(gone)} listed ones died; {time.monotonic() - began:.0f} s"
    )
    return bool(new or gone)


if __name__ == "__main__":
    raise SystemExit(_measure(*sys.argv[2:]) if sys.argv[1:2] == ["--measure"] else main(sys.argv[1:]))
