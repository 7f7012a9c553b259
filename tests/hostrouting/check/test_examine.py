"""hostrouting.check.examine: waiting for a kernel that is not ready yet, and whether it agrees with the engine."""

from unittest import mock

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import phases
from hostrouting.check.examine import await_plan, examine, examine_snapshot, find_correction, read
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, NotReady
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.kernel.base import Answer, RouteRequest, Watch
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.routes.uplink import DesiredRoute
from hostrouting.testing import MemoryBackend, h200, plain_vm
from phases.testing import FakeClock
from tests.support.kinds import raises
from tests.support.strategies import blocks, snapshots
from tests.support.tasks import CIDR, config
from tests.support.topologies import marked_vm

WANTED = [DesiredRoute(Prefix.parse("10.77.0.0/16"))]


def context() -> phases.Context:
    """A run on a fake clock."""
    return phases.Context(clock=FakeClock(), observers=[])


def test_never_ready() -> None:
    """At the deadline the error names what is missing, and the time of the failure is the deadline."""
    kernel = MemoryBackend()
    ctx = context()
    began = ctx.clock.now()
    # Another program's route, which is a finding of the plan, too, is not what the wait is for.
    kernel.add_link("eth0")
    kernel.add_address("eth0", "10.0.0.4/24")
    kernel.ip_route("add", Route.to("10.78.0.0/16", dev="eth0", protocol=3))
    wanted = [*WANTED, DesiredRoute("10.78.0.0/16", dev="eth0", gateway="10.0.0.1")]
    missing = r"gave up after 12\.5 s: 10\.77\.0\.0/16: waiting for an IPv4 default route"
    with pytest.raises(NotReady, match=missing) as caught:
        await_plan(ctx, kernel, wanted, wait=12.5)
    assert [(it.name, it.severity, it.target) for it in caught.value.findings] == [
        ("route-waits", "error", "10.77.0.0/16")
    ]
    assert ctx.clock.now() == pytest.approx(began + 12.5)


def test_what_is_waited_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Each time that something else is missing, the log says what, and how long is left."""
    kernel = MemoryBackend()
    kernel.later(lambda: kernel.add_link("eth0", up=False))
    kernel.later(lambda: kernel.add_link("eth1"))
    with caplog.at_level("INFO"), pytest.raises(NotReady):
        await_plan(context(), kernel, [DesiredRoute(WANTED[0].destination, dev="eth0")], wait=30.26)
    told = [record.getMessage().split(", because this is not there yet: ") for record in caplog.records]
    assert [(left, missing.rpartition(": waiting for ")[2]) for left, missing in told] == [
        ("waiting for up to 30.3 s", "the device eth0"),
        ("waiting for up to 30.3 s", "an IPv4 default route on eth0"),
    ]


class TestEveryClock:
    """With any clock and any kernel the wait ends, and the kernel is not polled meanwhile."""

    @pytest.mark.parametrize("has_own_clock", [False, True])
    def test_a_fake_one(self, *, has_own_clock: bool) -> None:
        """On a fake clock the seconds pass at once, also where the kernel's watch has a clock of its own."""
        ctx, kernel = context(), MemoryBackend()
        asked, watch = mock.Mock(wraps=kernel), kernel.watch()
        wait = mock.Mock(side_effect=lambda left, *, clock: watch.wait(left, clock=None if has_own_clock else clock))
        asked.watch.return_value = mock.MagicMock(wait=wait)
        asked.watch.return_value.__enter__.return_value = asked.watch.return_value
        with pytest.raises(NotReady):
            await_plan(ctx, asked, WANTED, wait=30)
        assert (ctx.clock.now(), asked.snapshot.call_count) == (30, 3)
        assert wait.mock_calls == [mock.call(30, clock=ctx.clock)]

    def test_a_run_that_is_cancelled(self) -> None:
        """A cancelled run plans nothing, not even if what it waited for is there at once, or comes at that moment."""
        ctx, kernel = context(), plain_vm()
        ctx.cancel()
        with pytest.raises(phases.Cancelled):
            await_plan(ctx, kernel, WANTED, wait=0)
        ctx, asked = context(), mock.Mock(wraps=MemoryBackend())

        def late(*_: object, **__: object) -> bool:
            asked.snapshot.side_effect = kernel.snapshot
            ctx.cancel()
            return True

        asked.watch.return_value = mock.MagicMock()
        asked.watch.return_value.__enter__.return_value.wait = late
        with pytest.raises(phases.Cancelled):
            await_plan(ctx, asked, WANTED, wait=30)

    def test_the_machines(self) -> None:
        """On the machine's clock the seconds really pass, and the tables are not read more often."""
        kernel = MemoryBackend()
        asked = mock.Mock(wraps=kernel)
        with pytest.raises(NotReady):
            await_plan(phases.Context(observers=[]), asked, WANTED, wait=0.02)
        assert asked.snapshot.call_count <= 4

    def test_a_deadline_that_comes_first(self) -> None:
        """The deadline of the run ends the wait in time."""
        clock = FakeClock()
        ctx = phases.Context(clock=clock, deadline=12, observers=[])
        with pytest.raises(phases.Cancelled, match="the 12 s of the run are over"):
            await_plan(ctx, MemoryBackend(), WANTED, wait=30)
        assert clock.now() == 12


