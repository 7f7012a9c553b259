"""Host.sandbox: the real kernel in a network namespace and files below a directory, isolated from this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import hostrouting.host.sandbox
import phases
from hostrouting import Configure, Host, HostRoutingConfig, Remove
from hostrouting.model.route import OURS
from tests.support.commands import ports
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

NODE = [
    "link set lo up",
    *ports("eth0"),
    "address add 10.0.0.4/24 dev eth0",
    "address add 2001:db8::4/64 dev eth0 nodad",
    "route add default via 10.0.0.1 dev eth0",
]
CONFIG = HostRoutingConfig(
    {"enabled": True, "routes": [{"destination": "172.16.0.0/16"}]}, {"expectedCidrs": ["172.16.0.0/16"]}
)


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A namespace with one uplink."""
    with private_namespace() as namespace:
        namespace.batch(NODE)
        with namespace.inside():
            yield namespace


def test_routes_and_files(node: Namespace, tmp_path: Path) -> None:
    """Routes are added in the namespace and files below the root; Remove deletes both."""
    host = Host.sandbox(str(tmp_path))
    report = phases.run(Configure(CONFIG, host=host), observers=[])
    assert report.ok, str(report)
    assert [str(route.prefix) for route in node.routes(4) if route.protocol == OURS] == ["172.16.0.0/16"]
    assert (tmp_path / "etc/hostrouting/gate.d/10-static-routes.sh").exists()
    assert phases.run(Remove(host=host), observers=[]).ok
    assert [route for route in node.routes(4) if route.protocol == OURS] == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_settings_of_the_namespace(node: Namespace, tmp_path: Path) -> None:
    """Files under /proc are those of the namespace."""
    files = Host.sandbox(str(tmp_path)).files
    for value in (1, 0):
        node.sysctl("ipv6/conf/eth0/accept_ra", value)
        assert files.read(f"{tmp_path}/proc/sys/net/ipv6/conf/eth0/accept_ra") == f"{value}\n"
    assert "20010db8000000000000000000000004" in (files.read(f"{tmp_path}/proc/self/net/if_inet6") or "")
    assert files.read(f"{tmp_path}/proc/sys/net/ipv6/conf/nowhere/accept_ra") is None


@pytest.mark.needs("nft")
def test_nftables_of_the_namespace(node: Namespace, tmp_path: Path) -> None:
    """The probe rewrite loads its table in the namespace, and reports the state there."""
    host = Host.sandbox(str(tmp_path))
    wanted = HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": ["eth0"]})
    report = phases.run(Configure(wanted, host=host), observers=[])
    assert report.ok, str(report)
    assert "table ip6 hostrouting_slb" in node.run("nft", "list", "tables").stdout
    assert host.nftables is not None
    assert host.nftables().listing("hostrouting_slb")


def test_this_machines_own_network_is_refused(node: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace of this machine's first process is refused."""
    monkeypatch.setattr(hostrouting.host.sandbox, "_MACHINE", node.path)
    with pytest.raises(ValueError, match="this is the host's own network; enter another one: ip netns exec"):
        Host.sandbox(str(tmp_path))


@pytest.mark.parametrize("root", ["/", "//", "/no-such-directory"])
@pytest.mark.usefixtures("node")
def test_this_machines_own_files_are_refused(root: str) -> None:
    """The root must be an existing directory, and not this machine's own root."""
    with pytest.raises(ValueError, match=f"root: '{root}' is not a directory below /"):
        Host.sandbox(root)
