"""Changes a module in each place, and lists the changes that no test notices: `make mutants ARGS=PATH`.

A test that cannot fail proves nothing, and a suite that became smaller may have lost what only the deleted test saw. So
each *mutant* is the module with one node of its syntax tree changed: a comparison, a condition, a number, a returned value,
an argument, a statement. One that none of the tests fails for that run the changed line has survived. Whoever deletes or
merges tests keeps the list from before: `diff` with the list from afterwards shows what is no longer noticed.

1. Which tests run which lines is measured by coverage, whose context is the running test. The result for a file of tests
   is kept in .cache until that file or the product changes. Unit tests are measured, and of the file of tests that has the
   module's name all; with --linux those of all files.
2. pytest collects the tests once. A process is forked for each mutant, puts the code of the changed function into the place
   of the old one, so that whoever imported it runs the changed one, and runs tests until one fails: those of the module's
   room first, of these the fastest and those that noticed most so far. Nothing but the function differs from the module as
   it was loaded, for the function did not run while modules were loaded and tests collected. Where it did, and where what
   is changed is not inside a function, the process is forked before any module of ours is loaded, which takes some seconds
   more.
3. Of a script for bash, each line is left out in turn. The tests in the files that name a function which renders it are
   run likewise, with the changed script mounted over the real one in a mount namespace of the process. Of an included
   script these are the files for the scripts that include it. No test may read the script while tests are collected.

First of all, the unchanged module must pass. All of it happens in namespaces: only the checkout and empty folders for
temporary files can be written to, for a mutant of what writes files may write them anywhere, and whatever a mutant has
left running ends with the tool.

What is left to a reader: a survivor can be equivalent to the original. tests/tables/mutants.toml lists these, each with its
reason. A survivor that is not listed fails, and so does one that is listed and dies. Without a PATH, the modules of tonight
are tried, and in a week all; what was not reached in the --minutes is named. Texts, annotations and decorators are not
changed, and False does not become None.

mutmut and cosmic-ray were not taken: for each mutant they collect the whole suite anew, which takes longer than the tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import hashlib
import importlib.util
import inspect
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "LIST",
    "ROOMS",
    "Mutant",
    "functions_changed",
    "known_survivors",
    "lines_of",
    "main",
    "mutants_of",
    "nights",
]

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 600  # seconds after which a mutant counts as hanging
_ENOUGH = 60  # tests of other rooms for one mutant
_MEMORY = 1 << 30  # bytes, more than which a mutant does not get
_LATE = 1000  # stands for the exit code of a mutant for which no time was left
_CLONE_NEWNS = 0x20000
_LOADED_BEFORE = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # what pytest would rewrite is loaded already
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
    """Names that are offered, what is for type checkers or the end of a zip, and what a module does when it is run."""
    text = ast.unparse(node) if isinstance(node, ast.If | ast.Assign) else ""
    is_strict = (
        isinstance(node, ast.keyword) and node.arg == "strict"
    )  # it checks the code around it, as an assert does
    return is_strict or text.startswith(("__all__ =", "if TYPE_CHECKING", "if __name__"))


def _short(node: ast.AST | None) -> str:
    if node is None:
        return "nothing"
    head = f"if {ast.unparse(node.test)}" if isinstance(node, ast.If | ast.While) else ast.unparse(node)
    # Python 3.10 writes parentheses around several targets of a loop.
    return re.sub(r"\bfor \(([^()]*)\) in\b", r"for \1 in", " ".join(head.split()))[:60]


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
_LIKE = 20  # mutants of a module take as long as a line of a script


def known_survivors() -> dict[str, dict[str, str] | str]:
    """By module: the mutants that survive, each with the reason; or a sentence, if its mutants were not tried yet."""
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


def nights() -> list[list[str]]:
    """The modules of each night of a week, which take about as long each night; a script that takes longer has its own."""
    costs = dict[str, int]()
    for module, known in known_survivors().items():
        text = (ROOT / module).read_text(encoding="utf-8")
        if isinstance(known, dict):
            is_script = module.endswith(".sh")
            costs[module] = _LIKE * len(lines_of(text)) if is_script else len(mutants_of(text, with_text=False))
    found: list[list[str]] = [[] for _ in range(_NIGHTS)]
    for module in sorted(costs, key=lambda module: (-costs[module], module)):
        min(found, key=lambda night: sum(costs[each] for each in night)).append(module)
    return found


def _try_tonight(words: Sequence[str], minutes: float) -> int:
    until, code, late = time.monotonic() + 60 * minutes, 0, list[str]()
    for module in nights()[int(time.time() // 86_400) % _NIGHTS]:
        if (left := (until - time.monotonic()) / 60) <= 0:
            late.append(module)
            continue
        again = [sys.executable, "-m", "tests.support.mutants", module, *words, "--minutes", str(left)]
        code = max(code, subprocess.run(again, check=False).returncode)
    if late:
        _say(f"not tried for want of time: {', '.join(late)}")
    if never := [module for module, known in known_survivors().items() if isinstance(known, str)]:
        _say(f"not tried at any night, see {LIST.name}: {', '.join(never)}")
    return code


# Which tests run which lines


class _Measuring:
    """A plugin that tells coverage which test is running, and keeps how long each takes."""

    def __init__(self, coverage: Any) -> None:
        self._coverage, self.seconds = coverage, Counter[str]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            _say(f"{report.nodeid} fails while it is measured:\n{report.longreprtext}")


def _measure(tier: str, *targets: str) -> int:
    """Write for each file of tests, `FILE=TARGET`, the seconds of its tests and a number whose bits are the lines they run."""
    import coverage  # noqa: PLC0415  the processes that try mutants must not load it
    import pytest  # noqa: PLC0415

    files = dict(target.split("=") for target in targets)
    measured = coverage.Coverage(data_file=None, source=["hostrouting", "phases"], config_file=False)
    plugin = _Measuring(measured)
    with measured.collect():
        for path in sorted((ROOT / "hostrouting").rglob("*.py")):
            # pytest rewrites the assertions of hostrouting.testing, if it loads them.
            if path.stem != "__main__" and "testing" not in path.relative_to(ROOT).parts:
                importlib.import_module(_name_of(path))
        measured.switch_context(_COLLECTED)
        words = ["-q", "-p", "no:xdist", "-m", tier, "--no-header", *_LOADED_BEFORE, *files]
        code = int(pytest.main(words, plugins=[plugin]))
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return code
    found: dict[str, dict[str, Any]] = {file: {"seconds": {}, "lines": {}} for file in files}
    for test, seconds in plugin.seconds.items():
        found[test.partition("::")[0]]["seconds"][test] = seconds
    data = measured.get_data()
    for module in data.measured_files():
        bits = Counter[str]()
        for line, tests in data.contexts_by_lineno(module).items():
            for test in tests:
                bits[test] += 1 << line
        for test, lines in bits.items():
            for file in [test.partition("::")[0]] if "::" in test else files:
                found[file]["lines"].setdefault(str(Path(module).relative_to(ROOT)), {})[test] = hex(lines)
    for file, target in files.items():
        Path(target).write_text(json.dumps(found[file]))
    return 0


_LOADED, _COLLECTED = "", "collected"


class _Reach(NamedTuple):
    """What was measured about one module."""

    lines: dict[str, int]
    """By test, a number whose bits are the lines that it runs; also of what runs while the product and the tests are loaded."""
    seconds: dict[str, float]

    def tests(self, line: int) -> list[str]:
        """The tests that run this line; all that run any, if none does but it is run before them; also all for line 0."""
        every = [test for test in self.lines if "::" in test]
        early = not line or (self.lines.get(_LOADED, 0) | self.lines.get(_COLLECTED, 0)) >> line & 1
        return [test for test in every if line and self.lines[test] >> line & 1] or (every if early else [])

    def is_early(self, line: int) -> bool:
        """Whether this line is run while the product is loaded, or by no test."""
        run_by_test = any(bits >> line & 1 for test, bits in self.lines.items() if "::" in test)
        return bool(self.lines.get(_LOADED, 0) >> line & 1) or not run_by_test


def _reach(path: Path, *, linux: bool, only: Sequence[Path] = ()) -> _Reach:
    """What the tests of the suite run of this module, or those of these files only.

    Without `linux`, only the file of tests that has the module's name is measured with its tests that start processes.
    """
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    shared = hashlib.sha256()
    for file in sorted(file for folder in ("hostrouting", "phases", "tests") for file in (ROOT / folder).rglob("*.py")):
        shared.update(b"" if file in tests or file == Path(__file__) else file.read_bytes())
    folder = ROOT / ".cache/mutants"
    folder.mkdir(parents=True, exist_ok=True)
    own = ROOT / "tests" / path.relative_to(ROOT).with_name(f"test_{path.stem}.py")
    targets, missing = list[Path](), dict[str, list[str]]()
    for file in [file.resolve() for file in only] or tests:
        tier = "(unit or linux) and not nightly" if linux or file == own else "unit and not nightly"
        digest = shared.copy()
        digest.update(tier.encode() + file.read_bytes())
        targets.append(folder / f"{file.stem}-{digest.hexdigest()[:16]}.json")
        if not targets[-1].exists():
            missing.setdefault(tier, []).append(f"{file.relative_to(ROOT)}={targets[-1]}")
    for tier, files in missing.items():
        _say(f"measuring which lines the tests of {len(files)} files run, once, until they or the product change")
        words = [sys.executable, "-m", "tests.support.mutants", "--measure", tier]
        measuring = [subprocess.Popen([*words, *part], cwd=ROOT, stdout=subprocess.DEVNULL) for part in _parts(files)]
        codes = [process.wait() for process in measuring]
        if any(codes):
            raise SystemExit("tests fail while they are measured: run them")
    lines, seconds = Counter[str](), dict[str, float]()
    for target in targets:
        found = json.loads(target.read_text())
        seconds |= found["seconds"]
        for test, bits in found["lines"].get(str(path.relative_to(ROOT)), {}).items():
            lines[test] |= int(bits, 16)
    return _Reach(lines, seconds)


def _parts(words: list[str]) -> list[list[str]]:
    """As many parts as there are processors."""
    return [part for start in range(_at_once()) if (part := words[start :: _at_once()])]


def _at_once() -> int:
    """The number of processors that this process may use: `taskset` limits it."""
    return len(os.sched_getaffinity(0))


# How a mutant is tried


class _Chosen:
    """A plugin that runs these tests alone, the fastest first."""

    def __init__(self, tests: set[str], seconds: dict[str, float]) -> None:
        self._tests, self._seconds = tests, seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = [item for item in items if item.nodeid in self._tests]
        items[:] = sorted(kept, key=lambda item: self._seconds.get(item.nodeid, 0))


def _chosen(path: Path, reach: _Reach, line: int, kills: Mapping[str, int]) -> list[str]:
    """The tests for this line: those of the module's room, then others; first the fastest, and those that noticed much so far.

    Of the others, _ENOUGH are enough: what only the test of something else notices, its own do not check.
    """
    tests = sorted(reach.tests(line), key=lambda test: (0.01 + reach.seconds.get(test, 0)) / (1 + kills.get(test, 0)))
    folder = path.parent if path.suffix == ".py" else path.parents[1]
    room = f"tests/{folder.relative_to(ROOT)}/"
    others = [test for test in tests if not test.startswith(room)]
    return [test for test in tests if test.startswith(room)] + others[:_ENOUGH]


def _pytest(files: Iterable[str], plugin: object) -> int:
    import pytest  # noqa: PLC0415  only the processes that try modules need it

    os.environ["CI"] = "true"  # the same random examples each time
    words = ["-q", "--tb=no", "--capture=sys", "-p", "no:xdist", "-o", "cache_dir=.cache/mutants/pytest"]
    words += _LOADED_BEFORE
    with contextlib.redirect_stdout(io.StringIO()):
        return int(pytest.main([*words, *sorted({*files})], plugins=[plugin]))


def _passes(session: Any, tests: Sequence[str], reach: _Reach, tell: int = -1) -> bool:
    """Run the tests in this order, until one fails or takes far longer than it should; write to `tell` which one failed."""
    there = {item.nodeid: item for item in session.items}
    items = [there[test] for test in tests if test in there]
    for item, following in zip(items, [*items[1:], None], strict=True):
        usual = reach.seconds.get(item.nodeid, 0)
        signal.setitimer(signal.ITIMER_PROF, 1 + 10 * usual)
        signal.setitimer(signal.ITIMER_REAL, 20 + 10 * usual)  # while a program that the test has started never ends
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            if tell >= 0:
                os.write(tell, f"{item.nodeid}\n".encode())
            return False
    return bool(items)


def _fork() -> int:
    """The id of the new process; in that, 0, a group and limits of its own, and no output."""
    if child := os.fork():
        return child
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_PATIENCE, _PATIENCE))
    return 0


# In a process that has collected the tests already


def _functions(code: CodeType, before: str = "") -> Iterator[tuple[str, CodeType]]:
    """The functions of a module, and of its classes, with their qualified names."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:
                yield before + inner.co_name, inner
            else:
                yield from _functions(inner, f"{before}{inner.co_name}.")


