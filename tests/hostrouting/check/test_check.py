"""hostrouting.check.check: the check of a kernel that is late, restless, or answers otherwise than
its tables say.
"""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError
from hostrouting.fib.engine import FROM_HOST
from hostrouting.kernel.base import Answer
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeKernel, FaultyBackend, h200, plain_vm
from tests.support.commands import furnish
from tests.support.namespace import private_namespace
from tests.support.sections import expect
from tests.support.tasks import CIDR, config, context

CIDR6 = "fd16::/48"


def names(report: CheckReport) -> list[str]:
    """The names of its findings."""
    return [finding.name for finding in check_findings(report, mode="STRICT")]


def test_a_default_route_is_awaited(caplog: pytest.LogCaptureFixture) -> None:
    """The verdict is that of the moment when a default route is there; without one it is said at
    the deadline. Meanwhile the log says what is awaited.
    """
    caplog.set_level("INFO")
    kernel, default = (
        plain_vm(),
        Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16, metric=100),
    )
    kernel.ip_route("delete", default)
    ctx = context()
    assert (
        check_kernel(kernel, config(cidrs=(CIDR,)), ctx=ctx, wait=5).verdict == "no-default-route"
    )
    assert ctx.clock.now() == 5
    assert caplog.messages == ["waiting for up to 5 s: there is no IPv4 default route"]
    kernel.later(lambda: kernel.ip_route("add", default))
    assert check_kernel(kernel, config(cidrs=(CIDR,)), ctx=ctx, wait=5).verdict == "ok"
    assert check_kernel(kernel, config(cidrs=(CIDR, CIDR6))).verdict == "no-default-route"


@pytest.mark.parametrize(("dev", "firsts"), [("eth0", ["0.0.0.0/1"]), ("eth:0", [])])
def test_a_repair_can_be_configured(dev: str, firsts: list[str]) -> None:
    """No route is proposed that a configuration refuses: the default route, or one by a device with
    an odd name.
    """
    kernel = FakeKernel()
    for table, (name, gateway) in enumerate([("dummy0", "10.1.0.1"), (dev, "10.0.0.1")], start=100):
        kernel.add_link(Link(name=name, index=0, kind="dummy" if name == "dummy0" else ""))
        kernel.add_address(name, f"{gateway[:-1]}4/24")
        kernel.ip_route("add", Route.to("0.0.0.0/0", dev=name, gateway=gateway, table=table))
        kernel.add_rule(Rule(family=4, priority=40_000 + table, table=table))
    report = check_snapshot(kernel.snapshot(), config(cidrs=("0.0.0.0/0",)))
    assert [str(route.destination) for route in report.routes][:1] == firsts
    assert all(route.dev == dev for route in report.routes)


@pytest.mark.parametrize("lacking", [CIDR, CIDR6])
def test_the_verdict_is_that_of_the_worse_family(lacking: str) -> None:
    """A family without a default route is worse than one whose expected device is in doubt."""
    kernel = FakeKernel()
    for dev in ("eth0", "eth1"):
        kernel.add_link(dev)
        for address, default in (("10.0.0.4/24", "0.0.0.0/0"), ("2001:db8::4/64", "::/0")):
            kernel.add_address(dev, address)
            if (":" in default) != (":" in lacking):
                kernel.ip_route("append", Route.to(default, dev=dev, metric=100))
    report = check_snapshot(kernel.snapshot(), config(cidrs=(CIDR, CIDR6)))
    verdicts = {":" in str(family.cidrs[0]): family.verdict for family in report.families}
    assert verdicts == {":" in lacking: "no-default-route", ":" not in lacking: "undecided"}
    assert report.verdict == "no-default-route"


def test_a_third_default_route_beside_two_equal_ones() -> None:
    """While it is in doubt which card is meant, it is not said which one Linux prefers."""
    kernel = FakeKernel()
    for number, metric in enumerate((100, 100, 200)):
        kernel.add_link(f"eth{number}")
        kernel.add_address(f"eth{number}", f"10.{number}.0.4/24")
        gateway = f"10.{number}.0.1"
        route = Route.to("0.0.0.0/0", dev=f"eth{number}", gateway=gateway, metric=metric)
        kernel.ip_route("append", route)
    report = check_snapshot(kernel.snapshot(), config(cidrs=(CIDR,)))
    assert report.verdict == "undecided"
    assert "default-routes" not in {flaw.name for flaw in report.families[0].flaws}


