"""Every row here and at another commit, in turns: what became slower, and what faster.

`make bench ARGS='--against COMMIT'` asks a process in each of the two trees for one row after the other, which its own
`contests` measures. It compares the fastest round of each method, because a busy machine only adds to it. Other
programs are measured in both, too: their ratios show how far the figures of this run can be trusted.
"""

import compileall
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

__all__ = ["Fastest", "compare", "compared_lines"]

Fastest: TypeAlias = "dict[tuple[str, str], float]"
"""The fastest round of each method, by the work and the method."""

_ROOT = Path(__file__).resolve().parents[2]
_SLOWER = 1.1
# Runs in a tree that may be older than this file: for each line of input, the next row.
_ROWS = """
import sys, tempfile
from json import dumps
from pathlib import Path
from tests.benchmarks.contest import Contest
from tests.benchmarks.run import contests

with tempfile.TemporaryDirectory() as folder:
    rows = (row for row in contests(Path(folder)) if isinstance(row, Contest))
    while sys.stdin.readline():
        row = next(rows, None)
        print(dumps(row and [[row.work, method, min(taken)] for method, taken in row.values.items()]), flush=True)
        if row is None:
            break
"""


def compare(commit: str) -> Iterator[str]:
    """Measure all rows in both trees; say how far it is, and at last what was found."""
    with ExitStack() as stack:
        other = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        packed = subprocess.run(["git", "-C", str(_ROOT), "archive", commit], check=True, stdout=subprocess.PIPE)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(other, filter="data")
        trees: dict[Path, Fastest] = {other: {}, _ROOT: {}}
        processes = {tree: stack.enter_context(_process(tree)) for tree in trees}
        left = dict(processes)
        while left:
            for tree in tuple(left):
                if row := _next_row(left[tree]):
                    trees[tree] |= {(work, method): seconds for work, method, seconds in row}
                    yield f"{'now' if tree == _ROOT else commit}: {row[0][0]}"
                else:
                    del left[tree]
        yield from compared_lines(*trees.values())


def _process(tree: Path) -> subprocess.Popen[str]:
    for package in ("hostrouting", "phases"):  # as where it is installed
        compileall.compile_dir(tree / package, quiet=1)
    return subprocess.Popen(
        [sys.executable, "-c", _ROWS], cwd=tree, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _next_row(process: subprocess.Popen[str]) -> list[tuple[str, str, float]] | None:
    """The next row of this process; None after the last one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    told = process.stdout.readline()
    if not told:
        raise RuntimeError(f"the benchmark in {process.args!r} failed; see above")
    found: list[tuple[str, str, float]] | None = json.loads(told)
    return found


def compared_lines(before: Fastest, now: Fastest) -> Iterator[str]:
    """The ratio of each method, the most slowed down first; then what only one of the two has."""
    ratios = {key: seconds / before[key] for key, seconds in now.items() if before.get(key)}
    for (work, method), ratio in sorted(ratios.items(), key=lambda found: -found[1]):
        mark = "slower" if ratio >= _SLOWER else "faster" if ratio <= 1 / _SLOWER else ""
        yield f"{ratio:6.2f} × {mark:7}{work}: {method}".rstrip()
    for title, one, other in (("only now", now, before), ("only before", before, now)):
        yield from (f"{title}: {work}: {method}" for work, method in one if (work, method) not in other)
