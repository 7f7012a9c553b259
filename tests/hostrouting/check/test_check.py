"""hostrouting.check.check: the check of a kernel that is late, restless, or answers otherwise than
its tables say.
"""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest

from hostrouting.check.check import check_kernel, check_snapshot, find_what_may_come
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
from tests.support.sections import expect
from tests.support.tasks import CIDR, config
from tests.support.topologies import checked, dual_stack_h200, vm_of

CIDR6 = "fd16::/48"


def test_a_default_route_may_come() -> None:
    """The verdict is that of the family without one, and it is said what may come: nothing if Linux
    is without IPv6.
    """
    of_both = config(cidrs=(CIDR, CIDR6))
    report = check_kernel(plain_vm(), of_both)
    assert report.verdict == "no-default-route"
    assert find_what_may_come(report, of_both) == "there is no IPv6 default route"
    without_ipv6 = plain_vm().snapshot(family=4)._replace(family=None)
    assert find_what_may_come(check_snapshot(without_ipv6, of_both), of_both) == ""


def test_an_expected_device_may_come_up() -> None:
    """One that is down is awaited as one that is missing; none is if the verdict is OK."""
    expecting = HostRoutingConfig(route_overlap=expect(CIDR, expected_devs=["eth1", "eth9", "lo"]))
    kernel = plain_vm()
    kernel.add_link(Link(name="eth1", index=0, up=False))
    missing = find_what_may_come(check_kernel(kernel, expecting), expecting)
    assert missing == "the device eth1 is not up and the device eth9 is not up"
    one_is_enough = HostRoutingConfig(route_overlap=expect(CIDR, expected_devs=["eth0", "eth9"]))
    assert find_what_may_come(check_kernel(kernel, one_is_enough), one_is_enough) == ""


def test_the_verdict_is_that_of_the_worse_family() -> None:
    """A family without a default route is worse than one whose expected device is in doubt, because
    two cards have this default route.
    """
    doubtful = "default via 10.1.0.1 dev eth1 metric 100"
    without_ipv6 = checked(vm_of(doubtful), CIDR, CIDR6)
    assert [family.verdict for family in without_ipv6.families] == ["undecided", "no-default-route"]
    assert without_ipv6.verdict == "no-default-route"
    doubtful = "::/0 via fe80::1 dev eth1 metric 1024"
    without_ipv4 = checked(vm_of(f"-default; ipv6; {doubtful}"), CIDR, CIDR6)
    assert [family.verdict for family in without_ipv4.families] == ["no-default-route", "undecided"]
    assert without_ipv4.verdict == "no-default-route"


@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [
        pytest.param(plain_vm(), "undecided", id="would be ok"),
        pytest.param(h200(), "overlap", id="an escape"),
    ],
)
def test_a_host_that_never_rests(kernel: FakeKernel, verdict: str) -> None:
    """If the tables change during each reading, a verdict that would be ok is undecided; an escape
    stays one.
    """
    faulty = FaultyBackend(kernel)
    faulty.is_restless = True

    [family] = check_kernel(faulty, config(cidrs=(CIDR,))).families

    assert family.verdict == verdict
    doubt = family.doubts[-1]
    assert doubt.name == "kernel-differs"
    assert doubt.severity == "warning"
    assert doubt.sentence.startswith("the route tables kept changing while they were read")