def test_services_inside_a_block_of_a_cni() -> None:
    """A block that a CNI refuses is right, but not where it has the addresses of services."""
    kernel = plain_vm()
    kernel.add_link(Link(name="cali1", index=0, kind="veth"))
    kernel.ip_route("add", Route.to("172.16.0.0/20", type="blackhole", protocol=80))
    for services, verdict in (("172.16.1.0/24", "overlap"), ("172.20.0.0/16", "ok")):
        expected = HostRoutingConfig(route_overlap=expect(CIDR, service_cidrs=[services]))
        assert check_snapshot(kernel.snapshot(), expected).verdict == verdict


def test_a_host_that_never_rests() -> None:
    """If the tables change during each reading, a verdict that would be ok is undecided; an escape
    stays one.
    """
    for kernel, verdict in ((plain_vm(), "undecided"), (h200(), "overlap")):
        faulty = FaultyBackend(kernel)
        faulty.is_restless = True
        report = check_kernel(faulty, config(cidrs=(CIDR,)))
        doubt = report.families[0].doubts[-1]
        assert (report.verdict, doubt.name, doubt.severity) == (
            verdict,
            "kernel-differs",
            "warning",
        )
        assert doubt.sentence.startswith("the route tables kept changing while they were read")


@pytest.mark.parametrize("devs", [["ib7"], ["eth0", "ib7"]])
def test_the_kernel_differs(devs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that its tables do not give makes an ok undecided, after three readings. One next
    hop by another device is enough.
    """
    kernel = plain_vm()
    other = Route(Prefix.parse(CIDR), tuple(map(NextHop, devs)))
    monkeypatch.setattr(
        FakeKernel,
        "lookup",
        lambda _, addresses, *__: tuple(Answer("unicast", other) for _ in addresses),
    )
    snapshot = mock.Mock(wraps=kernel.snapshot)
    monkeypatch.setattr(kernel, "snapshot", snapshot)
    report = check_kernel(kernel, config(cidrs=(CIDR,)))
    assert (report.verdict, snapshot.call_count) == ("undecided", 3)
    [doubt] = report.families[0].doubts
    assert doubt.sentence.startswith(
        f"172.16.0.0: the kernel answers [{other}], and its tables say [default via "
    )


@pytest.mark.parametrize("address", ["172.16.0.0", "172.16.0.9", "172.16.0.10"])
def test_the_kernel_differs_in_one_range(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked in each range, also in one that leaves through the device of a pod."""
    kernel = plain_vm()
    kernel.add_link(Link(name="cali1", index=0, kind="veth"))
    kernel.ip_route("add", Route.to("172.16.0.9/32", dev="cali1"))
    lookup = FakeKernel.lookup

    def lies_once(kernel: FakeKernel, addresses: Sequence[IP], *more: Any) -> tuple[Answer, ...]:
        answers = list(lookup(kernel, addresses, *more))
        for place, asked in enumerate(addresses):
            if str(asked) == address:
                answers[place] = Answer("unicast", Route.to(CIDR, dev="ib7"))
        return tuple(answers)

    monkeypatch.setattr(FakeKernel, "lookup", lies_once)
    report = check_kernel(kernel, config(cidrs=(CIDR,)))
    [doubt] = report.families[0].doubts
    assert (report.verdict, doubt.name) == ("undecided", "kernel-differs")
    assert doubt.sentence.startswith(f"{address}: the kernel answers [{CIDR} dev ib7 ")


def test_one_error_for_two_reasons() -> None:
    """Linux refuses a lookup alike if there is no route and if a rule says `unreachable`: it does
    not differ there.
    """
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=9, action="unreachable"))
    assert "kernel-differs" not in names(check_kernel(kernel, config(cidrs=(CIDR,))))


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("to", ["default", CIDR])
def test_a_next_hop_that_is_dead(to: str) -> None:
    """Linux lists a next hop whose device is down, and does not use it: that is neither an escape
    nor a difference.
    """
    with private_namespace() as namespace, namespace.inside(), NetlinkBackend() as backend:
        furnish(namespace)
        hops = "nexthop via 10.0.0.1 dev eth0 nexthop dev ib0"
        namespace.batch([f"route add {to} {hops}", "route append default via 10.0.0.1 dev eth0"])
        configuration = HostRoutingConfig(route_overlap=expect(CIDR, expected_devs=["eth0"]))
        assert check_kernel(backend, configuration).verdict == "overlap"
        namespace.batch(["link set ib0 down"])
        report = check_kernel(backend, configuration)
        assert (report.verdict, report.families[0].doubts) == ("ok", ())