def functions_changed(source: str, changed: str, path: Path) -> dict[str, CodeType]:
    """The function that differs; none where something else does, or where its name or variables do not tell which it is."""
    olds, news = ([*_functions(compile(text, str(path), "exec"))] for text in (source, changed))
    names = Counter(name for name, _ in olds)
    return {
        name: new
        for (name, old), (_, new) in zip(olds, news, strict=True)
        if new != old and names[name] == 1 and new.co_freevars == old.co_freevars and "<" not in name
    }


class _Warm:
    """A plugin that tries mutants with the collected tests, each in a process of its own, where pytest would run the tests."""

    def __init__(self, path: Path, mutants: dict[Mutant, dict[str, CodeType]], reach: _Reach, until: float) -> None:
        self._path, self._mutants, self._reach, self._until = path, mutants, reach, until
        self._live = dict[str, list[FunctionType]]()
        self._kills = Counter[str]()
        self._is_read = False
        if path.suffix != ".py":
            sys.addaudithook(self._watch)
        self.outcomes = list[tuple[Mutant, int]]()

    def _watch(self, event: str, arguments: tuple[object, ...]) -> None:
        self._is_read |= event == "open" and arguments[0] == str(self._path)

    def pytest_collection_finish(self) -> None:
        """Find the module's functions, while the garbage collector still knows them."""
        if self._path.suffix != ".py":
            if self._is_read:
                raise SystemExit(f"{self._path} is read while tests are collected, so they would not see a change")
            return
        importlib.import_module(_name_of(self._path))
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename == str(self._path):
                self._live.setdefault(found.__qualname__, []).append(found)

    def pytest_runtestloop(self, session: Any) -> bool:
        told, tell = os.pipe()
        os.set_blocking(told, False)

        def start(mutant: Mutant) -> int:
            with contextlib.suppress(BlockingIOError):
                self._kills.update(os.read(told, 1 << 16).decode().splitlines())
            tests = _chosen(self._path, self._reach, mutant.line, self._kills)
            new = [(live, code) for name, code in self._mutants[mutant].items() for live in self._live[name]]
            if child := _fork():
                return child
            try:
                if self._path.suffix != ".py":
                    _put_over(self._path, mutant.text)
                for live, code in new:
                    live.__code__ = code
                os._exit(not _passes(session, tests, self._reach, tell))
            finally:
                os._exit(1)

        first, *others = self._mutants
        self.outcomes = [*_outcomes([first], start, self._until)]
        if self.outcomes[0][1]:
            _say(f"exit code {self.outcomes[0][1]}: {os.read(told, 1 << 16).decode()}")
        else:
            self.outcomes += _outcomes(others, start, self._until)
        return True


