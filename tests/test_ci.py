""".ci/run: one run says all that is wrong with a change."""

import os
from pathlib import Path

import pytest

from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.linux
@pytest.mark.parametrize("broken", ["", "check", "roots"])
def test_everything_runs_and_a_failure_counts_at_the_end(tmp_path: Path, broken: str) -> None:
    """Each step runs; a machine that cannot have the other releases fails nothing."""
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/targets\n[ "$1" != "{broken}" ]\n')
    make.chmod(0o755)
    needs = tmp_path / "python3"  # says which packages this machine lacks
    needs.write_text("#!/bin/sh\n")
    needs.chmod(0o755)
    done = completed([ROOT / ".ci/run"], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    targets = [line.split()[0] for line in (tmp_path / "targets").read_text().splitlines()]
    releases = [] if broken == "roots" else ["releases"]
    assert list(dict.fromkeys(targets)) == ["check", "test", "roots", *releases]
    counts = broken not in {"", "roots"}
    assert done.returncode == int(counts)
    assert (f"::: failed: make {broken}" in done.stderr) == counts
    assert ("::: not run: make releases in jammy: " in done.stderr) == (broken == "roots")
