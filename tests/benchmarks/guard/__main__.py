"""Measure how well the guard, or another keeper, keeps the routes of a node.

    python -m tests.benchmarks.guard --rounds 1000 --nodes 12
    python -m tests.benchmarks.guard --keepers deaf --rounds 60 --nodes 60
    python -m tests.benchmarks.guard --keepers guard loop keepalived frr --kinds deleted down --rounds 3 --pause 25
    python -m tests.benchmarks.guard --strain 10000

keepers: what keeps the routes of a node. kinds: the kinds of drift. life: one node, from its start to its end.

Each node is a private network and mount namespace with a keeper. A round is one change, the time until the keeper has
repaired or reported it, the opposite change, and the time until all is right again. The fabric's foreign routes are
compared after each round, and all routes at the end of a node. Not part of `make bench`: a thousand rounds of each kind
take half an hour.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.benchmarks.guard.keepers import OTHERS
from tests.benchmarks.guard.kinds import KINDS, SPARING
from tests.benchmarks.guard.life import Round, in_a_node
from tests.benchmarks.guard.times import times_in_words

_ALONE = ("nft", "killed")
"""Kinds that need nodes of their own: another configuration, or a guard that is killed all the time."""


def lives(keeper: str, kinds: Sequence[str], rounds: int) -> Iterator[list[str]]:
    """The rounds of each node: some of each kind, in random order, and not more of one than the guard repairs at once.

    Another keeper gets a node for each round, because some never repair what a round has changed.
    """
    if keeper in OTHERS:
        yield from ([kind] for kind in kinds for _ in range(rounds))
        return
    groups = [[it for it in kinds if it not in _ALONE], *([it] for it in kinds if it in _ALONE)]
    for group in filter(None, groups):
        sparing = sum(it in SPARING for it in group)
        each = min(rounds, 9 // sparing if sparing else 20)
        left = rounds
        while left > 0:
            found = group * min(each, left)
            random.shuffle(found)
            yield found
            left -= each


def measure(keeper: str, kinds: Sequence[str], *, nodes: int, rounds: int, pause: float) -> Iterator[str]:
    """A line for each kind: how many rounds were handled, and after which time."""
    known = [it for it in kinds if keeper not in OTHERS or not (KINDS[it].reports or it in _ALONE)]
    with ThreadPoolExecutor(nodes) as pool:
        told = [("rounds", keeper, str(pause), ",".join(life)) for life in lives(keeper, known, rounds)]
        results = [Round(*it) for found in pool.map(lambda words: in_a_node(*words), told) for it in found]
    for kind in known:
        mine = [result for result in results if result.kind == kind]
        touched = sum(it.touched for it in mine)
        found = {"handled": [it.handled for it in mine], "right again": [it.right for it in mine]}
        times = (times_in_words(word, [it for it in every if it is not None]) for word, every in found.items())
        yield f"{keeper:10} {kind:9} {len(mine):,} rounds; {'; '.join(times)}; foreign routes touched: {touched}"


def main() -> None:
    """Measure each keeper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told = "guard, deaf (a guard that hears no events), loop, keepalived, frr, nobody"
    parser.add_argument("--keepers", nargs="+", default=["guard"], help=told)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--nodes", type=int, default=4, help="how many nodes run at once")
    parser.add_argument("--rounds", type=int, default=3, help="how many rounds of each kind there are in all")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two rounds")
    parser.add_argument("--strain", type=int, metavar="EVENTS", help="only so many events a second, on one node")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the strain lasts")
    chosen = parser.parse_args()
    for keeper in chosen.keepers:
        if chosen.strain is not None:
            found = in_a_node("strain", keeper, str(chosen.strain), str(chosen.seconds))
            sys.stdout.write(f"{keeper:10} {'; '.join(f'{name}: {value:.4g}' for name, value in found.items())}\n")
            continue
        for line in measure(keeper, chosen.kinds, nodes=chosen.nodes, rounds=chosen.rounds, pause=chosen.pause):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