def test_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a wait, the host is read once and there is no watch; what is missing is still named."""
    kernel = MemoryBackend()
    snapshot = mock.Mock(wraps=kernel.snapshot)
    monkeypatch.setattr(kernel, "snapshot", snapshot)
    monkeypatch.delattr(MemoryBackend, "watch")
    with pytest.raises(NotReady, match=r"gave up after 0 s: 10\.77\.0\.0/16: waiting for an IPv4 default route"):
        await_plan(context(), kernel, WANTED, wait=0)
    assert snapshot.call_count == 1


def test_ready_before_anybody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change between the first read and the start of the watch, which does not report it, is found without a wait."""
    kernel = plain_vm()
    ctx = context()
    default = next(route for route in kernel.snapshot().routes if route.prefix.length == 0)
    kernel.ip_route("delete", default)
    watch, began = kernel.watch, ctx.clock.now()

    def late() -> Watch:
        kernel.ip_route("add", default)
        return watch()

    monkeypatch.setattr(kernel, "watch", late)
    plan, _ = await_plan(ctx, kernel, WANTED, wait=30)
    assert (len(plan.changes), ctx.clock.now()) == (1, began)


def test_what_the_plan_is_made_of() -> None:
    """Our routes, or of a shared route that was ours, go."""
    kernel = plain_vm()
    kernel.add_address("eth0", "fd00:9::4/64")
    for number, protocol in enumerate((OURS, OURS, 99), 1):
        kernel.ip_route("add", Route.to(f"10.{number}.0.0/16", dev="eth0", protocol=protocol))
    theirs = [Route.to("fd00:5::/64", dev="eth0", gateway=f"fd00:9::{last}", protocol=4) for last in (1, 2)]
    kernel.change([RouteRequest("append", route) for route in theirs])
    plan, before = await_plan(
        context(), kernel, [], installed=[DesiredRoute(theirs[0].prefix, metric=theirs[0].metric)], wait=0
    )
    assert before == kernel.snapshot()
    assert [(step.action, str(step.route.prefix)) for step in plan.steps] == [
        ("keep", "fd00:5::/64"),  # only the next hops of other programs
        ("delete", "10.1.0.0/16"),
        ("delete", "10.2.0.0/16"),
    ]


def test_read_of_a_host_that_never_rests() -> None:
    """If the tables keep changing, the last snapshot is used and marked; without a snapshot the error is raised."""
    kernel = plain_vm()
    snapshot = kernel.snapshot()
    assert read(kernel) == (snapshot, True)
    asked = mock.Mock(wraps=kernel)
    read(asked)
    assert asked.mock_calls == [mock.call.snapshot(family=None, reached=False, about=None, anew=False)]
    kernel.faults.fail("snapshot", BackendError("busy", last=snapshot, kind="unsettled"))
    assert read(kernel) == (snapshot, False)
    kernel.faults.fail("snapshot", BackendError("busy", kind="unsettled"))
    with raises(BackendError, "unsettled"):
        read(kernel)
    for nth in (1, 2, 3):
        kernel.faults.fail("snapshot", BackendError("busy", last=snapshot, kind="unsettled"), nth=nth)
    found = examine(context(), kernel, config(cidrs=(CIDR,)), wait=0)
    assert (found.verdict, found.families[0].restless) == ("undecided", True)
    assert [surprise.sentence for surprise in found.surprises] == [
        "the route tables kept changing while they were read; the verdict is for the last snapshot"
    ]


