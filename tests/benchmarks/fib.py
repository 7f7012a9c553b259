"""How long the engine takes to answer for 100 CIDRs, beside a bash loop of `ip route get`.

`python tests/benchmarks/fib.py` prints medians. The loop runs in a private network namespace with the same routes
and asks for one address of each CIDR; the engine, from the snapshot on, answers for all of them. Takes root.
"""

import gc
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hostrouting.fib import Fib
from hostrouting.model import Link, Prefix, Route, RouteKey, Snapshot, default_rules
from hostrouting.overlap import check_overlap
from hostrouting.repair import propose_repair

CIDRS = 100
ROUTES = (100, 100_000)
SPACE = Prefix.parse("10.0.0.0/8")


class Columns(Sequence[Route]):
    """Routes as a reader of netlink would hold them: columns, and a route only where one is looked at."""

    def __init__(self, prefixes: list[Prefix]) -> None:
        """Keep networks and lengths only."""
        self._networks = [prefix.network for prefix in prefixes]
        self._lengths = [prefix.length for prefix in prefixes]

    def __len__(self) -> int:
        return len(self._networks)

    @overload
    def __getitem__(self, place: int) -> Route: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Route]: ...
    def __getitem__(self, place: int | slice) -> Route | Sequence[Route]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        return Route.to(Prefix(4, self._networks[place], self._lengths[place]), dev="eth0", gateway="192.168.0.1")

    def keys(self) -> Iterator[RouteKey]:
        """The door that `Fib` indexes by."""
        for network, length in zip(self._networks, self._lengths, strict=True):
            yield (4, 254, network, length, 3)


def prefixes(count: int, rng: random.Random) -> list[Prefix]:
    """A default route and distinct prefixes of the usual lengths, in the kernel's order."""
    found = {Prefix(4, 0, 0)}
    while len(found) < count:
        length = rng.choice([12, 16, 20, 24] if count <= ROUTES[0] else [16, 20, 22, 24, 24, 24, 28, 32])
        found.add(Prefix.around(4, rng.randrange(SPACE.first, SPACE.last), length))
    return sorted(found)


def median(work: Callable[[], object], *, times: int = 15) -> float:
    """The median of several runs, in milliseconds."""
    taken = []
    for _ in range(times):
        gc.collect()
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1000


def loop_of_ip(routes: list[Prefix], cidrs: list[Prefix]) -> float:
    """A bash loop of `ip route get` in a private namespace, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        batch = Path(folder, "batch")
        lines = [f"route append {prefix} via 192.168.0.1 dev eth0" for prefix in routes]
        batch.write_text("\n".join(lines), encoding="ascii")
        script = f"""
            ip link add eth0 type veth peer name peer
            ip link set eth0 up; ip link set peer up; ip address add 192.168.0.4/24 dev eth0
            ip -batch {batch}
            one() {{ local begin=$EPOCHREALTIME; for address in "$@"; do ip route get "$address" >/dev/null; done
                    echo $(( ${{EPOCHREALTIME/./}} - ${{begin/./}} )); }}
            for run in 1 2 3 4 5; do one {" ".join(str(cidr.ip) for cidr in cidrs)}; done
        """
        done = subprocess.run(["unshare", "--net", "bash", "-c", script], check=True, capture_output=True, text=True)
    return statistics.median(int(line) for line in done.stdout.split()) / 1000


def main() -> None:
    """Print one line for each size."""
    rng = random.Random(213)  # noqa: S311  the same routes every time
    for count in ROUTES:
        table = prefixes(count, rng)
        cidrs = [Prefix.around(4, rng.randrange(SPACE.first, SPACE.last), 16) for _ in range(CIDRS)]
        plain = Snapshot(
            links=(Link(name="eth0", index=2),),
            rules=default_rules(4),
            routes=tuple(Route.to(prefix, dev="eth0", gateway="192.168.0.1") for prefix in table),
        )
        lazy = Snapshot(links=plain.links, rules=plain.rules, routes=Columns(table))

        def cells(snapshot: Snapshot, wanted: list[Prefix] = cidrs) -> int:
            fib = Fib(snapshot)
            return sum(len(fib.cells(cidr)) for cidr in wanted)

        def check(snapshot: Snapshot, wanted: list[Prefix] = cidrs) -> object:
            fib = Fib(snapshot)
            return propose_repair(fib, check_overlap(fib, wanted))

        ip = loop_of_ip(table, cidrs)
        print(f"{count} routes, {CIDRS} CIDRs, {cells(plain)} cells")  # noqa: T201  a benchmark prints
        for name, work in (
            ("index, tuple", lambda s=plain: Fib(s)),
            ("index, columns", lambda s=lazy: Fib(s)),
            ("cells, tuple", lambda s=plain: cells(s)),
            ("cells, columns", lambda s=lazy: cells(s)),
            ("check, tuple", lambda s=plain: check(s)),
        ):
            taken = median(work)
            print(f"  {name:16} {taken:9.2f} ms   {ip / taken:8.1f} x faster than the loop")  # noqa: T201  see above
        print(f"  {'ip route get':16} {ip:9.2f} ms   (one address of each CIDR)")  # noqa: T201  see above


if __name__ == "__main__":
    main()
