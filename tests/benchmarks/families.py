"""The same work in IPv4 and in IPv6, in turn: a contest for each family, and one of IPv6 beside IPv4.

The work of a host is the same in both families, and so is what it should take.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from hostrouting.model.prefix import IPV4, IPV6
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.peers import Method
from tests.benchmarks.turns import in_turn

__all__ = ["BOTH", "by_family", "families_in_turn"]

BOTH = (IPV4, IPV6)
_AT_MOST = 1.5  # what our methods may take in IPv6, in what they take in IPv4; C takes up to 1.4
_TAKES = "keep destinations as bytes: making a number of 16 of them takes 60 ns, and one of 4 takes 20"

# What each method took in each round, by family.
_Times: TypeAlias = "Mapping[int, Mapping[str, Sequence[float]]]"


def families_in_turn(
    methods: Callable[[int], Mapping[str, Method]],
    families: Sequence[int] = BOTH,
    *,
    rounds: int,
    before: Callable[[], object] = lambda: None,
) -> _Times:
    """`in_turn` for the methods of each family; each method does the work of one family after that of the other."""
    its = {family: methods(family) for family in families}
    all_of_them = {(family, name): its[family][name] for name in its[families[0]] for family in families}
    times = in_turn(all_of_them, rounds=rounds, before=before)
    return {family: {name: times[family, name] for name in its[family]} for family in families}


def by_family(contest: Contest, times: _Times, *, at_most: float = _AT_MOST) -> Iterator[Contest]:
    """The contest with the times of IPv4. If there are times of IPv6, the same with those, and IPv6 beside IPv4.

    The plot shows IPv4. Our methods, which are the first one and those that have a goal, have a goal beside IPv4 too:
    they may take `at_most` times as long.
    """
    yield attrs.evolve(contest, values=times[IPV4])
    if IPV6 not in times:
        return
    ipv6 = attrs.evolve(contest, work=f"{contest.work}, IPv6", values=times[IPV6], panel="", size=0)
    yield ipv6
    names = list(times[IPV6])
    ours = {names[0], *(goal.method for goal in contest.goals if goal.limit is not None)}
    goals = [Goal(f"{name}, IPv6", at_most if name in ours else None, f"{name}, IPv4", _TAKES) for name in names]
    values = {f"{name}, IPv{family}": times[family][name] for name in names for family in (IPV6, IPV4)}
    yield attrs.evolve(ipv6, work=f"{contest.work}, IPv6 beside IPv4", values=values, goals=tuple(goals), notes=())
