"""The fakes: the contract suite on the fake kernel, faults, ready-made hosts and their files."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
from hostrouting.errors import BackendError, HostError, RequirementError
from hostrouting.host.host import Host
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.model.route import OURS, Route
from hostrouting.tasks.configure import Configure
from hostrouting.testing import (
    FakeFiles,
    FakeHost,
    FakeLinkLayer,
    FakeNftables,
    FaultyBackend,
    h200,
)
from hostrouting.testing.contract import BackendContract, contract_host
from hostrouting.testing.interpreter import FakeInterpreter
from tests.support.kinds import raises
from tests.support.tasks import config, run

CHANGES = [
    RouteRequest("add", Route.to(f"10.{number}.0.0/16", dev="eth0", protocol=OURS))
    for number in (8, 9)
]


class TestFakeKernel(BackendContract):
    """The contract on the fake kernel, in a backend that could fail, and does not."""

    @contextmanager
    def make(self) -> Iterator[RouteBackend]:
        with FaultyBackend(contract_host()) as backend:
            yield backend


def test_planned_changes() -> None:
    """A wait calls them until one changes something."""
    kernel, calls = h200(), list[str]()
    with kernel.watch() as watch:
        kernel.later(lambda: calls.append("nothing"))
        kernel.later(lambda: kernel.delete_link("ib0"))
        kernel.later(lambda: kernel.delete_link("ib1"))
        for is_changed, left in ((True, {"ib1"}), (True, set()), (False, set())):
            assert watch.wait(60) is is_changed
            assert {"ib0", "ib1"} & kernel.snapshot().links_by_name.keys() == left
        assert calls == ["nothing"]


# Faults: each happens once, at its moment.


def test_a_refusal_is_the_outcome_of_one_route() -> None:
    """An errno, or an error with a route, is an outcome, and the other routes are added."""
    no_buffer = "(kernel: No buffer space available)"
    error = BackendError("no", kind="refused", route="default")
    for given, words in ((errno.ENOBUFS, no_buffer), (error, "no")):
        backend = FaultyBackend(h200())
        backend.fail("change", given, nth=2)
        added, refused = backend.change(CHANGES)
        assert added.ok
        assert words in str(refused.error)
        assert backend.waiting == 0
        assert [outcome.ok for outcome in backend.change(CHANGES)] == [False, True]


@pytest.mark.parametrize("done", [False, True])
def test_an_error_of_no_route_stops_the_change(*, done: bool) -> None:
    """The routes after it are not tried; the one at which it came may be there."""
    backend = FaultyBackend(h200())
    backend.fail("change", BackendError("answers were lost"), done=done)
    with pytest.raises(BackendError, match="answers were lost"):
        backend.change(CHANGES)
    routes = [route for route in backend.snapshot().routes if route.protocol == OURS]
    assert routes == ([CHANGES[0].route] if done else [])


@pytest.mark.parametrize(("moment", "given"), [("snapshot", ()), ("lookup", ([],)), ("watch", ())])
def test_each_call_can_fail(moment: Any, given: tuple[Any, ...]) -> None:
    """It raises the error, once, after the acts of other programs, which come in their order."""
    backend, acts = FaultyBackend(h200()), list[str]()
    call = getattr(backend, moment)
    backend.meanwhile(moment, lambda: acts.append("first"))
    backend.meanwhile(moment, lambda: acts.append("second"))
    backend.fail(moment, errno.EBUSY)
    assert backend.waiting == 3
    with pytest.raises(BackendError, match=f"the kernel refused a {moment}"):
        call(*given)
    assert (acts, backend.waiting) == (["first", "second"], 0)
    call(*given)
    backend.is_restless = True
    assert backend.snapshot().restless


def test_what_the_other_fakes_hold() -> None:
    """What they were given; what is not ours, or cannot run, is refused."""
    nftables = FakeNftables()
    with raises(HostError, "refused"):
        nftables.load("flush ruleset")
    nftables.load("add table ip6 a\ndelete table ip6 a\ntable ip6 a {\n\n}\n")
    assert nftables.listing("a") == "table ip6 a {\n\n}\n"
    nftables.fault = HostError("nft is gone", what="nft")
    with pytest.raises(HostError, match="nft is gone"):
        nftables.listing("a")
    with pytest.raises(RequirementError, match="it is old"):
        FakeInterpreter(broken="it is old").compile("/usr/bin/python3", {})
    view = LinkLayerView(neighbours=(Neighbour("10.9.0.5", "02:00:00:00:00:05", "azure0"),))
    assert FakeLinkLayer(view).look() == view


# Hosts.


def test_an_image_has_the_files_of_a_real_one(tmp_path: Path) -> None:
    """The same task writes the same files and links into an image in memory and one on disk."""
    settings = config("10.9.0.0/16", cidrs=("172.16.0.0/16",))
    image, on_disk = FakeHost.image(), Host.offline(str(tmp_path))
    python = tmp_path / "usr/bin/python3"
    python.parent.mkdir(parents=True)
    python.touch()
    for host in (image, on_disk):
        run(Configure(settings, host=host))
    python.unlink()
    links: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    for path in tmp_path.rglob("*"):
        name = f"/{path.relative_to(tmp_path)}"
        if path.is_symlink():
            links[name] = str(path.readlink())
        elif path.is_file():
            contents[name] = path.read_bytes()
    files = (*image.files.texts, *image.files.programs)
    assert {name: image.files.read_bytes(name) for name in files} == contents
    assert image.files.links == links
    for name in links:
        assert image.files.look(name) == on_disk.files.look(name)
    assert str(image.kernel) == str(FakeHost.local().kernel)


def test_folders_that_refuse_files() -> None:
    """A folder that is broken, and what is in it, or a file; not neighbours with a similar name."""
    files = FakeFiles(broken={"/etc/systemd": "it is read-only"}, owners={"/etc/systemd-old": 1})
    files.broken["/etc/one"] = "it is a fifo"
    with pytest.raises(HostError, match="/etc/one: it is a fifo"):
        files.write("/etc/one", "text")
    files.write("/etc/systemd-old", "a file")
    assert not files.owners, "a file that was written is root's"
    for change in (files.write, files.link):
        with pytest.raises(HostError, match="/system/a: it is read-only"):
            change("/etc/systemd/system/a", "text")
        with pytest.raises(HostError, match="old/a: /etc/systemd-old is not a directory; remove"):
            change("/etc/systemd-old/a", "text")
    assert files.writes == ["/etc/systemd-old"]
