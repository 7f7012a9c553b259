"""Next hop objects: how they are read, and the error if pyroute2 cannot be loaded."""

import struct
import sys
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink import read as nexthops
from hostrouting.kernel.netlink.read import read_nexthops
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.snapshot import Link
from tests.support.commands import furnish
from tests.support.namespace import private_namespace
from tests.support.rawmessages import pack_attribute

NAMES = {3: "eth0"}


def nexthop(*attributes: tuple[int, bytes], flags: int = 0) -> bytes:
    """A message about one, with these attributes (NHA_…)."""
    said = struct.pack("=4BI", 2, 0, 0, 0, flags) + b"".join(pack_attribute(*one) for one in attributes)
    return struct.pack("=IHHII", 16 + len(said), 104, 2, 1, 0) + said


def number(value: int) -> bytes:
    """A number as an attribute has it."""
    return struct.pack("=I", value)


SINGLE = nexthop((1, number(5)), (5, number(3)))


def test_heavy_members_of_a_group() -> None:
    """The weight of a member of a group has two bytes, low and high, on any machine."""
    members = struct.pack("=I", 5) + bytes([0x2B, 0x01, 0, 0])
    assert [leg.weight for leg in read_nexthops([SINGLE, nexthop((1, number(7)), (2, members))], NAMES)[7]] == [300]


@pytest.mark.parametrize("gateway", [None, "10.0.0.9", "fe80::9"])
def test_all_that_is_said_of_a_leg(gateway: str | None) -> None:
    """The device of a leg, its gateway of either family, and its state; unknown attributes are skipped."""
    hop = None if gateway is None else as_ip(gateway)
    said = [] if hop is None else [(6, hop.packed)]
    message = nexthop((1, number(5)), (4711, number(1)), (5, number(3)), *said, flags=0x14)
    assert read_nexthops([message], NAMES) == {5: (NextHop("eth0", gateway=hop, onlink=True, linkdown=True),)}


@pytest.fixture(params=["missing", "broken", "other"])
def no_pyroute2(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """pyroute2 is missing, or fails to load, or is a different package of that name; return what is wrong."""
    for name in [*sys.modules]:
        if name.split(".")[0] == "pyroute2":
            monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "pyroute2"
    package.mkdir()
    if request.param == "missing":
        monkeypatch.setitem(sys.modules, "pyroute2", None)
        words = "ModuleNotFoundError: "
    elif request.param == "broken":
        (package / "__init__.py").write_text("raise OSError('no such library')")
        words = "OSError: no such library"
    else:
        (package / "__init__.py").write_text("")
        (package / "netlink.py").write_text("")
        words = "AttributeError: "
    monkeypatch.syspath_prepend(tmp_path)
    nexthops._message_class.cache_clear()  # noqa: SLF001 RUF100
    yield words
    for name in [*sys.modules]:
        if name.split(".")[0] == "pyroute2":
            del sys.modules[name]  # the one that is none; monkeypatch brings back what was there
    nexthops._message_class.cache_clear()  # noqa: SLF001 RUF100


class TestWithoutPyroute2:
    """If pyroute2 cannot be loaded, the error says so."""

    def test_next_hop_objects_cannot_be_read(self, no_pyroute2: str) -> None:
        """The error names what is missing, why, and how to install it; without objects there is no error."""
        assert read_nexthops([], NAMES) == {}
        with pytest.raises(BackendError, match="pyroute2, which reads them, cannot be loaded") as caught:
            read_nexthops([SINGLE], NAMES)
        assert f"({no_pyroute2}" in str(caught.value)
        [requirement] = [it for it in requires("hostrouting") or () if it.startswith("pyroute2")]
        assert str(caught.value).endswith(f"; install it with `pip install '{requirement}'`")

    @pytest.mark.linux
    @pytest.mark.needs("root")
    def test_all_else_goes_on(self, no_pyroute2: str) -> None:
        """Without pyroute2, routes are read, changed and looked up, unless the kernel only gives an object's number."""
        assert no_pyroute2
        with private_namespace() as namespace:
            furnish(namespace, (Link(name="eth0", index=0),), set())
            legs = (NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("eth0", gateway=as_ip("10.0.0.2"), weight=3))
            route = Route(Prefix.parse("1.0.0.0/8"), legs, protocol=213, mtu=1400)
            with NetlinkBackend(netns=namespace.path) as backend:
                assert backend.change([RouteRequest("add", route)])[0].ok
                assert list(backend.snapshot(protocol=213).routes) == [route]
                assert backend.lookup([as_ip("1.2.3.4")])[0].route == route
                assert backend.change([RouteRequest("delete", route)])[0].ok
                namespace.batch(["nexthop add id 5 via 10.0.0.9 dev eth0", "route add 9.0.0.0/8 nhid 5"])
                # By default the kernel includes the next hops; the object is only needed if that was turned off.
                assert [it.devs for it in backend.snapshot().routes if it.nexthop_id == 5] == [("eth0",)]
                namespace.sysctl("ipv4/nexthop_compat_mode", 0)
                with pytest.raises(BackendError, match="pyroute2"):
                    backend.snapshot()
