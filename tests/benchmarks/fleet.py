"""Fleets: ten thousand snapshots of H200 nodes, judged by one process for each core; how long, and in how much memory.

Every node has addresses of its own, so that no snapshot is like another. Nothing here asks a kernel.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.turns import in_turn
from tests.support.fleets import CIDR, distinct_nodes, save

__all__ = ["fleet_contests"]

_FEW, _MANY = 1_000, 10_000
_ROUNDS = 3
_SECONDS = 20  # on two cores
_FLAT = 1.5  # the memory for many nodes, in that for few: of each node, only its name and its file are kept

# A program of its own, like the command: `VmHWM` is what it needed at most, and `ru_maxrss` what the largest process
# needed that judged for it.
_PROGRAM = """
import resource, sys, time
from hostrouting import fleet
from hostrouting import HostRoutingConfig
if __name__ == "__main__":
    begun = time.perf_counter()
    config = HostRoutingConfig.load(sys.argv[2])
    groups = fleet.group_nodes(fleet.check_snapshots([sys.argv[1]], config))
    seconds = time.perf_counter() - begun
    assert [(it.verdict, len(it.nodes)) for it in groups] == [("overlap", int(sys.argv[3]))]
    own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(seconds, own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def fleet_contests(folder: Path) -> Iterator[Contest]:
    """The time for many nodes, and the memory for few and for many."""
    program, config = folder / "fleet.py", folder / "fleet.json"
    program.write_text(_PROGRAM)
    config.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR]}}))
    nodes = distinct_nodes(_MANY)
    few, many = (save(folder / f"nodes-{count}", dict(list(nodes.items())[:count])) for count in (_FEW, _MANY))
    memory: dict[int, list[float]] = {_MANY: [], _FEW: []}

    def check(where: Path, count: int) -> float:
        words = [sys.executable, str(program), str(where), str(config), str(count)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
        seconds, kilobytes = done.stdout.split()
        memory[count].append(int(kilobytes) * 1024 / 1e6)
        return float(seconds)

    ours = f"check_snapshots, {len(os.sched_getaffinity(0))} processes"
    times = in_turn({ours: lambda: check(many, _MANY)}, rounds=_ROUNDS)
    yield Contest(f"check {_MANY:,} snapshots of H200 nodes", times, (Goal(ours, _SECONDS),))
    for _ in memory[_MANY]:
        check(few, _FEW)
    names = {count: f"{count:,} nodes" for count in memory}
    yield Contest(
        "memory of checking snapshots: the caller, and the largest process",
        {names[count]: memory[count] for count in memory},
        (Goal(names[_MANY], _FLAT, names[_FEW]),),
        unit="MB",
    )
