"""Fuzzing, guided by coverage, of each reader of bytes that others wrote: `python -m tests.support.fuzz [READER…] --runs N`.

Here: the search. Not here: the readers (`tests/tables/foreign_bytes.py`). Each is searched by atheris in a process of its
own, as many at once as there are cores. An exception that the table does not name ends it, and so does an input that takes
ten seconds or 50 MB of memory at once; then the input is printed, as base64. What a search has found worth keeping is in
.cache/fuzz, where the next one begins. Without a READER, those of tonight are searched: in a week, each gets its ten million
inputs.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

__all__: list[str] = []

_ROOT = Path(__file__).resolve().parents[2]
_LIMITS = ("-timeout=10", "-max_len=20000", "-malloc_limit_mb=50", "-verbosity=0")
_NIGHTS = 7


def _search(name: str, runs: int, artifacts: str) -> None:
    """Search in this process; the search ends it."""
    import atheris  # noqa: PLC0415  `make fuzz` installs it

    with atheris.instrument_imports(include=["hostrouting"]):
        reader = importlib.import_module("tests.tables.foreign_bytes").READERS[name]

    def one(data: bytes) -> None:
        try:
            reader.read(data)
        except reader.refuses:
            return

    folder = _ROOT / ".cache/fuzz" / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(reader.seeds):
        Path(folder, f"seed{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], str(folder), f"-runs={runs}", f"-artifact_prefix={artifacts}/", *_LIMITS], one)
    atheris.Fuzz()


def _searched(name: str, runs: int) -> tuple[bool, str]:
    """Whether this reader refused whatever it did not accept, and the line that says so."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as artifacts:
        words = ["-m", "tests.support.fuzz", name, f"--runs={runs}", f"--here={artifacts}"]
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, errors="replace", check=False, cwd=_ROOT
        )
    if done.returncode:
        return False, f"{name}: {done.stdout}{done.stderr}"
    return True, f"{name}: {runs:,} inputs in {time.monotonic() - began:,.0f} s: fine"


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help="which (default: those of tonight)")
    parser.add_argument("--runs", type=int, default=10_000_000, help="inputs for each reader (default: %(default)s)")
    parser.add_argument("--here", metavar="DIR", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        _search(given.readers[0], given.runs, given.here)
    every = importlib.import_module("tests.tables.foreign_bytes").READERS
    names = given.readers or [*every][int(time.time() // 86_400) % _NIGHTS :: _NIGHTS]
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for is_fine, line in pool.map(partial(_searched, runs=given.runs), names):
            print(line, flush=True)  # noqa: T201
            failed += not is_fine
    return failed


if __name__ == "__main__":
    sys.exit(_main())
