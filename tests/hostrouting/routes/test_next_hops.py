"""apply on IPv6 routes whose next hops belong to several programs: on Linux, and on the fake kernel."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from unittest import mock

import pytest

from hostrouting.errors import ApplyError
from hostrouting.kernel.base import Outcome, RouteBackend, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import RoutePlan, plan_exactly
from hostrouting.testing.kernel import MemoryBackend
from tests.support.namespace import private_namespace
from tests.support.notes import notes_of
from tests.tables.next_hops import BIRD, NextHopCase, by_wanted, found, put

AS_BEFORE = "every change was rolled back: the route table is as it was before"


@pytest.fixture(scope="module")
def six() -> Iterator[NetlinkBackend]:
    """A backend on a host with IPv6, and no route to the prefix of the tests."""
    with private_namespace() as made:
        made.batch(["link add eth0 type veth peer name eth0p", "link set eth0p up", "link set eth0 up"])
        made.batch(["addr add fd10::9/64 dev eth0 nodad"])
        with NetlinkBackend(netns=made.path) as backend:
            yield backend


def fake() -> MemoryBackend:
    """The fake kernel as the host of `six`."""
    made = MemoryBackend()
    made.add_link("eth0")
    made.add_address("eth0", "fd10::9/64")
    return made


@pytest.mark.parametrize("cases", by_wanted().values(), ids=lambda cases: next(iter(cases.values())).wanted)
@pytest.mark.parametrize("is_fake", [pytest.param(False, marks=[pytest.mark.linux, pytest.mark.needs("root")]), True])
class TestNextHopsOfTwoPrograms:
    """Whoever added next hops to an IPv6 route, with whichever weights."""

    @pytest.fixture
    def backend(self, request: pytest.FixtureRequest, is_fake: bool) -> RouteBackend:  # noqa: FBT001  parametrised
        """Linux, and the fake kernel."""
        backend: RouteBackend = fake() if is_fake else request.getfixturevalue("six")
        return backend

    def test_ours_are_the_wanted_ones(self, backend: RouteBackend, cases: dict[Prefix, NextHopCase]) -> None:
        """Another program's next hops stay and are reported; the others become the wanted ones, with their weights."""
        put(backend, cases)
        try:
            before = backend.snapshot(family=6)
            with refused(backend) as needless:
                applied = apply_plan(plan_for(cases, before), backend, before=before)
            again = backend.snapshot(family=6)
            plan = plan_for(cases, again)
            twice = apply_plan(plan, backend, before=again)
        finally:
            now = found(backend, cases)
        assert not {case.name: now[prefix] for prefix, case in cases.items() if not case.is_as_expected(*now[prefix])}
        disputed = {prefix for prefix, case in cases.items() if case.is_disputed}
        assert {change.route.prefix for change in needless} <= disputed
        assert {step.route.prefix for step in plan.changes} == disputed
        assert not twice.changes
        told = {f"{prefix}: the next hop via {hop} dev" for prefix, case in cases.items() for hop in case.stays}
        for one in (applied, twice):
            assert {
                f"{line.split(' dev')[0]} dev" for finding in one.beside for line in sentences(finding.sentence)
            } == told
            assert len(one.beside) == len({prefix for prefix, case in cases.items() if case.stays})

    @pytest.mark.parametrize("mtu", [None, 1400])
    def test_a_rollback_leaves_each_its_own(
        self, backend: RouteBackend, cases: dict[Prefix, NextHopCase], mtu: int | None
    ) -> None:
        """A plan that is stopped at any of its checks leaves the next hops of each owner as they were, and says so.

        Kills: trusting the list of next hops, in which only the mtu of the first is true.
        """
        if mtu:  # another program's route with another mtu is a conflict
            cases = {it: case for it, case in cases.items() if all(by == OURS for _, by, _ in case.held)}
        put(backend, cases)
        then = found(backend, cases)
        for nth in (2, 3, 4):
            put(backend, cases)
            before = backend.snapshot(family=6)
            check = mock.Mock(side_effect=chain([None] * (nth - 1), [KeyboardInterrupt], repeat(None)))
            with pytest.raises(KeyboardInterrupt) as caught, refused(backend) as needless:
                apply_plan(plan_for(cases, before, mtu), backend, before=before, check=check)
            now = found(backend, cases)
            assert {change.route.prefix for change in needless} <= {
                it for it, case in cases.items() if case.is_disputed
            }
            assert not {(nth, case.name): now[it] for it, case in cases.items() if now[it] != then[it]}
            assert [note.partition(", but")[0] for note in notes_of(caught.value)] == [AS_BEFORE]

    def test_bird_comes_meanwhile(self, backend: RouteBackend, cases: dict[Prefix, NextHopCase]) -> None:
        """Next hops that another program adds before the first change stay its own, and ours are as before."""
        cases = {it: case for it, case in cases.items() if any(by == OURS for _, by, _ in case.held)}
        put(backend, cases, owners=[OURS])
        before = backend.snapshot(family=6)
        put(backend, cases, owners=[BIRD])
        with pytest.raises(ApplyError, match="another program changes these routes"):
            apply_plan(plan_for(cases, before), backend, before=before)
        now = found(backend, cases)
        then = {it: {(gateway, by) for gateway, by, _ in case.held} for it, case in cases.items()}
        assert not {case.name: now[it] for it, case in cases.items() if now[it][0] != then[it]}

    def test_bird_leaves_meanwhile(self, backend: RouteBackend, cases: dict[Prefix, NextHopCase]) -> None:
        """A rollback does not restore the next hops that another program has deleted itself, neither as its nor as ours."""
        put(backend, cases)
        before = backend.snapshot(family=6)

        checks = iter(range(4))

        def check() -> None:
            if next(checks) == 3:  # everything is changed
                put(backend, cases, "delete", (BIRD,))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            apply_plan(plan_for(cases, before), backend, before=before, check=check)
        now = found(backend, cases)
        ours = {it: {(gateway, by) for gateway, by, _ in case.held if by == OURS} for it, case in cases.items()}
        assert not {case.name: now[it] for it, case in cases.items() if now[it][0] != ours[it]}

    def test_removed(self, backend: RouteBackend, cases: dict[Prefix, NextHopCase]) -> None:
        """If no route is wanted, all of ours are deleted, also behind another program's, and only these are reported."""
        put(backend, cases)
        before = backend.snapshot(family=6)
        plan = plan_exactly([], before, about=list(cases))
        applied = apply_plan(plan, backend, before=before)
        now = found(backend, cases)
        for prefix, case in cases.items():
            owned = {(gateway, owner) for gateway, owner, _ in case.held}
            assert now[prefix][0] == {hop for hop in owned if hop[1] != OURS}, case.name
            gone = {
                (str(leg.gateway), change.route.protocol)
                for change in applied.changes
                for leg in change.route.legs
                if change.route.prefix == prefix
            }
            assert gone == {hop for hop in owned if hop[1] == OURS}, case.name


def plan_for(cases: dict[Prefix, NextHopCase], before: Snapshot, mtu: int | None = None) -> RoutePlan:
    """The plan for the routes of these cases."""
    wanted = [
        Route(
            prefix,
            tuple(NextHop("eth0", gateway=as_ip(gateway), weight=weight) for gateway, weight in case.wanted),
            metric=1024,
            protocol=OURS,
            mtu=mtu,
        )
        for prefix, case in cases.items()
    ]
    return plan_exactly(wanted, before, about=list(cases))


@contextmanager
def refused(backend: RouteBackend) -> Iterator[list[RouteRequest]]:
    """The refused additions in the block: whoever asks only for what is missing has none."""
    found: list[RouteRequest] = []
    change = backend.change

    def noted(changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes = change(changes)
        found.extend(outcome.change for outcome in outcomes if not outcome.ok and outcome.change.verb != "delete")
        return outcomes

    with mock.patch.object(backend, "change", noted):
        yield found


def sentences(text: str) -> list[str]:
    """A sentence for each next hop that stays, with the prefix before each."""
    prefix, _, rest = text.partition(": ")
    return [f"{prefix}: {part}" for part in rest.replace("; the next hop", "\nthe next hop").splitlines()]
