"""TCP looks up twice, the second time with the source of the first: a rule may select that."""

from itertools import pairwise

import pytest
from hypothesis import event, given, settings, strategies as st

from hostrouting.check.check import check_snapshot
from hostrouting.config.settings import HostRoutingConfig
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.sections import expect

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEVS = ("eth0", "eth1", "flannel.1")
ADDRESSES = {
    4: ["10.0.0.4/24", "10.0.0.5/24", "10.0.1.4/24"],
    6: ["fd00::4/64", "fd00::5/64", "fd16:1::4/64", "fd16:2::5/128"],
}
ON_LO = {4: "10.0.9.9/32", 6: "fd09::9/128"}
GATEWAYS = {4: ["", "via 10.0.0.1 onlink", "via 10.0.1.1 onlink"], 6: ["", "via fe80::1"]}
PODS = {4: "172.16.0.0/16", 6: "fd16::/16"}
ASKED = {4: ["172.16.1.1"], 6: ["fd16:1::9", "fd16:2::9", "fd16:3::9"]}


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=scaled(60))
@given(data=st.data())
def test_connections_of_a_host_that_is_ok(family: int, data: st.DataObject) -> None:
    """They leave by the device of their first packet, whatever the addresses are."""
    on_devs = st.dictionaries(st.sampled_from(ADDRESSES[family]), st.sampled_from(DEVS), min_size=1)
    addresses = {ON_LO[family]: "lo", **data.draw(on_devs)}
    gateway = st.sampled_from(GATEWAYS[family])
    source, _, _ = data.draw(st.sampled_from(sorted(addresses))).partition("/")
    commands = [f"address add {address} dev {dev}" for address, dev in addresses.items()]
    if family == 6:
        commands = [f"{command} nodad" for command in commands]
    commands += [
        f"route add default {data.draw(gateway)} dev eth0",
        f"route add {PODS[family]} {data.draw(gateway)} dev {data.draw(st.sampled_from(DEVS))}",
        f"route add default dev {data.draw(st.sampled_from(DEVS[:2]))} table 100",
        f"rule add pref 100 from {source} lookup 100",
    ]
    with private_namespace() as namespace:
        namespace.batch(["link set lo up", *ports(*DEVS)])
        namespace.batch(commands, family=family)
        namespace.settle()
        snapshot = namespace.snapshot()
        ways = [connection(namespace, family, address) for address in ASKED[family]]
    kinds = {"flannel.1": "vxlan"}
    links = tuple(link._replace(kind=kinds.get(link.name, "")) for link in snapshot.links)
    config = HostRoutingConfig(route_overlap=expect(PODS[family], expected_devs=["eth0"]))
    report = check_snapshot(snapshot._replace(links=links), config)
    event(report.verdict)
    for first, second in ways:
        assert report.verdict != "ok" or first == second, snapshot


def connection(namespace: Namespace, family: int, address: str) -> tuple[str, str]:
    first = answer(namespace, family, address)
    second = answer(namespace, family, address, "from", first["src"])
    return first["dev"], second["dev"]


def answer(namespace: Namespace, family: int, *words: str) -> dict[str, str]:
    done = namespace.ip(f"-{family}", "route", "get", *words)
    assert done.returncode == 0, done.stderr
    told = done.stdout.split()
    return dict(pairwise(told))