BY_IB7 = Route(Prefix.parse(CIDR), (NextHop("ib7"),))
STAYS_HERE = Route.to(CIDR, dev="eth0", type="local", table=255)
BY_BOTH = Route(Prefix.parse(CIDR), (NextHop("eth0"), NextHop("ib7")))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(Answer("unicast", BY_IB7), f"[{BY_IB7}]", id="another device"),
        pytest.param(Answer("unicast", BY_BOTH), f"[{BY_BOTH}]", id="one of two"),
        pytest.param(Answer("local", STAYS_HERE), f"[{STAYS_HERE}]", id="none: it stays here"),
        pytest.param(Answer("no-route", None), "no-route", id="none"),
    ],
)
def test_the_kernel_differs(answer: Answer, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that its tables do not give makes an ok undecided, after three readings. One next
    hop by another device is enough.
    """

    def answers_otherwise(_: FakeKernel, addresses: Sequence[IP], *__: Any) -> tuple[Answer, ...]:
        return (answer,) * len(addresses)

    kernel = plain_vm()
    readings = mock.Mock(wraps=kernel.snapshot)
    monkeypatch.setattr(FakeKernel, "lookup", answers_otherwise)
    monkeypatch.setattr(kernel, "snapshot", readings)

    [family] = check_kernel(kernel, config(cidrs=(CIDR,))).families

    assert readings.call_count == 3
    assert family.verdict == "undecided"
    [doubt] = family.doubts
    assert doubt.sentence.startswith(
        f"172.16.0.0: the kernel answers {words}, and its tables say [default via "
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

    [family] = check_kernel(kernel, config(cidrs=(CIDR,))).families

    assert family.verdict == "undecided"
    [doubt] = family.doubts
    assert doubt.name == "kernel-differs"
    assert doubt.sentence.startswith(f"{address}: the kernel answers [{CIDR} dev ib7 ")


@pytest.mark.parametrize(
    ("cidrs", "family"),
    [
        pytest.param((CIDR,), 4, id="IPv4"),
        pytest.param((CIDR6,), 6, id="IPv6"),
        pytest.param((CIDR, CIDR6), None, id="both"),
    ],
)
def test_only_what_is_asked_for_is_read(cidrs: tuple[str, ...], family: int | None) -> None:
    """The other family is left out, and the routes that do not matter."""
    kernel = mock.Mock(wraps=dual_stack_h200())
    configured = cidrs[0]  # a route with this key may be another program's
    report = check_kernel(kernel, config(configured, cidrs=cidrs))
    assert report.verdict == "overlap"
    near = [*map(Prefix.parse, (*cidrs, configured))]
    assert kernel.snapshot.mock_calls == [mock.call(family=family, near=near)]


def test_the_kernel_is_not_asked_about_what_is_not_judged() -> None:
    """The tables have no answer that its answer could differ from."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=9, action="goto", target=32766))
    [family] = check_kernel(kernel, config(cidrs=(CIDR,))).families
    assert [doubt.name for doubt in family.doubts] == ["not-judged"]


def test_the_lowest_addresses() -> None:
    """Linux has no answer for 0.0.0.0, which is in the widest of all CIDRs. It answers for ::,
    where the lowest range begins: without ::1, nearly all of ::/0.
    """
    kernel = mock.Mock(wraps=dual_stack_h200())
    of_ipv4, of_ipv6 = check_kernel(kernel, config(cidrs=("0.0.0.0/0", "::/0"))).families
    asked_in_ipv4, asked_in_ipv6 = [call.args[0] for call in kernel.lookup.mock_calls]
    assert [int(address) for address in asked_in_ipv4] == [part.first for part in of_ipv4.parts[1:]]
    assert [int(address) for address in asked_in_ipv6] == [part.first for part in of_ipv6.parts]
    assert kernel.sources.mock_calls == []  # each default route has a single one


def test_the_source_of_the_default_route_is_asked_for() -> None:
    """Where its device has no address, only Linux knows which one the node sends with."""
    kernel = FakeKernel()
    for number in range(3):
        kernel.add_link(f"eth{number}")
    kernel.add_address("eth0", "10.0.0.4/24")
    kernel.add_address("eth1", "10.1.0.4/24")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth2"))
    wanted = config(cidrs=(CIDR,))
    assert check_snapshot(kernel.snapshot(), wanted).node_ips == {}
    assert list(check_kernel(kernel, wanted).node_ips) == [4]


def test_the_source_of_ipv6_depends_on_the_address() -> None:
    """So one answer of Linux does not settle a doubt about a network."""
    kernel = dual_stack_h200()
    kernel.add_address("eth0", "fd00::4/64")
    own = Prefix.parse("fd00::4/128")
    kernel.add_rule(Rule(family=6, priority=100, action="unreachable", src=own))
    report = check_kernel(kernel, config(cidrs=("fd99::/48",)))
    assert "unknown-source" in [doubt.name for doubt in report.doubts]


def test_a_source_that_linux_does_not_know() -> None:
    """It has no answer for a route that has changed meanwhile: what is not known stays in doubt."""
    host = mock.Mock(wraps=FakeKernel())
    host.snapshot.return_value = vm_of(
        "-default; default via 10.9.9.9 dev eth1; address 10.1.0.4/24 dev ib0; elsewhere; "
        "rule from 10.1.0.4/32"
    )
    host.sources.side_effect = lambda addresses: (None,) * len(addresses)
    host.lookup.side_effect = lambda addresses: (Answer("no-route", None),) * len(addresses)
    doubts = check_kernel(host, config(cidrs=(CIDR,))).doubts
    remedies = {doubt.name: str(doubt.remedy) for doubt in doubts}
    assert "on the host itself" in remedies["unknown-source"]


def test_nothing_to_check() -> None:
    """Without an expected CIDR there is no verdict."""
    kernel = h200()
    words = r"routeOverlap.expectedCidrs is empty, so there is nothing to check"
    with pytest.raises(ConfigError, match=words):
        check_snapshot(kernel.snapshot(), HostRoutingConfig())
    with pytest.raises(ConfigError, match=words):
        check_kernel(kernel, HostRoutingConfig())


@pytest.mark.parametrize(
    ("backend", "configuration", "words"),
    [
        (NetlinkBackend, config(cidrs=(CIDR,)), "backend is <class .*; it must be a connected"),
        (h200(), {}, "config is {}; it must be a HostRoutingConfig"),
    ],
)
def test_what_is_not_a_host_or_a_configuration(
    backend: Any, configuration: Any, words: str
) -> None:
    """The error names it: not every author checks types."""
    with pytest.raises(TypeError, match=words):
        check_kernel(backend, configuration)


@pytest.mark.parametrize("pods", [["10.244.0.0/16"], ["10.244.1.0/25", "10.244.0.0/16"]])
def test_packets_of_pods_that_escape(pods: list[str]) -> None:
    """They do so once, although a node's block lies in that of the cluster."""
    host = vm_of("link cali1 veth; default dev eth1 table 7; rule from 10.244.1.0/24 lookup 7")
    [escape] = checked(host, pod_cidrs=pods).escapes
    assert str(escape.packet.source) == "10.244.1.0/24"


def test_what_the_host_loses_itself_is_not_repeated_beside_what_pods_lose() -> None:
    """Of the packets of pods, only the escape is named that the host's own do not have."""
    of_rule = "default dev ib0 table 7; rule from 10.244.1.0/24 to 172.16.9.0/24 lookup 7"
    host = vm_of(f"{of_rule}; 172.16.5.0/24 dev ib0")
    of_host, of_pods = checked(host, pod_cidrs=["10.244.1.0/24"]).escapes
    assert (str(*of_host.prefixes), of_host.packet) == ("172.16.5.0/24", FROM_HOST)
    assert (str(*of_pods.prefixes), str(of_pods.packet.source)) == (
        "172.16.9.0/24",
        "10.244.1.0/24",
    )


def test_connections_that_a_repair_leaves() -> None:
    """With the route, they have the address of the uplink, and a rule for that leads them away: so
    the repair is not said to be whole.
    """
    to_ib0 = f"{CIDR} dev ib0"
    report = checked(vm_of(f"{to_ib0}; {to_ib0} table 100; rule from 10.0.0.4/32"))
    [repair] = [family.repair for family in report.families]
    assert [str(route.prefix) for route in repair.resolved] == ["172.16.0.0/17", "172.16.128.0/17"]
    rule = "[rule 100: from 10.0.0.4 lookup 100]"
    cause = f"for connections from 10.0.0.4, {rule} comes before table main"
    assert cause in [left.why.cause for left in repair.unrepairable]
