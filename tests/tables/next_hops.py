"""Next hops of one IPv6 route: whose they are before, which are wanted, and whose they are afterwards.

In IPv6, Linux lists the next hops of several programs as one route with the protocol of the first. So each layer is
tried with those of another program before ours, after ours, and among the wanted ones, with and without weights.
"""

from collections.abc import Container, Iterable
from itertools import groupby, product

import attrs

from hostrouting.kernel.base import RouteBackend, RouteRequest, Verb
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route

BIRD = 12
A, B, C, THEIRS = "fd10::1", "fd10::2", "fd10::3", "fd10::7"

_HELD_BY_US = {
    "nothing": (),
    "one": ((A, 1),),
    "another": ((C, 1),),
    "two": ((A, 1), (B, 1)),
    "weighted": ((A, 2), (B, 1)),
    "one with a weight": ((A, 2),),
    "three": ((A, 1), (B, 1), (C, 1)),
}
_HELD_BY_BIRD = {"nothing": (), "one": ((THEIRS, 1),), "a wanted one": ((A, 1),), "two": ((THEIRS, 1), ("fd10::8", 1))}
_WANTED = {"one": ((A, 1),), "two": ((A, 1), (B, 1)), "weighted": ((A, 1), (B, 5)), "weighted first": ((A, 5), (B, 1))}

_Hops = tuple[tuple[str, int], ...]


@attrs.frozen
class NextHopCase:
    """The next hops in the order in which they were added, each with its owner and weight; and the wanted ones."""

    name: str
    held: tuple[tuple[str, int, int], ...]
    wanted: _Hops

    @property
    def after(self) -> frozenset[tuple[str, int]]:
        """The next hops and their owners afterwards: those of bird stay, and ours are the wanted ones."""
        theirs = {gateway for gateway, owner, _ in self.held if owner == BIRD}
        ours = {gateway for gateway, _ in self.wanted} - theirs
        return frozenset({(gateway, BIRD) for gateway in theirs} | {(gateway, OURS) for gateway in ours})

    def is_as_expected(self, owners: set[tuple[str, int]], weights: dict[str, int]) -> bool:
        """Whether these are the next hops afterwards. The weights of bird's next hops do not matter."""
        mine = {gateway: weight for gateway, weight in weights.items() if (gateway, OURS) in self.after}
        return owners == self.after and mine == self.weights

    @property
    def weights(self) -> dict[str, int]:
        """The weights of our next hops afterwards, if there are several next hops."""
        ours = {gateway for gateway, owner in self.after if owner == OURS}
        return {gateway: weight for gateway, weight in self.wanted if gateway in ours} if len(self.after) > 1 else {}

    @property
    def is_disputed(self) -> bool:
        """Whether bird has a wanted next hop with another weight: Linux does not list whose it is, so plans ask for it."""
        return any(dict(self.wanted).get(gateway, weight) != weight for gateway, by, weight in self.held if by == BIRD)

    @property
    def stays(self) -> frozenset[str]:
        """The next hops of bird in addition to the wanted ones."""
        return frozenset(gateway for gateway, _ in self.after) - {gateway for gateway, _ in self.wanted}


def _cases() -> tuple[NextHopCase, ...]:
    cases = []
    for (us, ours), (them, theirs), (want, wanted), is_first in product(
        _HELD_BY_US.items(), _HELD_BY_BIRD.items(), _WANTED.items(), (True, False)
    ):
        taken = {gateway for gateway, _ in theirs}
        mine = tuple((gateway, OURS, weight) for gateway, weight in ours if gateway not in taken)
        others = tuple((gateway, BIRD, weight) for gateway, weight in theirs)
        if is_first and not (mine and others):
            continue
        order = "first" if is_first else "last"
        name = f"ours {us}, bird's {them} ({order}), wanted {want}"
        cases.append(NextHopCase(name, (*others, *mine) if is_first else (*mine, *others), wanted))
    return tuple(cases)


def by_wanted() -> dict[_Hops, dict[Prefix, NextHopCase]]:
    """The cases, each with a prefix of its own, by what is wanted: these can be tried together."""
    cases = sorted(_cases(), key=lambda case: case.wanted)
    groups = groupby(cases, key=lambda case: case.wanted)
    return {
        wanted: {Prefix.parse(f"fd20:{number:x}::/32"): case for number, case in enumerate(group)}
        for wanted, group in groups
    }


def _entry(prefix: Prefix, gateway: str, protocol: int, weight: int = 1) -> Route:
    return Route(prefix, (NextHop("eth0", gateway=as_ip(gateway), weight=weight),), metric=1024, protocol=protocol)


def put(
    backend: RouteBackend,
    cases: dict[Prefix, NextHopCase],
    verb: Verb = "append",
    owners: Container[int] = (OURS, BIRD),
) -> None:
    """Add (or delete) the next hops that are there before, one after the other; those of these owners."""
    hops = ((prefix, *hop) for prefix, case in cases.items() for hop in case.held if hop[1] in owners)
    outcomes = backend.change([RouteRequest(verb, _entry(*hop)) for hop in hops])
    assert all(outcome.ok for outcome in outcomes)


def found(
    backend: RouteBackend, prefixes: Iterable[Prefix]
) -> dict[Prefix, tuple[set[tuple[str, int]], dict[str, int]]]:
    """The next hops with their owners, and the weights of several. Who can delete one owns it: all are deleted."""
    answer: dict[Prefix, tuple[set[tuple[str, int]], dict[str, int]]] = {prefix: (set(), {}) for prefix in prefixes}
    asked: list[tuple[Prefix, str, int]] = []
    for route in backend.snapshot(prefixes=list(answer)).routes:
        gateways = [str(leg.gateway) for leg in route.legs]
        answer[route.prefix][1].update((str(leg.gateway), leg.weight) for leg in route.legs if len(gateways) > 1)
        asked += product([route.prefix], gateways, (OURS, BIRD))
    outcomes = backend.change([RouteRequest("delete", _entry(*hop)) for hop in asked])
    for (prefix, gateway, owner), outcome in zip(asked, outcomes, strict=True):
        if outcome.ok:
            answer[prefix][0].add((gateway, owner))
    return answer
