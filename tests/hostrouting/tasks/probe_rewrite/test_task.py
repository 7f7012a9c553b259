"""RewriteProbeSource, on hosts that exist in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import phases
from hostrouting.boot import parse_probe_script
from hostrouting.boot.gate import Gate
from hostrouting.cli.failure import code_of
from hostrouting.config import HostRoutingConfig
from hostrouting.errors import (
    ConfigError,
    MetadataError,
    ProgramError,
    RouteConflict,
)
from hostrouting.host.host import Host
from hostrouting.host.metadata import Reply
from hostrouting.kernel.nftables import program as refusal
from hostrouting.model import Link, Route
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.probe_rewrite.rules import wanted_table
from hostrouting.tasks.probe_rewrite.task import RewriteProbeSource
from hostrouting.tasks.results import ProbeResult
from hostrouting.testing import FakeFiles, FakeHost, MemoryBackend, h200, plain_vm
from hostrouting.testing.kernel.nftables import MemoryNftables
from tests.support.kinds import kind_of
from tests.support.tasks import LAYOUT, run

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = "2603:1062:0:1:fe80:1234:5678:9abc"
TABLE = "hostrouting_slb"
CONTEXT = phases.Context(observers=[])
FORWARDING = {"/proc/sys/net/ipv6/conf/all/forwarding": "1\n", "/proc/sys/net/ipv6/conf/eth0/accept_ra": "2\n"}


def config(**settings: Any) -> HostRoutingConfig:
    """A configuration with the rewrite, on eth0 and always."""
    given = {"enabled": True, "interfaces": ["eth0"], "condition": "always", **settings}
    return HostRoutingConfig.from_mapping({"probeRewrite": given})


def a_host(**changed: Any) -> FakeHost:
    """A host that forwards."""
    return FakeHost(files=FakeFiles(dict(FORWARDING)), **changed)


def apply(host: FakeHost, **settings: Any) -> ProbeResult:
    """Run the task; what it did."""
    result = run(RewriteProbeSource(config(**settings), host=host))
    assert isinstance(result, ProbeResult)
    return result


def failure(host: FakeHost, **settings: Any) -> BaseException:
    """Run the task; the error that ends it."""
    with pytest.raises(phases.TaskFailed) as caught:
        apply(host, **settings)
    return caught.value.error


def table_of(host: FakeHost, name: str = TABLE) -> object:
    """What nftables has under this name."""
    return host.tables.table(name)


def routes_of(host: FakeHost) -> list[str]:
    """The routes in the kernel that carry our number."""
    return [str(it) for it in host.kernel.reopen().snapshot(family=6, protocol=213).routes]


class TestApply:
    """The rules and the route, now and at every boot."""

    def test_all_of_it(self) -> None:
        """Table, route, unit, script and gate are there; the record names what is in the kernel; a second run does nothing."""
        host = a_host()
        result = apply(host)
        assert [str(it) for it in result.operations] == [
            f"create nftables table ip6 {TABLE}    # it is missing",
            f"add route {KNOWN}/128 dev eth0 proto hostrouting metric 1024    # it does not exist",
        ]
        assert table_of(host) == wanted_table(config().probe_rewrite)
        assert routes_of(host) == [f"{KNOWN}/128 dev eth0 proto hostrouting metric 1024"]
        assert [str(step) for step in Gate(host).steps] == ["70 requires probe-rewrite"]
        assert host.files.texts[LAYOUT.probe_applied_path] == f"table {TABLE}\nroute {KNOWN} dev eth0 protocol 213\n"
        assert host.manager is not None
        assert host.manager.calls[-1] == f"start {LAYOUT.probe_unit}"
        assert result.log_fields() == {"in_force": True, "hindrances": 0, "operations": 2, "files": 8}
        before = list(host.files.writes)
        again = apply(host)
        assert (again.operations, again.files, again.started) == ((), (), False)
        assert [it for it in host.files.writes[len(before) :] if it != LAYOUT.lock_path] == []

    def test_plan(self) -> None:
        """The plan says what would be done; afterwards it is empty."""
        host, task = a_host(), RewriteProbeSource(config(), host=a_host())
        task = attrs.evolve(task, host=host)
        assert "create nftables table ip6 hostrouting_slb    # it is missing" in str(phases.plan(task))
        assert host.files.texts == FORWARDING
        apply(host)
        assert task.plan(phases.Context()).is_empty

    def test_not_enabled(self) -> None:
        """If the rewrite is neither enabled nor installed, nft and the kernel are not asked."""
        host = a_host(
            nftables=lambda: pytest.fail("nft was asked"), backend=lambda: pytest.fail("the kernel was asked")
        )
        assert run(RewriteProbeSource(HostRoutingConfig(), host=host)) == phases.Skip(RewriteProbeSource.nothing)

    def test_no_longer_enabled(self) -> None:
        """Table, route, files and step go; what others have stays."""
        host = a_host()
        foreign = Route.to("2001:db8::/32", dev="eth0", metric=1024, protocol=4)
        host.kernel.ip_route("add", foreign)
        apply(host)
        run(RewriteProbeSource(HostRoutingConfig(), host=host))
        assert table_of(host) is None
        assert routes_of(host) == []
        assert foreign in tuple(host.kernel.reopen().snapshot().routes)
        assert host.files.texts == FORWARDING
        assert host.files.links == {}

    def test_renamed(self) -> None:
        """A table and a route of the configuration before go together with the change, in one transaction."""
        host = a_host()
        apply(host, table="first_name")
        apply(host, globalAddress="2603:1062::2")
        assert (table_of(host, "first_name"), table_of(host)) == (
            None,
            wanted_table(config(globalAddress="2603:1062::2").probe_rewrite),
        )
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

    def test_in_an_image(self, tmp_path: Path) -> None:
        """An image gets its files; no kernel and no metadata service is asked."""
        root = str(tmp_path)
        task = RewriteProbeSource(config(condition="imds"), host=Host.offline(root))
        phases.execute(task, phases.Context(observers=[]))
        text = (tmp_path / "etc/aks-flex-node/probe-rewrite.sh").read_text()
        assert parse_probe_script(text).condition == "always"


class TestRefusals:
    """The error names what cannot be done, and nothing is left half done."""

    def test_an_address_of_the_host(self) -> None:
        """The global address must not be one of the host."""
        kernel = plain_vm()
        kernel.add_address("eth0", f"{KNOWN}/128")
        error = failure(a_host(kernel=kernel))
        assert isinstance(error, ConfigError)
        assert "is an address of this host, on eth0" in str(error)

    def test_a_foreign_table(self) -> None:
        """A table of that name without a comment of ours is not touched."""
        host = a_host()
        theirs = attrs.evolve(
            wanted_table(config().probe_rewrite),
            chains=tuple(
                attrs.evolve(chain, rules=tuple(attrs.evolve(rule, comment="") for rule in chain.rules))
                for chain in wanted_table(config().probe_rewrite).chains
            ),
        )
        host.tables.replace(theirs)
        error = failure(host)
        assert kind_of(error) == "owned"
        assert "set probeRewrite.table to another name" in str(error)
        assert table_of(host) == theirs
        assert routes_of(host) == []

    def test_a_foreign_route(self) -> None:
        """A route of another owner with that key: neither table nor route is changed."""
        host = a_host()
        host.kernel.ip_route("add", Route.to(f"{KNOWN}/128", dev="lo", metric=1024, protocol=4))
        assert isinstance(failure(host), RouteConflict)
        assert table_of(host) is None

    def test_without_nft(self) -> None:
        """The error names the package; the gate is up, so no machine starts without the rules."""
        host = a_host()
        host.tables.fault = refusal.missing()
        assert kind_of(failure(host)) == "missing"
        assert [step.name for step in Gate(host).steps] == ["probe-rewrite"]

    def test_removed_without_nft(self) -> None:
        """Without nft, the remains of an interrupted task are still removed, and the plan says so."""
        host = a_host()
        host.tables.fault = refusal.missing()
        failure(host)
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

    def test_a_table_that_another_process_owns(self) -> None:
        """The plan says so, and so does the failure."""
        host = a_host()
        apply(host)
        [found] = host.tables.tables.values()
        host.tables.tables[found.name] = attrs.evolve(found, flags=("owner",), chains=found.chains[:1])
        assert kind_of(failure(host)) == "owned"

    def test_a_table_that_does_not_stay(self) -> None:
        """A table that another program takes away at once has failed to be applied; that is not an open question."""
        host = a_host()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host.tables, "replace", lambda *_, **__: None)
            error = failure(host)
        assert isinstance(error, ProgramError)
        assert error.kind == "not-in-force"
        assert str(error).startswith(
            f"what was loaded has been changed: nftables table ip6 {TABLE}: it is missing; stop"
        )
        assert (code_of(error), error.can_retry) == (1, True)


class TestConditions:
    """When probes are rewritten."""

    def test_local_ipv6(self) -> None:
        """Without a global address on the uplink nothing is loaded, and the result says why; with one it is."""
        host = a_host()
        result = apply(host, condition="local-ipv6")
        assert result.standing is not None
        assert not result.standing.is_on
        assert "eth0 has no global IPv6 address" in result.standing.findings[0].sentence
        assert table_of(host) is None
        host.kernel.add_address("eth0", "2001:db8::5/64")
        assert apply(host, condition="local-ipv6").operations
        assert table_of(host) is not None

    def test_an_address_that_stays_tentative(self, caplog: pytest.LogCaptureFixture) -> None:
        """The task waits for the address; then it loads the rules anyway, with a warning."""
        host = a_host()
        host.kernel.add_address("eth0", "2001:db8::5/64")
        host.files.texts["/proc/self/net/if_inet6"] = "20010db8000000000000000000000005 02 40 00 40 eth0\n"
        result = apply(host, condition="local-ipv6")
        assert table_of(host) is not None
        assert routes_of(host)
        assert result.standing is not None
        assert result.standing.is_on
        assert result.standing.is_right
        assert "the IPv6 addresses of eth0 are still tentative after 30 s" in caplog.text
        assert RewriteProbeSource(config(condition="local-ipv6"), host=host).look(up=True).operations == ()

    def test_the_address_goes(self) -> None:
        """When the condition does not hold any more, table and route go; the script stays."""
        host = a_host()
        host.kernel.add_address("eth0", "2001:db8::5/64")
        apply(host, condition="local-ipv6")
        host.kernel.delete_address("eth0", "2001:db8::5/64")
        apply(host, condition="local-ipv6")
        assert (table_of(host), routes_of(host)) == (None, [])
        assert LAYOUT.probe_script_path in host.files.texts

    @pytest.mark.parametrize(
        ("interface", "at_boot"),
        [({"ipv6": {"ipAddress": [{"privateIpAddress": "fd00::1"}]}}, "always"), ({"ipv4": {}}, "never")],
    )
    def test_imds(self, interface: dict[str, object], at_boot: str) -> None:
        """The answer of the metadata service is what the script is told, and what is done now."""
        asked: list[str] = []

        def fetch(url: str, _timeout: float) -> Reply:
            asked.append(url)
            return Reply(200, body=json.dumps({"interface": [interface]}).encode())

        host = a_host(fetch=fetch)
        apply(host, condition="imds")
        assert len(asked) == 1
        assert parse_probe_script(host.files.texts[LAYOUT.probe_script_path]).condition == at_boot
        assert (table_of(host) is not None) is (at_boot == "always")
        standing = RewriteProbeSource(config(condition="imds"), host=host).standing()
        assert standing is not None
        assert (standing.is_on, standing.is_right) == (at_boot == "always", True)
        assert len(asked) == 1  # how it stands is told without asking again

    @pytest.mark.parametrize(("on_unknown", "loaded"), [("apply", True), ("skip", False)])
    def test_unknown(self, on_unknown: str, loaded: bool) -> None:  # noqa: FBT001
        """Without an answer the configuration decides."""
        host = a_host()
        apply(host, condition="imds", imds={"onUnknown": on_unknown, "retries": 0})
        assert (table_of(host) is not None) is loaded

    def test_unknown_fails(self) -> None:
        """Unless it says otherwise, no answer is a failure, and machines start with the rules at the next boot."""
        host = a_host()
        error = failure(host, condition="imds", imds={"retries": 0})
        assert isinstance(error, MetadataError)
        assert "onUnknown" in str(error)
        assert parse_probe_script(host.files.texts[LAYOUT.probe_script_path]).condition == "always"

    def test_a_device_is_waited_for(self) -> None:
        """A link that is not there by the deadline is named."""
        host = a_host(kernel=MemoryBackend())
        with pytest.raises(phases.TaskFailed, match="the device eth0"):
            run(RewriteProbeSource(config(), host=host, wait=1))

    def test_ipv6_is_waited_for(self) -> None:
        """A device on which IPv6 is disabled at the deadline is named."""
        kernel = MemoryBackend()
        kernel.add_link(Link(name="eth0", index=0, ipv6_disabled=True))
        kernel.set_up("eth0")
        with pytest.raises(phases.TaskFailed, match="waiting for IPv6 to be enabled on eth0"):
            run(RewriteProbeSource(config(), host=a_host(kernel=kernel), wait=1))


class TestStanding:
    """What keeps probes from the pods although all of it is in force."""

    def test_each_edge_is_asked(self) -> None:
        """Settings, devices and tables of the host are looked at; counters are told."""
        host = a_host()
        apply(host)
        host.files.texts["/proc/sys/net/ipv6/conf/all/forwarding"] = "0\n"
        standing = RewriteProbeSource(config(), host=host).standing()
        assert standing is not None
        [hindrance] = standing.findings
        assert (hindrance.severity, hindrance.facts["kind"]) == ("warning", "forwarding-off")
        assert standing.facts == ("0 packets rewritten on their way in, 0 on their way out",)

    def test_flushed_meanwhile(self) -> None:
        """When the table goes while it is looked at, nothing is counted."""

        class Flushed(MemoryNftables):
            def counters(self, name: str) -> tuple[int, ...]:
                self.flush()
                return super().counters(name)

        host = a_host(tables=Flushed())
        assert apply(host).standing is not None
        apply(host)
        standing = RewriteProbeSource(config(), host=host).standing()
        assert standing is not None
        assert standing.facts == ()

    def test_only_a_gate_is_left(self) -> None:
        """Without a step in the gate, this task says nothing about it, and asks nothing."""
        host = a_host(nftables=lambda: pytest.fail("nft was asked"))
        host.files.texts[LAYOUT.gate_script_path] = "of a run that did not end"
        assert RewriteProbeSource(HostRoutingConfig(), host=host).standing() is None

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
    """Configure runs it after the other two, and Remove takes all three away."""
    host = FakeHost(kernel=h200(), files=FakeFiles(dict(FORWARDING)), tables=MemoryNftables())
    document = {
        "staticRoutes": {
            "enabled": True,
            "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}],
        },
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
        "probeRewrite": {"enabled": True, "interfaces": ["eth0"], "condition": "always"},
    }
    wanted = HostRoutingConfig.from_mapping(document)
    run(Configure(wanted, host=host))
    assert [step.name for step in Gate(host).steps] == ["static-routes", "check-route-overlap", "probe-rewrite"]
    assert Configure(wanted, host=host).preview().is_empty
    run(Remove(HostRoutingConfig(), host=host))
    assert host.files.texts == FORWARDING
    assert (table_of(host), routes_of(host)) == (None, [])
