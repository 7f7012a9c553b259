"""Fuzzing, guided by coverage, of each reader of bytes that others wrote: `python -m tests.support.fuzz [READER…] --runs N`.

Here: the search. Not here: the readers (`tests/tables/foreign_bytes.py`). Each is searched by atheris in a process of its
own. An exception that the table does not name ends it, and so does an input that takes ten seconds or 50 MB of memory at
once; then the input is printed, as base64.
"""

import argparse
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

__all__: list[str] = []

_ROOT = Path(__file__).resolve().parents[2]
_LIMITS = ("-timeout=10", "-max_len=20000", "-malloc_limit_mb=50", "-verbosity=0")


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

    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(reader.seeds):
            Path(folder, str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], folder, f"-runs={runs}", f"-artifact_prefix={artifacts}/", *_LIMITS], one)
        atheris.Fuzz()


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help="which (default: all)")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs for each reader (default: %(default)s)")
    parser.add_argument("--here", metavar="DIR", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        _search(given.readers[0], given.runs, given.here)
    failed = 0
    for name in given.readers or importlib.import_module("tests.tables.foreign_bytes").READERS:
        with tempfile.TemporaryDirectory() as artifacts:
            words = ["-m", "tests.support.fuzz", name, f"--runs={given.runs}", f"--here={artifacts}"]
            done = subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, errors="replace", check=False, cwd=_ROOT
            )
        sys.stdout.write(f"{name}: {'fine' if not done.returncode else done.stdout + done.stderr}\n")
        sys.stdout.flush()
        failed += bool(done.returncode)
    return failed


if __name__ == "__main__":
    sys.exit(_main())