def test_what_is_read() -> None:
    """Tables that no rule looks up, and changes that do not matter, are left out; for pods every change matters."""
    kernel = plain_vm()
    asked = mock.Mock(wraps=kernel)
    named = {"expectedCidrs": [CIDR], "expectedDevs": ["wg7"]}
    examine(context(), asked, HostRoutingConfig(route_overlap=named), wait=0)
    options = asked.snapshot.call_args.kwargs
    concern = options["about"](kernel.snapshot())
    assert [options["reached"], *(concern.has_device(99, name) for name in ("wg7", "ib7"))] == [True, True, False]
    examine(context(), asked, PODS, wait=0)
    assert asked.snapshot.call_args.kwargs["about"] is None


@pytest.mark.parametrize(
    ("cidrs", "pods", "route", "family"),
    [
        ([], [], None, None),
        ([CIDR], [], None, 4),
        (["fd00::/16"], [], None, 6),
        ([CIDR, "fd00::/16"], [], None, None),
        ([CIDR], ["fd00:1::/64"], None, None),
        ([CIDR], [], "192.0.2.0/24", 4),
        ([CIDR], [], "2001:db8::/32", None),
    ],
)
def test_only_the_family_of_the_question_is_read(
    cidrs: list[str], pods: list[str], route: str | None, family: int | None
) -> None:
    """The families are those of the CIDRs and of the configured routes; a caller with other questions gets both.

    Kills: an examination that reads less than the correction of the configuration needs.
    """
    static = {"enabled": True, "routes": [{"destination": route, "dev": "eth0"}]} if route else {}
    overlap = {"expectedCidrs": cidrs, "podCidrs": pods, "expectedDevs": ["eth0"]}
    wanted = HostRoutingConfig.from_mapping({"routeOverlap": overlap, "staticRoutes": static})
    found = examine(None, plain_vm(), wanted)
    assert found.fib.snapshot.family == family
    assert examine(None, plain_vm(), wanted, whole=True).fib.snapshot.family is None
    assert find_correction(found, wanted).add == ()


@pytest.mark.parametrize("onlink", [False, True])
def test_a_router_of_the_other_family(*, onlink: bool) -> None:
    """Linux looks up the IPv6 router of an IPv4 default route, so the tables of both families are read.

    Kills: the repair asks about a family that was not read, and the check ends with that error.
    """
    kernel = MemoryBackend()
    kernel.add_link("eth0")
    kernel.add_link("eth1")
    kernel.add_address("eth0", "2001:db8::4/64")
    kernel.add_address("eth1", "10.2.0.4/16")
    router = NextHop("eth0", gateway=as_ip("2001:db8::1"), onlink=onlink)
    kernel.ip_route("add", Route(Prefix.parse("0.0.0.0/0"), (router,)))
    found = examine(None, kernel, config(cidrs=("10.2.0.0/16",)))
    assert (found.verdict, [str(route) for route in found.routes]) == ("overlap", ["10.2.0.0/17", "10.2.128.0/17"])


def with_empty_table() -> MemoryBackend:
    """A plain VM with a rule that has no effect."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=40_000, table=77))
    return kernel


@pytest.mark.parametrize(
    ("make", "verdict"), [(h200, "overlap"), (MemoryBackend, "no-default-route"), (with_empty_table, "ok")]
)
def test_examine(make: type[MemoryBackend], verdict: str) -> None:
    """The verdict is about the present kernel; without a default route it says so after the wait."""
    kernel = make()
    ctx = context()
    began = ctx.clock.now()
    found = examine(ctx, kernel, config(cidrs=(CIDR,)), wait=30)
    assert (found.verdict, found.surprises) == (verdict, ())
    assert ctx.clock.now() - began == (30 if verdict == "no-default-route" else 0)
    # Two checks of one host are equal, and neither prints its tables.
    assert examine(context(), kernel, config(cidrs=(CIDR,)), wait=0) == found
    assert "fib=" not in repr(found)


def bare() -> MemoryBackend:
    """A host with a device, and no default route."""
    kernel = MemoryBackend()
    kernel.add_link("eth0")
    return kernel


BY_DHCP = "default via 10.0.0.1 dev eth0 proto dhcp metric 100"
ELSEWHERE, AWAY = Route.to("172.17.0.0/16", dev="eth0"), Route.to("0.0.0.0/0", dev="eth1", table=77)


@pytest.mark.parametrize(
    ("make", "answer", "told"),
    [
        (bare, Answer("unreachable", None), []),
        (bare, Answer("blackhole", None), ["blackhole", "no-route"]),
        (bare, Answer("unicast", AWAY), ["[0.0.0.0/0 proto unspec dev eth1]", "no-route"]),
        (plain_vm, Answer("unicast", ELSEWHERE), ["[172.17.0.0/16 proto unspec dev eth0]", BY_DHCP]),
        (
            plain_vm,
            Answer("unicast", attrs.evolve(ELSEWHERE, legs=AWAY.legs)),
            ["[172.17.0.0/16 proto unspec dev eth1]", BY_DHCP],
        ),
        (
            plain_vm,
            Answer("unicast", Route.to("0.0.0.0/0", dev="eth0", metric=7)),
            ["[0.0.0.0/0 proto unspec dev eth0]", BY_DHCP],
        ),
        (marked_vm, Answer("unicast", AWAY), ["[0.0.0.0/0 proto unspec dev eth1]", BY_DHCP]),
    ],
)
def test_what_the_tables_explain(
    make: type[MemoryBackend], answer: Answer, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux has one error for two kinds; else, answers agree, unless routes share a next hop object (tried on Linux)."""
    kernel = make()
    monkeypatch.setattr(kernel, "lookup", lambda asked, _: tuple(answer for _ in asked))
    mine = HostRoutingConfig(route_overlap={"expectedCidrs": [CIDR], "expectedDevs": ["eth0"]})
    found = examine(context(), kernel, mine, wait=0)
    words = "172.16.0.0: the kernel answers {}, which is not what its tables say ({}); the verdict follows the kernel"
    assert [surprise.sentence for surprise in found.surprises] == ([words.format(*told)] if told else [])


