"""The check of a kernel that is late, restless, or does not answer as its tables say."""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest

from hostrouting.check.check import check_kernel, check_snapshot, find_what_may_come
from hostrouting.check.document import check_document
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError
from hostrouting.kernel.base import Answer
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeKernel, FaultyBackend, h200, plain_vm
from tests.support.sections import expect
from tests.support.tasks import CIDR, config
from tests.support.topologies import checked, vm_of

CIDR6 = "fd16::/48"


def test_an_expected_device_may_come_up() -> None:
    """One that is down is awaited as one that is missing; none is if the verdict is OK."""
    section = expect(CIDR, expected_devs=["eth1", "eth9", "lo"], mode="STRICT")
    expecting = HostRoutingConfig(route_overlap=section)
    kernel = plain_vm()
    kernel.add_link(Link(name="eth1", index=0, up=False))
    with mock.patch.object(kernel, "snapshot", mock.Mock(wraps=kernel.snapshot)) as readings:
        missing = find_what_may_come(check_kernel(kernel, expecting), expecting)
    assert readings.call_count == 1
    assert missing == "the device eth1 is not up and the device eth9 is not up"
    one_is_enough = HostRoutingConfig(route_overlap=expect(CIDR, expected_devs=["eth0", "eth9"]))
    assert find_what_may_come(check_kernel(kernel, one_is_enough), one_is_enough) == ""


def test_the_verdict_is_that_of_the_worse_family() -> None:
    """No default route is worse than two cards that both have one."""
    doubtful = "default via 10.1.0.1 dev eth1 metric 100"
    without_ipv6 = checked(vm_of(doubtful), CIDR, CIDR6)
    assert [family.verdict for family in without_ipv6.families] == ["undecided", "no-default-route"]
    assert without_ipv6.verdict == "no-default-route"
    document = check_document(without_ipv6, mode="WARN", findings=())
    assert document["expectedDevs"] == {"ipv4": ["eth0", "eth1"], "ipv6": []}
    doubtful = "::/0 via fe80::1 dev eth1 metric 1024"
    without_ipv4 = checked(vm_of(f"-default; ipv6; {doubtful}"), CIDR, CIDR6)
    assert [family.verdict for family in without_ipv4.families] == ["no-default-route", "undecided"]
    assert without_ipv4.verdict == "no-default-route"


def test_linux_without_ipv6() -> None:
    """After a boot with ipv6.disable=1, no IPv6 default route is awaited: none will come."""
    expecting = HostRoutingConfig(route_overlap=expect(CIDR, CIDR6))
    usual = plain_vm().snapshot()
    without = usual._replace(rules=default_rules(4))
    for known, awaited in {
        usual: "there is no IPv6 default route",
        without: "",
        without._replace(routes=()): "there is no IPv4 default route",
    }.items():
        report = check_snapshot(known, expecting)
        assert report.verdict == "no-default-route"
        assert find_what_may_come(report, expecting) == awaited


@pytest.mark.parametrize(("kernel", "verdict"), [(plain_vm(), "undecided"), (h200(), "overlap")])
def test_a_host_that_never_rests(kernel: FakeKernel, verdict: str) -> None:
    """After three readings, what would be ok is undecided, and an escape stays one."""
    faulty = FaultyBackend(kernel)
    faulty.is_restless = True
    readings = mock.Mock(wraps=kernel.snapshot)
    with mock.patch.object(kernel, "snapshot", readings):
        report = check_kernel(faulty, config(cidrs=(CIDR,)))
    assert readings.call_count == 3
    assert check_snapshot(report.snapshot, config(cidrs=(CIDR,))) == report
    assert report.verdict == verdict
    awaited = "the route tables differ from what the kernel does" if verdict == "overlap" else ""
    assert find_what_may_come(report, config(cidrs=(CIDR,))) == awaited
    doubt = report.doubts[-1]
    assert (doubt.name, doubt.severity) == ("kernel-differs", "warning")
    assert doubt.sentence.startswith("the route tables kept changing while they were read")


BY_IB7 = Route(Prefix.parse(CIDR), (NextHop("ib7"),))
DEAD = NextHop("ib7", dead=True)
STAYS_HERE = Route.to(CIDR, dev="eth0", type="local", table=255)
BY_BOTH = Route(Prefix.parse(CIDR), (NextHop("eth0"), NextHop("ib7")))


@pytest.mark.parametrize(
    ("address", "answer", "words"),
    [
        ("172.16.0.9", Answer("unicast", BY_IB7), f"[{BY_IB7}]"),
        ("172.16.0.10", Answer("unicast", BY_BOTH), f"[{BY_BOTH}]"),
        ("172.16.0.0", Answer("local", STAYS_HERE), f"[{STAYS_HERE}]"),
        ("172.16.0.0", Answer("no-route", None), "no-route"),
    ],
    ids=["another device", "one of two", "none: it stays here", "none"],
)
def test_the_kernel_differs(
    address: str, answer: Answer, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes an ok undecided, after three readings. It is asked in each range, also of a pod."""
    kernel = plain_vm()
    kernel.add_link(Link(name="cali1", index=0, kind="veth"))
    kernel.ip_route("add", Route.to("172.16.0.9/32", dev="cali1"))
    lookup = FakeKernel.lookup

    def lies_once(kernel: FakeKernel, addresses: Sequence[IP], *more: Any) -> tuple[Answer, ...]:
        answers = lookup(kernel, addresses, *more)
        pairs = zip(addresses, answers, strict=True)
        return tuple(answer if str(asked) == address else right for asked, right in pairs)

    readings = mock.Mock(wraps=kernel.snapshot)
    monkeypatch.setattr(FakeKernel, "lookup", lies_once)
    monkeypatch.setattr(kernel, "snapshot", readings)

    [family] = check_kernel(kernel, config(cidrs=(CIDR,))).families

    assert readings.call_count == 3
    assert family.verdict == "undecided"
    [doubt] = family.doubts
    assert doubt.name == "kernel-differs"
    assert doubt.sentence.startswith(f"{address}: the kernel answers {words}, and its tables say [")


def test_what_linux_may_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """An equal default route, while the first router does not answer; and no dead next hop."""
    kernel = plain_vm()
    kernel.add_link("eth1")
    kernel.add_address("eth1", "10.1.0.4/24")
    default = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=100)
    kernel.ip_route("append", default)
    answer = Answer("unicast", default._replace(next_hops=(*default.next_hops, DEAD)))
    monkeypatch.setattr(kernel, "lookup", lambda addresses: (answer,) * len(addresses))
    [family] = check_kernel(kernel, config(cidrs=(CIDR,))).families
    assert [doubt.name for doubt in family.doubts] == ["default-routes"]


def test_the_kernel_is_not_asked_about_what_is_not_judged() -> None:
    """The tables have no answer that its answer could differ from."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=9, action="goto", target=32766))
    [family] = check_kernel(kernel, config(cidrs=(CIDR,))).families
    assert [doubt.name for doubt in family.doubts] == ["not-judged"]


def test_nothing_to_check() -> None:
    """Without an expected CIDR there is no verdict."""
    kernel = h200()
    words = r"routeOverlap.expectedCidrs is empty, so there is nothing to check"
    with pytest.raises(ConfigError, match=words):
        check_snapshot(kernel.snapshot(), HostRoutingConfig())
    with pytest.raises(ConfigError, match=words):
        check_kernel(kernel, HostRoutingConfig())