@pytest.mark.parametrize(("cidrs", "family"), [((CIDR,), 4), ((CIDR6,), 6), ((CIDR, CIDR6), None)])
def test_only_what_is_asked_for_is_read(cidrs: tuple[str, ...], family: int | None) -> None:
    """The other family is left out, the tables that no rule looks up, and the routes that do not
    matter.
    """
    kernel = mock.Mock(wraps=h200(dual_stack=True))
    report = check_kernel(kernel, config(cidrs=cidrs))
    assert report.verdict == "overlap"
    near = [*map(Prefix.parse, cidrs)]
    assert kernel.snapshot.mock_calls == [mock.call(family=family, reached=True, near=near)]


def test_nothing_to_check() -> None:
    """Without an expected CIDR there is no verdict."""
    with pytest.raises(
        ConfigError, match=r"routeOverlap.expectedCidrs is empty, so there is nothing to check"
    ):
        check_snapshot(h200().snapshot(), HostRoutingConfig())


class TestPods:
    """Packets of pods are judged if podCidrs names their addresses, by the rules that fit their
    source and device.
    """

    @staticmethod
    def reported(*, pods: list[str], iif: str | None = None) -> CheckReport:
        """The check of a node where a rule sends what comes from some pods into table 7, which
        leads to eth1.
        """
        kernel = plain_vm()
        kernel.add_link(Link(name="eth1", index=0))
        kernel.add_link(Link(name="cali1", index=0, kind="veth"))
        kernel.add_rule(
            Rule(family=4, priority=100, src=Prefix.parse("10.244.1.0/24"), iif=iif, table=7)
        )
        kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", table=7))
        return check_snapshot(
            kernel.snapshot(), HostRoutingConfig(route_overlap=expect(CIDR, pod_cidrs=pods))
        )

    def test_only_theirs_escape(self) -> None:
        """The escape says whose packets it is about, and which rule; without podCidrs nothing is
        expected of them.

        What the host's own packets suffer, too, is not repeated for pods.
        """
        section = expect(CIDR, pod_cidrs=["10.244.0.0/16"])
        [_] = check_snapshot(h200().snapshot(), HostRoutingConfig(route_overlap=section)).escapes
        report = self.reported(pods=["10.244.0.0/16"])
        finding, unsafe = check_findings(report, mode="WARN")
        route, rule = (
            "[default dev eth1 table 7 proto unspec scope link]",
            "[rule 100: from 10.244.1.0/24 lookup 7]",
        )
        words = (
            f"{CIDR}, for packets of pods from 10.244.1.0/24, leaves through eth1 {route} by {rule}"
        )
        assert ([*map(str, report.escapes)], finding.sentence) == (
            [words],
            f"{words}; expected: eth0",
        )
        cause = f"for packets of pods from 10.244.1.0/24, {rule} comes before table main"
        assert unsafe.sentence == f"no route repairs {CIDR}: {cause}"
        assert (
            str(report)
            == f"OVERLAP: all of {CIDR}, for packets of pods, leaves through eth1; expected: eth0"
        )
        [family] = report.families
        own = family.escapes[0]._replace(packet=FROM_HOST, last=family.escapes[0].last - 1)
        both = family._replace(
            escapes=(own, *family.escapes)
        )  # no kind of packet loses more than the line says
        assert str(both) == f"OVERLAP: part of {CIDR} leaves through eth1; expected: eth0"
        assert self.reported(pods=[]).verdict == "ok"
        assert self.reported(pods=["10.245.0.0/16"]).verdict == "ok"

    @pytest.mark.parametrize(("iif", "verdict"), [("cali1", "overlap"), ("eth1", "ok")])
    def test_the_devices_of_pods(self, iif: str, verdict: str) -> None:
        """What arrives on another device is not from a pod, whatever its source."""
        report = self.reported(pods=["10.244.0.0/16"], iif=iif)
        assert report.verdict == verdict
        words = "".join(map(str, check_findings(report, mode="WARN")))
        assert ("10.244.1.0/24 that arrive on cali1, leaves through eth1" in words) is (
            verdict == "overlap"
        )
