"""RewriteProbeSource, on hosts that exist in memory."""

from typing import Any

import pytest

import phases
from hostrouting.boot.gate import Gate
from hostrouting.boot.probe import render_probe_table
from hostrouting.cli.failure import code_of
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, ProgramError, RouteConflict
from hostrouting.host.effects import Effects
from hostrouting.kernel import nftables as refusal
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.probe_rewrite.task import RewriteProbeSource
from hostrouting.testing import FakeFiles, FakeHost, MemoryBackend, h200, plain_vm
from hostrouting.testing.kernel.filters import MemoryNftables
from phases.testing import FakeClock
from tests.support.kinds import kind_of
from tests.support.tasks import LAYOUT, failure_of, manager_of, run

KNOWN = "2603:1062:0:1:fe80:1234:5678:9abc"
TABLE = "hostrouting_slb"
CONTEXT = phases.Context(observers=[])
FORWARDING = {"/proc/sys/net/ipv6/conf/all/forwarding": "1\n", "/proc/sys/net/ipv6/conf/eth0/accept_ra": "2\n"}


def config(**settings: Any) -> HostRoutingConfig:
    """A configuration with the rewrite, on eth0."""
    given = {"enabled": True, "interfaces": ["eth0"], **settings}
    return HostRoutingConfig.from_mapping({"probeRewrite": given})


def a_host(**changed: Any) -> FakeHost:
    """A host that forwards."""
    return FakeHost(files=FakeFiles(dict(FORWARDING)), **changed)


def apply(host: FakeHost, **settings: Any) -> Effects:
    """Run the task; what it did."""
    result = run(RewriteProbeSource(config(**settings), host=host))
    assert isinstance(result, Effects)
    return result


def table_of(host: FakeHost, name: str = TABLE) -> object:
    """What nftables has under this name."""
    return host.tables.tables.get(name)


def wanted(**settings: Any) -> str:
    """The text that is loaded."""
    return render_probe_table(config(**settings).probe_rewrite)


def routes_of(host: FakeHost) -> list[str]:
    """The routes in the kernel that carry our number."""
    return [str(route) for route in host.kernel.reopen().snapshot(family=6, protocol=213).routes]


class TestApply:
    """The rules and the route, now and at every boot."""

    def test_all_of_it(self) -> None:
        """Table, route, unit, script and gate are there; the record names what is in the kernel; a second run does nothing."""
        host = a_host()
        result = apply(host)
        assert [str(operation) for operation in result.operations] == [
            f"create nftables table ip6 {TABLE}    # it is missing",
            f"add route {KNOWN}/128 dev eth0 proto hostrouting metric 1024    # it does not exist",
        ]
        assert host.tables.writes == [wanted()]
        assert routes_of(host) == [f"{KNOWN}/128 dev eth0 proto hostrouting metric 1024"]
        assert [str(step) for step in Gate(host).steps] == ["70 wants probe-rewrite"]
        loaded = f"{wanted()}{table_of(host)}"
        assert host.files.texts[LAYOUT.probe_applied_path] == f"route {KNOWN}\n\n{loaded}"
        assert manager_of(host).calls[-1] == f"start {LAYOUT.probe_unit}"
        assert result.log_fields() == {"operations": 2, "files": 8}
        before = list(host.files.writes)
        again = apply(host)
        assert (again.operations, again.files, again.started) == ((), (), False)
        assert [write for write in host.files.writes[len(before) :] if write != LAYOUT.lock_path] == []

    def test_not_enabled(self) -> None:
        """If the rewrite is neither enabled nor installed, nft and the kernel are not asked."""
        host = a_host(
            nftables=lambda: pytest.fail("nft was asked"), backend=lambda: pytest.fail("the kernel was asked")
        )
        assert run(RewriteProbeSource(HostRoutingConfig(), host=host)) == phases.Skip(RewriteProbeSource.nothing)

    def test_another_address(self) -> None:
        """A route of the configuration before goes with the change."""
        host = a_host()
        apply(host)
        apply(host, globalAddress="2603:1062::2")
        assert host.tables.writes[-1] == wanted(globalAddress="2603:1062::2")
        assert routes_of(host) == ["2603:1062::2/128 dev eth0 proto hostrouting metric 1024"]
        run(Remove(HostRoutingConfig(), host=host))
        assert (table_of(host), routes_of(host)) == (None, [])

    def test_tampered_with(self) -> None:
        """A changed rule is found and restored, and the reason names it."""
        host = a_host()
        apply(host)
        host.tables.flush()
        [operation] = apply(host).operations
        assert (operation.verb, operation.reason) == ("create", "it is missing")


