"""hostrouting.upkeep.passes: what holds a unit back, what may still come, and what is changed."""

import errno
from collections.abc import Callable
from unittest import mock

import pytest

from hostrouting.codes import CANNOT_DECIDE
from hostrouting.config.settings import PARTS, HostRoutingConfig, Mode, PassPart, RouteOverlapConfig
from hostrouting.errors import ApplyError, BackendError, HostError, RouteOverlapError
from hostrouting.finding import Name
from hostrouting.kernel.base import RouteBackend
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.node.ending import Stopped
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, plain_vm
from hostrouting.upkeep.passes import MOST_FINDINGS_SHOWN, Done, PassOutcome, await_pass, run_pass
from tests.support.node import (
    HALVES,
    KERNELS,
    MARKERS,
    PROBES,
    REPAIRED,
    FakeNodeClock,
    marker_of,
    node,
    wanting,
    without_default,
)
from tests.support.tasks import our_destinations
from tests.support.topologies import vpn_node

MODES: tuple[Mode, ...] = ("STRICT", "WARN")
IN_THE_WAY = Route.to(HALVES[0], dev="ib0", protocol=4)


def make_pass(
    host: FakeHost,
    config: HostRoutingConfig,
    *,
    parts: tuple[PassPart, ...] = PARTS,
    done: Done | None = None,
) -> PassOutcome:
    return run_pass(host, host.faults, config, done=done or Done(), parts=parts)


def test_nothing_is_configured() -> None:
    """Nothing is done, and nft, which is slow, is not asked."""
    host = node()
    host.nftables.fail(HostError("asked", what="nft"))
    before = str(host.kernel)
    config = wanting(cidrs=())
    assert make_pass(host, config) == PassOutcome(config=config)
    assert (str(host.kernel), host.files.writes, host.nftables.tables) == (before, [], {})
    asked = run_pass(host, host.faults, config, done=Done(), purpose="apply")
    assert [finding.sentence for finding in asked.findings] == ["asked"], "a run deletes the table"


def test_the_order_of_the_parts() -> None:
    """Static routes first, then the table for probes, then the check."""
    host = node()
    reached: list[str] = []
    host.faults.meanwhile("change", lambda: reached.append("routes"))
    host.nftables.meanwhile(
        lambda: reached.append(f"probes after {len(our_destinations(host))} routes")
    )
    host.faults.meanwhile(
        "snapshot", lambda: reached.append(f"check after {len(host.nftables.tables)} table"), nth=3
    )
    done = Done()
    probes = PROBES._replace(interfaces=("eth9",), ensure_route=True)
    outcome = make_pass(host, REPAIRED._replace(probe_rewrite=probes), done=done)
    assert not outcome.refuses
    assert "eth9" in outcome.findings[0].sentence, "why there is no route for replies"
    assert [change.verb for change in done.changes] == ["add", "add"]
    assert [operation.verb for operation in done.operations] == ["create"]
    assert outcome.has_requested_changes
    assert reached == ["routes", "probes after 2 routes", "check after 1 table"]
    assert marker_of(host) == "ok"


# Static routes

Happens = Callable[[FakeHost], object]


def add_a_rival(host: FakeHost) -> None:
    """Another program's route with the key of ours leads elsewhere."""
    host.kernel.ip_route("add", IN_THE_WAY)


def lose_the_default(host: FakeHost) -> None:
    without_default(host.kernel)


def meet_a_vpn(host: FakeHost) -> None:
    """The only default route is a tunnel's: somebody has to say which device is meant."""
    lose_the_default(host)
    host.kernel.add_link(Link(name="tun0", index=0, kind="tun", type=65534))
    host.kernel.ip_route("add", Route.to("0.0.0.0/0", dev="tun0"))


def refuse_the_second(host: FakeHost) -> None:
    host.faults.fail("change", errno.ENOBUFS, nth=2)