@pytest.mark.parametrize("answering", [0, 1])
def test_default_routes_in_turn(answering: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel answers with any of its default routes of one metric, that does not count as a disagreement."""
    kernel = MemoryBackend()
    for number in (0, 1):
        kernel.add_link(f"eth{number}")
        kernel.add_address(f"eth{number}", f"10.{number}.0.4/24")
        kernel.change(
            [RouteRequest("append", Route.to("0.0.0.0/0", dev=f"eth{number}", gateway=f"10.{number}.0.1", metric=1024))]
        )
    answer = [route for route in kernel.snapshot().routes if route.prefix.length == 0][answering]
    monkeypatch.setattr(kernel, "lookup", lambda asked, _: tuple(Answer("unicast", answer) for _ in asked))
    found = examine(context(), kernel, config(cidrs=(CIDR,)), wait=0)
    assert (found.verdict, found.surprises) == ("undecided", ())  # they compete
    assert found.families[0].report.expected_devs == ("eth0", "eth1")


def test_the_kernel_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """If only the tables say that a cell escapes, the kernel is asked again; then the verdict is ok, with a note.

    The last time, everything is read: a table may have changed without a report.
    """
    kernel, healthy = h200(), plain_vm()
    lookup, snapshot = mock.Mock(wraps=healthy.lookup), mock.Mock(wraps=kernel.snapshot)
    monkeypatch.setattr(kernel, "lookup", lookup)
    monkeypatch.setattr(kernel, "snapshot", snapshot)
    found = examine(context(), kernel, config(cidrs=(CIDR,)), wait=0)
    assert (found.verdict, found.escapes) == ("ok", ())
    assert lookup.call_count == 3
    assert [call.kwargs["anew"] for call in snapshot.call_args_list] == [False, False, True]
    assert {surprise.name for surprise in found.surprises} == {"kernel-differs"}


def test_an_escape_that_only_the_kernel_knows_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel answers with an escape in one cell, only that cell is a finding; the others follow the tables."""
    kernel, steady, sick = plain_vm(), plain_vm(), h200()
    hole = RouteRequest("add", Route.to("172.16.64.0/18", dev="eth0", gateway="10.0.0.1"))
    for it in (kernel, steady):
        it.change([hole])
    first = as_ip("172.16.64.0")
    monkeypatch.setattr(
        kernel, "lookup", lambda asked, _: tuple((sick if it == first else steady).lookup([it])[0] for it in asked)
    )
    found = examine(context(), kernel, config(cidrs=(CIDR,)), wait=0)
    assert found.verdict == "overlap"
    (finding,) = found.escapes
    assert (finding.devs, finding.surprise) == (("ib0",), True)
    assert [str(prefix) for prefix in finding.prefixes] == ["172.16.64.0/18"]
    assert [(it.reason, it.first, it.last) for it in found.unsafe] == [("surprise", finding.first, finding.last)]


PODS = HostRoutingConfig.from_mapping(
    {"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "podCidrs": ["10.244.3.0/24"], "podDevs": ["cni0"]}}
)


def test_an_escape_of_pods_that_only_the_kernel_knows_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is also asked about what pods send; its answer is the verdict on that, and no route repairs it."""
    kernel, steady, sick = plain_vm(), plain_vm(), h200()
    for it in (kernel, steady, sick):
        it.add_link(Link(name="cni0", index=0))
        it.add_address("cni0", "10.244.3.1/24")
    monkeypatch.setattr(
        kernel, "lookup", lambda asked, flow: (sick if flow.iif == "cni0" else steady).lookup(asked, flow)
    )
    found = examine(context(), kernel, PODS, wait=0)
    assert (found.verdict, found.families[0].report.verdict) == ("overlap", "ok")
    [finding] = found.escapes
    assert (finding.devs, finding.surprise, finding.senders[0].devs) == (("ib0",), True, ("cni0",))
    [unsafe] = found.unsafe
    assert (unsafe.reason, unsafe.senders) == ("surprise", finding.senders)
    [surprise] = found.surprises
    assert surprise.sentence.startswith(
        "172.16.0.0, from 10.244.3.3 and arriving on cni0: the kernel answers [172.16.0.0/16"
    )


def test_a_packet_of_a_pod_that_is_dropped() -> None:
    """If the kernel drops packets of pods on arrival, its answer names no route, and is not a disagreement."""
    kernel = plain_vm()
    kernel.add_link(Link(name="cni0", index=0))
    refused, steady = (Answer("unreachable", None),), plain_vm()
    asked = mock.Mock(wraps=kernel)
    asked.lookup = lambda places, flow: refused * len(places) if flow.iif == "cni0" else steady.lookup(places, flow)
    found = examine(context(), asked, PODS, wait=0)
    assert (found.verdict, found.surprises) == ("ok", ())


def test_what_a_configuration_lacks() -> None:
    """The routes to add, the entries that they replace, and the entries whose keys other programs hold; no other entry."""
    given = [("172.16.0.0/17", "ib0"), ("10.50.0.0/16", "eth0"), ("10.60.0.0/16", "eth0"), ("172.16.128.0/18", "ib0")]
    entries = [{"destination": destination, "gateway": "10.0.0.9", "dev": dev} for destination, dev in given]
    for entry in entries:
        if entry["dev"] == "ib0":
            entry["gateway"] = "172.16.5.9"
    mine = HostRoutingConfig.from_mapping(
        {
            "staticRoutes": {"enabled": True, "routes": entries},
            "routeOverlap": {"expectedCidrs": [CIDR, "10.60.0.0/16"], "expectedDevs": ["eth0"]},
        }
    )
    theirs = Route.to("10.60.0.0/16", dev="ib1", protocol=3)
    found = examine_snapshot(h200().snapshot().with_routes([theirs]), mine)
    correction = find_correction(found, mine)
    add = {str(route.destination): route.gateway for route in correction.add}
    assert add == dict.fromkeys(
        ["10.60.0.0/17", "10.60.128.0/17", "172.16.0.0/17", "172.16.128.0/18", "172.16.192.0/18"]
    )
    assert [str(wish.destination) for wish in correction.replaced] == ["172.16.0.0/17", "172.16.128.0/18"]
    assert [str(wish.destination) for wish in correction.contested] == ["10.60.0.0/16"]


@pytest.mark.parametrize(("devs", "named"), [(["eth0"], "eth0"), (["eth0", "eth1"], None)])
def test_a_repair_for_pods(devs: list[str], named: str | None) -> None:
    """After the repair nothing of pods escapes either; with several expected devices, its routes name none."""
    kernel = h200()
    kernel.add_link(Link(name="cni0", index=0))
    check = {"expectedCidrs": [CIDR], "expectedDevs": devs, "podCidrs": ["10.244.3.0/24"], "podDevs": ["cni0"]}
    found = examine_snapshot(kernel.snapshot(), HostRoutingConfig(route_overlap=check))
    [family] = found.families
    assert ([pods.verdict for pods in family.pods], family.after_repair.verdict) == (["overlap"], "ok")
    assert {route.dev for route in found.routes} == {named}


@given(data=st.data(), block=st.sampled_from([4, 6]).flatmap(blocks))
def test_the_kernel_is_asked_about_a_plain_packet(data: st.DataObject, block: Prefix) -> None:
    """In each cell of a check, the decision compared with the kernel's answer is a plain packet's."""
    fib = Fib(data.draw(snapshots(block)))
    for cell in fib.cells(block):
        plainly = fib.lookup(ip_at(block.family, cell.first), PLAIN)
        assert (cell.decision.kind, cell.decision.route) == (plainly.kind, plainly.route)