class TestRefusals:
    """The error names what cannot be done, and nothing is left half done."""

    def test_an_address_of_the_host(self) -> None:
        """The global address must not be one of the host."""
        kernel = plain_vm()
        kernel.add_address("eth0", f"{KNOWN}/128")
        error = failure_of(apply, a_host(kernel=kernel))
        assert isinstance(error, ConfigError)
        assert "is an address of this host, on eth0" in str(error)

    def test_a_foreign_table(self) -> None:
        """Neither apply nor remove touches a table with our name that lacks our comment."""
        theirs = f"table ip6 {TABLE} {{\n  chain prerouting {{\n  }}\n}}\n"
        host = a_host(tables=MemoryNftables(theirs))
        error = failure_of(apply, host)
        assert kind_of(error) == "owned"
        assert "delete it, and stop the program that creates it" in str(error)
        run(Remove(HostRoutingConfig(), host=host))
        assert (table_of(host), routes_of(host)) == (theirs, [])

    def test_a_foreign_route(self) -> None:
        """A route of another owner with that key: neither table nor route is changed."""
        host = a_host()
        host.kernel.ip_route("add", Route.to(f"{KNOWN}/128", dev="lo", metric=1024, protocol=4))
        assert isinstance(failure_of(apply, host), RouteConflict)
        assert table_of(host) is None

    def test_without_nft(self) -> None:
        """The error names the package; the gate is up, so no machine starts without the rules."""
        host = a_host()
        host.tables.fault = refusal.missing()
        assert kind_of(failure_of(apply, host)) == "missing"
        assert [step.name for step in Gate(host).steps] == ["probe-rewrite"]

    def test_removed_without_nft(self) -> None:
        """Without nft, the remains of an interrupted task are still removed, and the plan says so."""
        host = a_host()
        host.tables.fault = refusal.missing()
        failure_of(apply, host)
        host.tables.fault = denied = refusal.not_permitted()
        with pytest.raises(ProgramError) as caught:  # then there may be a table
            RewriteProbeSource(HostRoutingConfig(), host=host).plan(CONTEXT)
        assert caught.value is denied
        host.tables.fault = refusal.missing()
        assert (
            LAYOUT.probe_script_path in RewriteProbeSource(HostRoutingConfig(), host=host).plan(CONTEXT).files.removes
        )
        assert LAYOUT.probe_script_path in Remove(HostRoutingConfig(), host=host).plan(CONTEXT).files.removes
        run(Remove(HostRoutingConfig(), host=host))
        assert host.files.texts == FORWARDING

    def test_a_table_that_does_not_stay(self) -> None:
        """A table that another program takes away at once has failed to be applied; that is not an open question."""
        host = a_host()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host.tables, "load", lambda _: None)
            error = failure_of(apply, host)
        assert isinstance(error, ProgramError)
        assert error.kind == "not-in-force"
        assert str(error).startswith(
            f"what was loaded has been changed: nftables table ip6 {TABLE}: it is missing; stop"
        )
        assert (code_of(error), error.can_retry) == (1, True)


