"""`discover`, and what `check` proposes where nothing is installed."""

import json
from pathlib import Path

from hostrouting import Host
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.cli import say

AGENT = {
    "networking": {"dnsServiceIP": "10.0.0.10"},
    "hostRouting": {"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}},
}
NAMED = {"/etc/aks-flex-node/config.json": json.dumps(AGENT)}


def node(**texts: str) -> FakeHost:
    """An H200 node with these files."""
    return FakeHost(kernel=h200(), files=FakeFiles({**NAMED, **texts}))


def test_the_page() -> None:
    """The networks with their source, what is not known, and the command to check them."""
    said = say("discover", host=node(**{"/etc/cni/net.d/05.conf": "{"}), COLUMNS="200")
    assert (said.code, said.err) == (0, "")
    assert said.lines == [
        "The files of this host name these networks:",
        "  NETWORK        WHAT                   WHERE",
        "  172.16.0.0/16  expected by the agent  /etc/aks-flex-node/config.json: hostRouting.routeOverlap.expectedCidrs",
        "  10.0.0.10/32   services, a part       /etc/aks-flex-node/config.json: networking.dnsServiceIP",
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


def test_an_image(tmp_path: Path) -> None:
    """Without a kernel, the files of a root directory are read anyway."""
    (tmp_path / "etc/aks-flex-node").mkdir(parents=True)
    (tmp_path / "etc/aks-flex-node/config.json").write_text(json.dumps(AGENT))
    said = say("discover", "--json", host=Host.offline(str(tmp_path)))
    assert (said.code, said.json["expectedCidrs"]) == (0, ["172.16.0.0/16", "10.0.0.10/32"])


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
