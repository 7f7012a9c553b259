"""`discover`, and what `check` proposes where nothing is installed."""

import json
from pathlib import Path

import phases
from hostrouting import Configure, Host, HostRoutingConfig
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.cli import say

AGENT = {
    "networking": {"dnsServiceIP": "10.0.0.10"},
    "hostRouting": {"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}},
}
NAMED = {"/etc/aks-flex-node/config.json": json.dumps(AGENT), "/etc/resolv.conf": "nameserver 172.16.0.10\n"}


def node(**texts: str) -> FakeHost:
    """An H200 node with these files."""
    return FakeHost(kernel=h200(), files=FakeFiles({**NAMED, **texts}))


def test_the_page() -> None:
    """The networks with their source, what is lost, what is not known, and the command to check them."""
    said = say("discover", host=node(**{"/etc/cni/net.d/05.conf": "{"}), COLUMNS="200")
    assert (said.code, said.err) == (0, "")
    assert said.lines == [
        "The files of this host name these networks:",
        "  NETWORK        WHAT                   WHERE",
        "  172.16.0.0/16  expected by the agent  /etc/aks-flex-node/config.json: hostRouting.routeOverlap.expectedCidrs",
        "  10.0.0.10/32   services, a part       /etc/aks-flex-node/config.json: networking.dnsServiceIP",
        "172.16.0.10, the name server in /etc/resolv.conf, is in 172.16.0.0/16 and escapes: leaves by ib0",
        "",
        "No file here names the following. With access to the cluster, ask:",
        "  WHAT                 COMMAND",
        "  pods of the cluster  kubectl get nodes -o jsonpath='{.items[*].spec.podCIDRs}'",
        "  all services         kubectl get servicecidrs",
        "  API server           kubectl get endpointslices -l kubernetes.io/service-name=kubernetes",
        "",
        "Not used:",
        "  /etc/cni/net.d/05.conf is not JSON",
        "",
        "To check them: hostrouting check 172.16.0.0/16 10.0.0.10/32",
    ]


def test_a_gateway_that_is_lost() -> None:
    """A gateway counts like a name server, but not on the device of its own route."""
    kernel = h200()
    for dev, gateway in (("eth0", "172.16.0.1"), ("ib0", "172.16.0.254")):
        hop = NextHop(dev, gateway=as_ip(gateway), onlink=True)
        kernel.ip_route("append", Route(Prefix.parse("0.0.0.0/0"), (hop,), metric=950))
    lost = say("discover", "--json", host=FakeHost(kernel=kernel, files=FakeFiles(NAMED))).json["lost"]
    assert [(it["address"], it["role"]) for it in lost] == [
        ("172.16.0.10", "the name server in /etc/resolv.conf"),
        ("172.16.0.1", "the gateway of the default route by eth0"),
    ]


def test_by_the_installed_configuration() -> None:
    """Devices that the installed configuration expects are right. Kills: the default devices."""
    config = HostRoutingConfig(route_overlap={"expectedCidrs": ["172.16.0.0/16"], "expectedDevs": ["ib0"]})
    host = node()
    phases.execute(Configure(config, host=host), phases.Context(observers=[]))
    assert say("discover", "--json", host=host).json["lost"] == []


def test_without_a_default_route() -> None:
    """Then the expected devices are not known, and so what is lost is not known either. Kills: `lost: []`."""
    host = node()
    host.kernel.ip_route("delete", next(it for it in host.kernel.snapshot().routes if not it.prefix.length))
    assert say("discover", "--json", host=host).json["lost"] is None
    assert any("is not known: there is no default route" in text for text in say("discover", host=host).lines)


def test_an_image(tmp_path: Path) -> None:
    """Without a kernel, the files of a root directory are read anyway."""
    (tmp_path / "etc/aks-flex-node").mkdir(parents=True)
    (tmp_path / "etc/aks-flex-node/config.json").write_text(json.dumps(AGENT))
    said = say("discover", "--json", host=Host.offline(str(tmp_path)))
    assert (said.code, said.json["expectedCidrs"], said.json["lost"]) == (0, ["172.16.0.0/16", "10.0.0.10/32"], None)


def test_without_netlink() -> None:
    """The proposal is there anyway, and what is lost is not known. Kills: an error in its place; `lost: []`."""
    host = node()
    host.kernel.faults.fail("snapshot", 5)
    said = say("discover", host=host)
    assert (said.code, said.lines[-1]) == (0, "To check them: hostrouting check 172.16.0.0/16 10.0.0.10/32")
    assert [text for text in said.lines if text.startswith("Whether a name server or gateway escapes is not known: ")]
    host.kernel.faults.fail("snapshot", 5)
    assert say("discover", "--json", host=host).json["lost"] is None


def test_nothing() -> None:
    """A host whose files name no network fails, and still says whom to ask."""
    said = say("discover", kernel=h200())
    assert (said.code, said.lines[0]) == (1, "No file of this host names a network of the cluster.")
    assert said.lines[-1] == "To check them: hostrouting check CIDR"


def test_check_without_arguments() -> None:
    """If nothing is installed, the fault of `check` has the command line with the networks that files name."""
    for word in ("check", "repair"):
        said = say(word, host=node())
        assert (said.code, said.out) == (2, "")
        assert "the files of this host name some: hostrouting check 172.16.0.0/16 10.0.0.10/32" in said.err
    assert "name one, such as 172.16.0.0/16" in say("check", kernel=h200()).err