class TestDevices:
    """The route's device."""

    def test_a_device_is_waited_for(self, caplog: pytest.LogCaptureFixture) -> None:
        """If the device is missing at the deadline, the rules are loaded, and the warning says what adds the route."""
        host = a_host(kernel=MemoryBackend())
        run(RewriteProbeSource(config(), host=host, wait=1))
        assert table_of(host) is not None
        assert "waiting for the device eth0" in caplog.text
        assert "the guard or the next start of a gated unit then adds the route" in caplog.text

    def test_a_device_that_comes(self) -> None:
        """A device that comes up while it is waited for gets its route."""
        host = a_host()
        host.kernel.set_down("eth0")
        host.kernel.faults.meanwhile("wait", lambda: host.kernel.set_up("eth0"))
        apply(host)
        assert routes_of(host) == [f"{KNOWN}/128 dev eth0 proto hostrouting metric 1024"]

    def test_ipv6_is_off(self) -> None:
        """Nothing waits for IPv6 on a device where it is disabled: no probe arrives there."""
        kernel = MemoryBackend()
        kernel.add_link(Link(name="eth0", index=0, ipv6_disabled=True))
        kernel.set_up("eth0")
        clock = FakeClock()
        report = phases.run(RewriteProbeSource(config(), host=a_host(kernel=kernel)), clock=clock, observers=[])
        assert (report.ok, clock.now()) == (True, 0)


class TestStanding:
    """What keeps probes from the pods although all of it is in force."""

    def test_each_edge_is_asked(self) -> None:
        """The host's settings, devices and tables are examined, and the counters reported."""
        host = a_host()
        host.kernel.add_address("eth0", "2001:db8::5/64")
        apply(host)
        host.files.texts["/proc/sys/net/ipv6/conf/all/forwarding"] = "0\n"
        standing = RewriteProbeSource(config(), host=host).standing()
        assert standing is not None
        [hindrance] = standing.findings
        assert (hindrance.severity, hindrance.facts["kind"]) == ("warning", "forwarding-off")
        assert standing.facts == ("0 packets rewritten on their way in, 0 on their way out",)

    def test_flushed_meanwhile(self) -> None:
        """If the table disappears while it is read, nothing is counted."""

        class Flushed(MemoryNftables):
            def counts(self, name: str) -> tuple[int, ...]:
                self.flush()
                return super().counts(name)

        host = a_host(tables=Flushed())
        apply(host)
        apply(host)
        standing = RewriteProbeSource(config(), host=host).standing()
        assert standing is not None
        assert standing.facts == ()

    def test_only_a_gate_is_left(self) -> None:
        """Without a step in the gate, this task says nothing about it, and asks nothing."""
        host = a_host(nftables=lambda: pytest.fail("nft was asked"))
        host.files.texts[LAYOUT.gate_script_path] = "of a run that did not end"
        assert RewriteProbeSource(HostRoutingConfig(), host=host).standing() is None

    def test_a_route_that_is_gone(self) -> None:
        """A missing route is reported once, and not also as a packet without a route."""
        host = a_host()
        apply(host)
        [route] = host.kernel.reopen().snapshot(family=6, protocol=213).routes
        host.kernel.ip_route("delete", route)
        standing = RewriteProbeSource(config(), host=host).standing()
        assert standing is not None
        assert [finding.severity for finding in standing.findings] == ["error"]

    def test_faults(self) -> None:
        """A step that is not in force is a fault, even on a host whose routing is right."""
        host = a_host()
        apply(host)
        host.tables.flush()
        standing = RewriteProbeSource(config(), host=host).standing()
        assert standing is not None
        assert [str(finding) for finding in standing.findings] == [f"nftables table ip6 {TABLE}: it is missing"]
        assert not standing.is_in_force


def test_with_the_others() -> None:
    """Configure runs the rewrite after the other two tasks, and Remove removes all three."""
    host = FakeHost(kernel=h200(), files=FakeFiles(dict(FORWARDING)), tables=MemoryNftables())
    document = {
        "staticRoutes": {
            "enabled": True,
            "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}],
        },
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
        "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
    }
    everything = HostRoutingConfig.from_mapping(document)
    run(Configure(everything, host=host))
    assert [step.name for step in Gate(host).steps] == ["static-routes", "check-route-overlap", "probe-rewrite"]
    assert Configure(everything, host=host).preview().is_empty
    run(Remove(HostRoutingConfig(), host=host))
    assert host.files.texts == FORWARDING
    assert (table_of(host), routes_of(host)) == (None, [])