def refuse_to_list(host: FakeHost) -> None:
    host.faults.fail("snapshot", BackendError("no answer in time", kind="timeout"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("happens", "name", "waits"),
    [
        (add_a_rival, "route-conflict", ""),
        (lose_the_default, "route-waits", "or add it; there is no IPv4 default route"),
        (meet_a_vpn, "route-waits", "name tun0 in the configured route"),
        (refuse_the_second, "requirement", "No buffer space available"),
        (refuse_to_list, "requirement", "no answer in time"),
    ],
)
def test_routes_that_cannot_be_set(happens: Happens, name: Name, waits: str, mode: Mode) -> None:
    """No unit starts, in either mode. Only if one route has a rival, the other one is there."""
    host = node()
    happens(host)
    outcome = make_pass(host, wanting(*HALVES, mode=mode))
    assert outcome.refuses
    assert name in {each.name for each in outcome.findings if each.severity == "error"}
    assert waits in outcome.waits
    assert bool(outcome.waits) is bool(waits)
    assert our_destinations(host) == ([HALVES[1]] if happens == add_a_rival else [])
    assert host.faults.waiting == 0


def test_what_linux_does_not_take_back() -> None:
    """The second route is refused, and so is the deletion of the first one: the outcome has it."""
    host = node()
    host.faults.fail("change", errno.ENOBUFS, nth=2)
    host.faults.fail("change", errno.ENOBUFS, nth=3)
    done = Done()
    outcome = make_pass(host, REPAIRED, done=done)
    assert isinstance(outcome.error, ApplyError), "and not that of the check, which fails after it"
    assert outcome.findings[:1] == outcome.error.findings
    assert outcome.has_requested_changes, "which Linux reports, although it has refused some"
    assert (
        [str(change.route.prefix) for change in done.changes]
        == our_destinations(host)
        == [HALVES[0]]
    )


@pytest.mark.parametrize("parts", [PARTS, ("static_routes",)])
def test_routes_are_no_longer_configured(parts: tuple[PassPart, ...]) -> None:
    """Ours go, and no other. No answer of Linux holds a unit back then."""
    host = node()
    make_pass(host, REPAIRED)
    host.kernel.ip_route("add", Route.to("10.9.0.0/16", dev="eth0", protocol=4))
    host.faults.fail("snapshot", BackendError("no answer in time", kind="timeout"))
    without_routes = wanting(cidrs=("10.9.0.0/16",))
    outcome = make_pass(host, without_routes, parts=parts)
    assert (outcome.refuses, outcome.waits) == (False, "")
    assert [finding.severity for finding in outcome.findings][:1] == ["warning"]
    assert sorted(our_destinations(host)) == sorted(HALVES)
    assert parts == PARTS or marker_of(host) == "", "only a check knows what is so now"

    done = Done()
    make_pass(host, without_routes, parts=parts, done=done)
    again = make_pass(host, without_routes, parts=parts, done=done)
    assert not again.has_requested_changes
    assert [change.verb for change in done.changes] == ["delete", "delete"]
    assert our_destinations(host) == []
    assert "10.9.0.0/16" in str(host.kernel)


# The table for probes


@pytest.mark.parametrize("mode", MODES)
def test_probes_hold_no_unit_back(mode: Mode) -> None:
    host = node(kernel=plain_vm())
    host.nftables.fail(HostError("nft is not installed", what="nft", kind="missing"))
    outcome = make_pass(host, wanting(mode=mode, probe_rewrite=PROBES))
    [finding] = outcome.findings
    assert (finding.name, finding.severity) == ("probe-rewrite", "warning")
    assert (finding.target, type(outcome.error)) == ("nft", HostError)
    assert (outcome.refuses, marker_of(host)) == (False, "ok")


# The check


@pytest.mark.parametrize("can_write", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verdict", KERNELS)
def test_verdicts(verdict: str, mode: Mode, *, can_write: bool) -> None:
    """STRICT refuses two, WARN none; a marker that cannot be written is a warning."""
    host = node(kernel=KERNELS[verdict]())
    if not can_write:
        host.files.broken["/run/aks-flex-node"] = "it is full"
    outcome = make_pass(host, wanting(mode=mode))
    is_wrong = verdict in {"overlap", "no-default-route"}
    assert outcome.refuses is (is_wrong and mode == "STRICT")
    assert outcome.waits == (
        "there is no IPv4 default route" if verdict == "no-default-route" else ""
    )
    assert outcome.report is not None
    assert outcome.report.verdict == verdict
    assert (outcome.error is not None) is outcome.refuses
    logged = [each for each in outcome.findings if each.severity != "note" or each.name == "action"]
    assert outcome.to_log == logged
    if outcome.error is not None:
        wrong = {each for each in logged if each.severity == "error" or each.name == "action"}
        assert wrong <= {*outcome.error.findings}
    assert marker_of(host) == (MARKERS[verdict] if can_write else "")
    assert any(finding.severity == "error" for finding in outcome.findings) is outcome.refuses
    warnings = [finding for finding in outcome.findings if finding.name == "file"]
    assert [finding.severity for finding in warnings] == ["warning"] * (not can_write)


def test_what_is_undecided_is_refused() -> None:
    """If the configuration wants that: the doubt is what the unit is held back for."""
    host = node(kernel=KERNELS["undecided"]())
    section = wanting().route_overlap._replace(undecided="refuse")
    outcome = make_pass(host, wanting()._replace(route_overlap=section))
    assert outcome.refuses
    assert outcome.report is not None
    doubts = {finding.name for finding in outcome.report.doubts}
    assert {each.name for each in outcome.findings if each.severity == "error"} == doubts
    assert isinstance(outcome.error, RouteOverlapError)
    assert (marker_of(host), outcome.error.exit_code) == ("undecided", CANNOT_DECIDE)
    ok = make_pass(node(kernel=KERNELS["ok"]()), wanting()._replace(route_overlap=section))
    assert not ok.refuses


def test_many_escapes() -> None:
    """The error says the first ones, and its document has all that the check has found."""
    cidrs = tuple(f"172.16.{number}.0/24" for number in range(0, 60, 2))
    outcome = make_pass(node(kernel=KERNELS["overlap"]()), wanting(cidrs=cidrs))
    assert isinstance(outcome.error, RouteOverlapError)
    assert str(outcome.error).count("OVERLAP") == MOST_FINDINGS_SHOWN
    assert outcome.error.check["findings"] == [each.to_mapping() for each in outcome.findings]


@pytest.mark.parametrize("can_come", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_no_verdict(mode: Mode, *, can_come: bool) -> None:
    """Where Linux does not answer, STRICT holds units back, and no old marker stays."""
    host = node(kernel=plain_vm())
    make_pass(host, wanting())
    kind = "timeout" if can_come else "not-permitted"
    host.faults.fail("snapshot", BackendError("no answer", kind=kind))
    outcome = make_pass(host, wanting(mode=mode), parts=("route_overlap",))
    assert outcome.refuses is (mode == "STRICT")
    assert ("no answer" in outcome.waits) is can_come
    assert marker_of(host) == ""


def test_no_old_marker_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is about a configuration that is not in force, or of a pass that is cancelled, whose
    changes are taken back. On a full disk, no verdict is better than a wrong one.
    """
    host = node()
    make_pass(host, wanting(mode="WARN"))
    without = REPAIRED._replace(route_overlap=RouteOverlapConfig())
    make_pass(host, without, parts=("static_routes",))
    assert marker_of(host) == "detected", "that part says nothing of it"
    make_pass(host, without)
    assert marker_of(host) == ""

    make_pass(host, wanting())
    assert (our_destinations(host), marker_of(host)) == ([], "detected")
    cancel = mock.Mock(side_effect=[None, Stopped("SIGTERM")])
    with pytest.raises(Stopped):
        run_pass(host, host.faults, REPAIRED, done=Done(), raise_if_cancelled=cancel)
    assert (our_destinations(host), marker_of(host)) == ([], "")

    make_pass(host, wanting())
    host.kernel.ip_route("add", Route.to("172.16.9.0/24", dev="eth0", gateway="10.0.0.1"))
    full = HostError("it is full", what="file")
    monkeypatch.setattr(FakeFiles, "write", mock.Mock(side_effect=full))
    assert make_pass(host, wanting()).refuses
    assert marker_of(host) == ""


def test_a_wait() -> None:
    """A pass is made each second and when the time is over; what is awaited is said once."""
    host, clock, said = node(), FakeNodeClock(), list[str]()
    passes: list[float] = []

    def waits_for_one_and_then_another(_backend: RouteBackend) -> PassOutcome:
        assert len(passes) < 4
        passes.append(clock.now())
        for verb in ("add", "delete"):  # what a pass takes back does not wake the next one
            host.kernel.ip_route(verb, IN_THE_WAY)
        waits = "one" if clock.now() < 2 else "another"
        return PassOutcome(waits=waits, has_requested_changes=True)

    await_pass(host, waits_for_one_and_then_another, clock=clock, wait=2.5, say=said.append)
    assert passes == [0, 1, 2, 2.5]
    assert said == ["waiting for up to 2.5 s: one", "waiting for up to 0.5 s: another"]


# Laws


@pytest.mark.parametrize("kernel", [*KERNELS.values(), vpn_node])
@pytest.mark.parametrize("destinations", [(), HALVES])
def test_a_second_pass(kernel: Callable[[], FakeKernel], destinations: tuple[str, ...]) -> None:
    """It finds the same, and changes nothing: the guard would wake itself."""
    host = node(kernel=kernel())
    config = wanting(*destinations, probe_rewrite=PROBES)
    first = make_pass(host, config)
    after = (str(host.kernel), dict(host.nftables.tables), [*host.files.writes])
    watch = host.kernel.watch()
    done = Done()
    second = make_pass(host, config, done=done)
    assert (done.changes, done.operations) == ([], [])
    assert second._replace(error=None) == first._replace(has_requested_changes=False, error=None)
    assert str(second.error) == str(first.error)
    assert (str(host.kernel), host.nftables.tables, host.files.writes) == after
    assert not watch.wait(0.0)
