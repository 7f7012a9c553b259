"""Break a tenth of many nodes, and find, repair and verify them, from end to end.

    python -m tests.benchmarks.thousand_nodes --nodes 1000 --batch 10

kinds: the ways in which a node is broken. nodes: the nodes, each in a network namespace of its own. story: the steps.
answers: what has to be said about each node.

Requires root. Not part of `make bench`, because a thousand nodes take some minutes.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.machine import this_machine
from tests.benchmarks.thousand_nodes.kinds import plan_fleet
from tests.benchmarks.thousand_nodes.story import tell_story


def main() -> None:
    """Carry it out, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--broken", type=int, help="how many of them are broken (default: a tenth)")
    parser.add_argument(
        "--batch", type=int, default=10, help="how many nodes are repaired before they are judged again"
    )
    parser.add_argument("--at-once", type=int, default=4, help="on how many nodes a command runs at once")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="the same seed makes the same nodes")  # noqa: S311  no secret
    chosen = parser.parse_args()
    broken = chosen.nodes // 10 if chosen.broken is None else chosen.broken
    if not 0 < broken <= chosen.nodes or chosen.batch < 1 or chosen.at_once < 1:
        parser.error("at least one node has to be broken, and a batch has at least one node")

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    # Each node is an open file of this process. Often, 1,024 are allowed until a process asks for more.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    say(f"{this_machine()}; seed {chosen.seed}")
    rng = random.Random(chosen.seed)  # noqa: S311  as above
    plans = plan_fleet(chosen.nodes, broken=broken, rng=rng)
    with tempfile.TemporaryDirectory() as folder:
        figures = tell_story(plans, Path(folder), at_once=chosen.at_once, batch=chosen.batch, rng=rng, say=say)
    for name, seconds in figures.seconds.items():
        say(f"{seconds:8.1f} s   {name}")
    for name, count in figures.counts.items():
        say(f"{count:8,}     {name}")
    for name, megabytes in figures.megabytes.items():
        say(f"{megabytes:8.0f} MB  {name}")


if __name__ == "__main__":
    main()
