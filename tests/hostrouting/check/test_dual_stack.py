"""The story of an H200 node in both families, on a real kernel: the overlap is found, repaired and gone."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import phases
from hostrouting import CheckRouteOverlap, Configure, ConfigureStaticRoutes, Host, HostRoutingConfig, Remove
from hostrouting.check.examine import Examination
from hostrouting.check.report import repair_document
from hostrouting.errors import NotReady, RouteOverlapError
from hostrouting.model.route import OURS
from tests.support.commands import ports
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

NODE = [
    "link set lo up",
    *(
        line
        for dev, four, six in (
            ("eth0", "10.0.0.4/24", "2001:db8::4/64"),
            ("ib0", "172.16.1.10/16", "fd16::a/48"),
            ("ib1", "172.16.2.11/16", "fd16::b/48"),
        )
        for line in (*ports(dev), f"address add {four} dev {dev}", f"address add {six} dev {dev} nodad")
    ),
    "route add default via 10.0.0.1 dev eth0",
]
ADVERTISED = "-6 route add default via fe80::1 dev eth0 proto ra metric 1024 expires 1800"
CIDRS = ["172.16.0.0/16", "fd16::/48", "fd16:0:0:7::/64"]


def config(*, cidrs: list[str] = CIDRS, routes: list[dict[str, Any]] | None = None) -> HostRoutingConfig:
    """A check in STRICT, and these routes."""
    static = {"enabled": bool(routes), "routes": routes or []}
    return HostRoutingConfig(static, {"expectedCidrs": cidrs, "mode": "STRICT"})


@pytest.fixture
def node() -> Iterator[Namespace]:
    """An H200 node with both families, with a default route by router advertisement."""
    with private_namespace() as namespace:
        namespace.batch(NODE)
        namespace.run("ip", *ADVERTISED.split())
        yield namespace


def overlap_on(host: Host, wanted: HostRoutingConfig) -> Examination:
    """The findings of a check that fails."""
    [failure] = phases.run(CheckRouteOverlap(wanted, host=host, wait=0.1), observers=[]).failures
    assert isinstance(failure.error, RouteOverlapError), failure.error
    assert isinstance(failure.error.report, Examination)
    return failure.error.report


def test_found_and_repaired(node: Namespace, tmp_path: Path) -> None:
    """Each family has its findings and its repair: in IPv6 one route with a lower metric, in IPv4 two halves."""
    host, before = Host.sandbox(str(tmp_path), netns=node.path), node.routes(4)
    found = overlap_on(host, config())
    assert [(family.verdict, family.surprises) for family in found.families] == [("overlap", ()), ("overlap", ())]
    assert [str(route) for route in found.routes] == ["172.16.0.0/17", "172.16.128.0/17", "fd16::/48 metric 1"]
    repaired = config(routes=repair_document(found.routes))
    report = phases.run(Configure(repaired, host=host), observers=[])
    assert report.ok, str(report)
    assert [route for route in node.routes(4) if route.protocol != OURS] == list(before)
    assert len([route for route in (*node.routes(4), *node.routes(6)) if route.protocol == OURS]) == 3
    for address in ("fd16::99", "fd16:0:0:7::1"):
        assert "dev eth0" in node.run("ip", "-6", "route", "get", address).stdout
    assert Configure(repaired, host=host).plan().is_empty
    assert phases.run(Remove(host=host), observers=[]).ok
    assert not [route for route in (*node.routes(4), *node.routes(6)) if route.protocol == OURS]


def test_what_is_left_open_comes_from_the_default_route(node: Namespace, tmp_path: Path) -> None:
    """Without a gateway and a device, an IPv6 route gets those of the advertised default route."""
    host = Host.sandbox(str(tmp_path), netns=node.path)
    routes: list[dict[str, Any]] = [{"destination": "fd16::/49"}, {"destination": "172.16.0.0/17"}]
    assert phases.run(ConfigureStaticRoutes(config(routes=routes), host=host), observers=[]).ok
    assert {
        (str(route.prefix), str(route.legs[0].gateway))
        for route in (*node.routes(4), *node.routes(6))
        if route.protocol == OURS
    } == {("fd16::/49", "fe80::1"), ("172.16.0.0/17", "10.0.0.1")}


def test_awaited(node: Namespace, tmp_path: Path) -> None:
    """A missing advertised default route is awaited; at the deadline the message names it."""
    node.run("ip", "-6", "route", "del", "default")
    host = Host.sandbox(str(tmp_path), netns=node.path)
    wanted = config(cidrs=["fd16::/48"], routes=[{"destination": "fd16::/49"}])
    [failure] = phases.run(ConfigureStaticRoutes(wanted, host=host, wait=0.1), observers=[]).failures
    assert isinstance(failure.error, NotReady)
    assert "fd16::/49: waiting for an IPv6 default route" in str(failure.error)
    found = overlap_on(host, config(cidrs=["fd16::/48"]))
    assert found.verdict == "no-default-route"


def test_verdicts_of_their_own(node: Namespace, tmp_path: Path) -> None:
    """One family may be fine while the other one is not."""
    host = Host.sandbox(str(tmp_path), netns=node.path)
    found = overlap_on(host, config(cidrs=["10.9.0.0/16", "fd16::/64"]))
    assert [family.verdict for family in found.families] == ["ok", "overlap"]
    found = overlap_on(host, config(cidrs=["172.16.0.0/16", "2001:db9::/32"]))
    assert [family.verdict for family in found.families] == ["overlap", "ok"]
    # The verdict holds until the advertised default route expires.
    assert [1700 < remark.facts["seconds"] <= 1800 for remark in found.families[1].report.remarks] == [True]
    assert found.families[0].report.remarks == ()


RADVD = """interface router {
  AdvSendAdvert on;
  MinRtrAdvInterval 3;
  MaxRtrAdvInterval 4;
  AdvDefaultLifetime 600;
};
"""


@contextmanager
def router(folder: Path) -> Iterator[tuple[Namespace, threading.Event]]:
    """A node whose default route is advertised by a real radvd, once the event is set."""
    with private_namespace() as node, private_namespace() as other:
        pid = other.path.split("/")[2]
        node.batch(
            [
                "link set lo up",
                f"link add eth0 type veth peer name router netns {pid}",
                "link add ib0 type veth peer name far",
                "link set eth0 up",
                "link set ib0 up",
                "link set far up",
                "address add fd16::a/48 dev ib0 nodad",
            ]
        )
        other.batch(["link set lo up", "link set router up"])
        other.sysctl("ipv6/conf/all/forwarding", 1)
        (folder / "radvd.conf").write_text(RADVD)
        began, ended = threading.Event(), threading.Event()

        def advertise() -> None:
            began.wait(60)
            words = ["radvd", "--nodaemon", "--config", str(folder / "radvd.conf"), "--pidfile", str(folder / "pid")]
            with subprocess.Popen([*other.enter, *words, "--logmethod", "stderr"], stderr=subprocess.DEVNULL) as radvd:
                ended.wait(60)
                radvd.terminate()

        thread = threading.Thread(target=advertise)
        thread.start()
        try:
            yield node, began
        finally:
            began.set()
            ended.set()
            thread.join()


@pytest.mark.needs("radvd")
def test_a_router_that_advertises_itself(tmp_path: Path) -> None:
    """The default route of a real router advertisement is awaited, and its gateway and device are used."""
    with router(tmp_path) as (node, began):
        host = Host.sandbox(str(tmp_path), netns=node.path)
        wanted = config(cidrs=["fd16::/49"], routes=[{"destination": "fd16::/49"}])
        task = phases.task("advertise")(lambda _ctx: began.set())
        together = phases.parallel(task, ConfigureStaticRoutes(wanted, host=host, wait=30))
        report = phases.run(together, observers=[])
        assert report.ok, str(report)
        [route] = [it for it in node.routes(6) if it.protocol == OURS]
        [default] = [it for it in node.routes(6) if it.prefix.length == 0]
        assert route.legs == default.legs
        assert default.expires is not None
        assert str(route.legs[0].gateway).startswith("fe80::")
        answer = node.run("ip", "-6", "route", "get", "fd16::5").stdout
        assert "dev eth0" in answer
        assert phases.run(CheckRouteOverlap(wanted, host=host), observers=[]).ok