def _name_of(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    return ".".join((relative.parent if relative.name == "__init__" else relative).parts)


def _can_be_read(script: str) -> bool:
    return not subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False).returncode


def _put_over(path: Path, text: str) -> None:
    """Mount the text over the file, for this process and those that it starts."""
    import ctypes  # noqa: PLC0415  os.unshare exists from Python 3.12 on

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    with tempfile.NamedTemporaryFile("w", suffix=path.name) as changed:
        changed.write(text)
        changed.flush()
        os.chmod(changed.name, path.stat().st_mode)
        subprocess.run(["mount", "--bind", changed.name, path], check=True)


# In a process that has loaded nothing of ours


class _Changed:
    """Loads the changed text instead of the module's file."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        inside = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        make: Any = importlib.util.spec_from_file_location
        found = name == _name_of(self._path)
        return make(name, self._path, loader=self, submodule_search_locations=inside) if found else None

    def create_module(self, _spec: object) -> None:
        """The usual one."""

    def get_data(self, path: str) -> bytes:
        """A file beside the module."""
        return Path(path).read_bytes()

    def exec_module(self, module: Any) -> None:
        exec(compile(self._text, str(self._path), "exec"), module.__dict__)  # noqa: S102  what this is for


class _Cold:
    """A plugin that runs these tests, in this order."""

    def __init__(self, tests: Sequence[str], reach: _Reach) -> None:
        self._tests, self._reach = tests, reach

    def pytest_runtestloop(self, session: Any) -> bool:
        if not _passes(session, self._tests, self._reach):
            os._exit(1)
        return True


def _try_cold(path: Path, mutant: Mutant, reach: _Reach) -> int:
    """Fork a process whose exit code tells whether the tests pass with this module; also 1 if they cannot be collected."""
    if child := _fork():
        return child
    try:
        sys.meta_path.insert(0, _Changed(path, mutant.text))
        tests = _chosen(path, reach, mutant.line, {})
        code = 0
        for file in dict.fromkeys(test.partition("::")[0] for test in tests):
            there = [test for test in tests if test.startswith(f"{file}::")]
            code = code or _pytest([file], _Cold(there, reach))
        os._exit(code)
    finally:
        os._exit(1)


def _files_for(script: Path) -> list[Path]:
    """The files of tests that name a function which renders this script, or one that includes it; those of its room first.

    A file that imports from a module of tests.support names what that module names.
    """
    room = script.parents[1]
    including = [path for path in room.glob("assets/*.sh") if f"#include {script.name}\n" in path.read_text()]
    defined = [node for path in room.glob("*.py") for node in ast.parse(path.read_text()).body]
    names = {
        node.name
        for node in defined
        if isinstance(node, ast.FunctionDef)
        and any(f"'{path.name}'" in ast.unparse(node) for path in (script, *including))
    }
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    for path, text in texts.items():
        if path.parent.name == "support" and any(name in text for name in names):
            names |= {f"tests.support.{path.stem}"}
    tests = [path for path in texts if path.name.startswith("test_") and any(name in texts[path] for name in names)]
    return sorted(tests, key=lambda test: (room.name not in test.parts, test))


def _outcomes(mutants: Sequence[Mutant], start: Callable[[Mutant], int], until: float) -> Iterator[tuple[Mutant, int]]:
    """The exit code for each mutant, as many at once as there are processors for this process.

    What a mutant has left behind in its group of processes ends with it.
    """
    running: dict[int, tuple[Mutant, float]] = {}
    left = list(mutants)
    while left or running:
        if time.monotonic() > until:
            yield from ((mutant, _LATE) for mutant in left if mutant.line)
            left = [mutant for mutant in left if not mutant.line]  # the unchanged one
        while left and len(running) < _at_once():
            mutant = left.pop(0)
            running[start(mutant)] = (mutant, time.monotonic())
        for child, (mutant, began) in list(running.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if not done and time.monotonic() - began > _PATIENCE:
                os.killpg(child, signal.SIGKILL)
                done, status = os.waitpid(child, 0)
            if done:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
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
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME",
        help="only in the function or class with this name; or the lines with this text",
    )
    parser.add_argument("--sample", type=int, default=10_000, metavar="N", help="only so many, evenly spread")
    parser.add_argument("--from", type=int, default=0, metavar="LINE", dest="first", help="only from this line on")
    parser.add_argument(
        "--minutes", type=float, default=100_000, metavar="N", help="then name the line to continue from"
    )
    parser.add_argument("--linux", action="store_true", help="also with the tests that start processes")
    parser.add_argument(
        "--tests", type=Path, nargs="+", metavar="FILE", default=[], help="only with the tests of these files"
    )
    asked = parser.parse_args(words)
    if asked.path is None:
        return _try_tonight(words, asked.minutes)
    path = asked.path.resolve()
    source = path.read_text(encoding="utf-8")
    is_script = path.suffix != ".py"
    mutants = lines_of(source) if is_script else mutants_of(source)
    if asked.only:
        named = [mutant.name if is_script else mutant.name.partition(":")[0].split(".") for mutant in mutants]
        mutants = [mutant for mutant, within in zip(mutants, named, strict=True) if asked.only in within]
    mutants = [mutant for mutant in mutants if mutant.line >= asked.first]
    mutants = mutants[:: -(-len(mutants) // asked.sample) or 1]
    unreached, began = list[Mutant](), time.monotonic()
    until = began + 60 * asked.minutes
    if is_script:
        measured = _reach(path, linux=True, only=asked.tests or _files_for(path))
        reach = measured._replace(lines=dict.fromkeys(measured.seconds, -1))  # which lines bash runs is not measured
        outcomes = _try_warm(
            path, source, {mutant: {} for mutant in mutants if _can_be_read(mutant.text)}, reach, until
        )
    else:
        reach = _reach(path, linux=asked.linux, only=asked.tests)
        unreached = [mutant for mutant in mutants if not reach.tests(mutant.line)]
        outcomes = _try_module(path, source, [mutant for mutant in mutants if mutant not in unreached], reach, until)
    if any(code for mutant, code in outcomes if mutant.name == "unchanged"):
        _say(f"{asked.path}: its tests fail without any change, so they can show nothing")
        return 2
    late = [mutant.line for mutant, code in outcomes if code == _LATE]
    outcomes = [(mutant, code) for mutant, code in outcomes if mutant.name != "unchanged" and code != _LATE]
    left = [(mutant, "survived") for mutant, code in outcomes if not code]
    left += [(mutant, "run by no test") for mutant in unreached]
    known = known_survivors().get(str(path.relative_to(ROOT)), {})
    reasons = {} if isinstance(known, str) else known
    new = [(mutant, why) for mutant, why in left if mutant.name not in reasons]
    for mutant, why in sorted(new, key=lambda told: told[0].line):
        sys.stdout.write(f"{asked.path}:{mutant.line}: {why}: {mutant.name}\n")
    tried = {mutant.name for mutant, _ in outcomes} | {mutant.name for mutant in unreached}
    gone = sorted({*reasons} & tried - {mutant.name for mutant, _ in left})
    for name in gone:
        sys.stdout.write(f"{asked.path}: listed as a survivor, but it died: {name}\n")
    _say(
        f"{asked.path}: {len(tried)} mutants: {len(tried) - len(left)} died, {len(left) - len(unreached)} survived,"
        f" {len(unreached)} run by no test; {len(left) - len(new)} of these are listed, {len(gone)} listed ones died;"
        f" {time.monotonic() - began:.0f} s"
        + f"; {len(late)} were not tried for want of time: go on with --from {min(late, default=0)}"
        * bool(late)
    )
    return bool(new or gone)


def _try_module(
    path: Path, source: str, mutants: Sequence[Mutant], reach: _Reach, until: float
) -> list[tuple[Mutant, int]]:
    """The exit code for each mutant, and for the module as it is."""
    plain = ast.unparse(ast.parse(source))
    code = {
        mutant: {} if reach.is_early(mutant.line) else functions_changed(plain, mutant.text, path) for mutant in mutants
    }
    cold = [mutant for mutant in mutants if not code[mutant]]
    import hypothesis.strategies  # noqa: F401, PLC0415  loaded once, for all that are forked
    import pytest  # noqa: F401, PLC0415

    unchanged = Mutant("unchanged", 0, plain)
    tried = [*_outcomes([unchanged, *cold], lambda mutant: _try_cold(path, mutant, reach), until)] if cold else []
    _say(f"{len(cold)} of {len(mutants)} mutants are tried in processes that load everything anew")
    return tried + _try_warm(path, plain, {mutant: code[mutant] for mutant in mutants if code[mutant]}, reach, until)


def _try_warm(
    path: Path, plain: str, mutants: dict[Mutant, dict[str, CodeType]], reach: _Reach, until: float
) -> list[tuple[Mutant, int]]:
    """The same for mutants that can be tried when the tests are collected."""
    if not mutants:
        return []
    warm = _Warm(path, {Mutant("unchanged", 0, plain): {}, **mutants}, reach, until)
    files = {test.partition("::")[0] for mutant in mutants for test in _chosen(path, reach, mutant.line, {})}
    if _pytest(files, warm):
        raise SystemExit("the tests cannot be collected")
    return warm.outcomes


# Whatever a mutant writes is gone afterwards

_MOUNT = """
cd "$1"; shift; mount --bind . .; mount -o remount,bind,ro /
for folder in /tmp /run /var/tmp; do case $PWD/ in "$folder"/*) ;; *) mount -t tmpfs tmpfs "$folder" ;; esac; done
cd "$PWD"; "$@"; exit $?  # the shell stays, because it ends what becomes an orphan
"""


def _in_private_mounts(words: Sequence[str]) -> int:
    # In a namespace for processes, too: whatever a mutant has left running ends with this.
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    unshare += [*["--map-root-user"] * bool(os.geteuid()), "sh", "-ec", _MOUNT, "sh", str(ROOT)]
    return subprocess.run(
        [*unshare, sys.executable, "-m", "tests.support.mutants", "--here", *words], check=False
    ).returncode


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--measure", *words]:
            raise SystemExit(_measure(*words))
        case ["--here", *words]:
            raise SystemExit(main(words))
        case words:
            raise SystemExit(_in_private_mounts(words))
