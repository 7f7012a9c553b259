"""The fakes: the contract suite on the fake kernel, faults, ready-made hosts and their files."""

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import phases
from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.sentences import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, ConfigError, HostError, exit_code
from hostrouting.fib.engine import Fib
from hostrouting.fleet import check_snapshots, group_nodes
from hostrouting.host.host import Host
from hostrouting.install.plan import Plan
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest
from hostrouting.kernel.rights import Rights
from hostrouting.model.prefix import IP
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Link
from hostrouting.reading import read, register
from hostrouting.status import Status, find_status, metric_lines
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.overlap_check import CheckResult
from hostrouting.testing import (
    FakeFiles,
    FakeHost,
    FakeKernel,
    FakeManager,
    FaultyBackend,
    h200,
    plain_vm,
)
from hostrouting.testing.azure_vnet import FakeEbtables
from hostrouting.testing.contract import BackendContract, contract_host
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
        """The fake kernel of the suite."""
        with FaultyBackend(contract_host()) as backend:
            yield backend


# Mistakes of a test.


def failing_with_a_text() -> None:
    """Start a unit that logs a text in the place of lines."""
    manager = FakeManager()
    lines: Any = "no certificate"
    manager.failing["a.service"] = lines
    manager.start("a.service", timeout=1)


def failing_twice() -> None:
    """Give two errors to one call."""
    backend = FaultyBackend(h200())
    backend.fail("change", errno.ENOBUFS, nth=2)
    backend.change(CHANGES[:1])
    backend.fail("change", errno.EBUSY)


def fault(*given: Any, **named: Any) -> Callable[[], object]:
    """Set this fault."""
    return lambda: FaultyBackend(h200()).fail(*given, **named)


def part(**parts: Any) -> Callable[[], object]:
    """Make a host with these parts."""
    return lambda: FakeHost(**parts)


ANYTHING: Any = None
TEXT: Any = "60"
CONFIG = HostRoutingConfig.from_mapping({"routeOverlap": {"expectedCidrs": ["172.16.64.0/24"]}})


def untyped(value: object) -> Any:
    """The value, for a call that a type checker would refuse."""
    return value


MISTAKES: dict[str, Callable[[], object]] = {
    r"kernel is <function h200 .*; it must be a FakeKernel, such as h200\(\)": part(kernel=h200),
    r"files is {'/etc/a': ''}; it must be FakeFiles\(texts={…}\)": part(files={"/etc/a": ""}),
    "manager is <class .*; it must be a FakeManager, or None": part(manager=FakeManager),
    "interpreter is 'no json'; it must be a FakeInterpreter": part(interpreter="no json"),
    "backend must be a function that connects, not a FakeKernel": part(backend=h200()),
    "rights is Rights.*; it must be a function: lambda: Rights": part(rights=Rights()),
    r"missing is \['zzz'\]; .* programs that hostrouting needs: bash, nft": part(missing=["zzz"]),
    "missing is 'nft'; it must be a collection": part(missing="nft"),
    r"names is 'Id'; it must be a tuple of properties: \('Id": lambda: FakeManager().show("Id"),
    r"failing\['a.service'\] is 'no certificate'; it must be the lines": failing_with_a_text,
    "timeout is '60'; it must be a number": lambda: FakeManager().start("a", timeout=TEXT),
    r"error is OSError\('x'\); it must be a BackendError or an errno": fault(
        "change", OSError("x")
    ),
    "moment is 'chnage'; it must be one of change, snapshot, lookup, watch": fault("chnage", 5),
    "nth is 0; it must be a whole number, 1 or more": fault("change", 5, nth=0),
    "nth is 1, and that call has an error already": failing_twice,
    "happening is None; it must be a function": lambda: h200().later(ANYTHING),
    "happening is None; it must be a funct": lambda: FaultyBackend(h200()).meanwhile(
        "change", ANYTHING
    ),
    "exit_code: outcome is None; it must be the report": lambda: exit_code(ANYTHING),
    "metric_lines: status is .*; it must be a Status": lambda: next(metric_lines(TEXT)),
    "find_status: host is '60'; it must be a Host": lambda: find_status(TEXT),
    "there is no property 'ActivState'; did you mean ActiveS": lambda: FakeManager().show(
        ("ActivState",), "a"
    ),
    "there is no property 'Result '; did you mean Result": lambda: FakeManager(
        properties={"a": {"Result ": ""}}
    ).show(("Id",), "a"),
    "unit is ''; it must be the name of a unit": lambda: FakeManager().start("", timeout=5),
    "content is None; it must be a str": lambda: FakeFiles().write("/a", ANYTHING),
    "path is 'etc/a'; it must be a str that begins": lambda: FakeFiles({"etc/a": ""}).write(
        "/a", ""
    ),
    "path is '/a/../b'; write its shortest form, '/b'": lambda: FakeFiles().read("/a/../b"),
    "path is '/a//b/'; write its shortest form, '/a/b'": lambda: FakeFiles().remove("/a//b/"),
    "add link eth9:1.*: a name has 1 to 15 bytes": lambda: h200().add_link("eth9:1"),
    "add link a/b.*: a name has": lambda: h200().add_link("a/b"),
    "add link a b.*: a name has": lambda: h200().add_link("a b"),
    r"add link \.\. .*: a name has": lambda: h200().add_link(".."),
    "add link .*: a name has": lambda: h200().add_link(""),
    "add link ä{8}.*: a name has": lambda: h200().add_link("ä" * 8),
    "a plan is always true; write `plan.is_empty`, or": lambda: bool(Plan()),
    "a result is always true; write `result.changed`": lambda: bool(CheckResult()),
    "an outcome is always true; write `outcome.ok`": lambda: bool(Outcome(CHANGES[0])),
    "a status is always true; write `status.matches`": lambda: bool(Status()),
    "--snapshots: names no directory": lambda: check_snapshots([], CONFIG, ThreadPoolExecutor()),
    "error is 0; it must be a BackendError or an errno": fault("change", 0),
    "faults is around another kernel; give that": lambda: FakeHost(
        kernel=h200(), faults=FaultyBackend(h200())
    ),
    "read: cls is {}; it must be a class": lambda: read(untyped({}), Route),
    "states.'a.service'. is 'Active'; it must be one of active, reload": lambda: FakeManager(
        states={"a": "Active"}
    ).start("a", timeout=1),
    "running is 'no'; it must be True": lambda: FakeManager(running=untyped("no")).reload(),
    "ActiveState is a property of a unit; name it": lambda: FakeManager().show(("ActiveState",)),
    "Route.to: type is '60'; it must be one of unspec": lambda: Route.to("::/0", type=TEXT),
    "rules is '60'; it must be a list of texts": lambda: FakeEbtables(TEXT),
    "rule '-A PREROUTING -j DROP' is not a chain and": FakeEbtables(
        ["-A PREROUTING -j DROP"]
    ).list_rules,
    "rule 'garbage' is not a chain and options": FakeEbtables(["garbage"]).list_rules,
    "register: reader is <class 'float'>; it must be a function": lambda: register(float, float),
    "register: kind is <built-in function repr>; it must be a type": lambda: register(repr, repr),
    "config is '60'; it must be a HostRoutingConfig": lambda: check_snapshot(
        h200().snapshot(), TEXT
    ),
    "snapshot is <.*FakeKernel .*; it must be a Snapshot": lambda: check_snapshot(
        untyped(h200()), CONFIG
    ),
    "backend is FakeHost.*; it must be a connected": lambda: check_kernel(
        untyped(FakeHost()), CONFIG
    ),
    "report is '60'; it must be a CheckReport": lambda: check_findings(TEXT),
    "executor is <class .*; it must be an executor": lambda: check_snapshots(
        ["nodes"], CONFIG, untyped(ThreadPoolExecutor)
    ),
    "results: there are none, or they were taken before": lambda: group_nodes(iter(())),
    "Route.to: table is '60'; it must be a number": lambda: Route.to("10.9.0.0/16", table=TEXT),
    "faults is '60'; it must be a list": lambda: ConfigError(TEXT),
    "mode is 600; it must be from 0 to 0o777": lambda: FakeFiles().write("/a", "", mode=600),
    "kind is 'timeuot'; it must be one of": lambda: BackendError("x", kind="timeuot"),
    r"^directories is 'nodes'; .*: \[directory\]$": lambda: check_snapshots(
        "nodes", HostRoutingConfig(), ANYTHING
    ),
    "verb is '60'; it must be add, ": lambda: h200().ip_route(TEXT, CHANGES[0].route),
    r"route is '60'; it must be a Route: Route.to\(": lambda: h200().ip_route("add", TEXT),
    r"override make\(\)": lambda: BackendContract().test_snapshot_has_the_rules(),
    "abstract methods.*change.*close.*lookup.*snapshot.*watch": type("L", (RouteBackend,), {}),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake(said: str) -> None:
    """It is refused where it is made: the test would prove nothing, or fail elsewhere."""
    with pytest.raises((TypeError, ValueError, NotImplementedError, BackendError), match=said):
        MISTAKES[said]()


# The fake kernel.


def test_the_number_of_a_device() -> None:
    """The one that is given, or else the next free one."""
    kernel = FakeKernel()
    given, next_one = kernel.add_link(Link("eth0", 70)), kernel.add_link("eth1")
    assert (given.index, next_one.index) == (70, 71)


def test_planned_changes() -> None:
    """A wait calls the planned functions until one changes something; then the next wait goes on.
    A watch that was closed waits no more.
    """
    kernel, calls = h200(), list[str]()
    with kernel.watch() as watch:
        kernel.later(lambda: calls.append("nothing"))
        kernel.later(lambda: kernel.delete_link("ib0"))
        kernel.later(lambda: kernel.delete_link("ib1"))
        for is_changed, left in ((True, {"ib1"}), (True, set()), (False, set())):
            assert watch.wait(60) is is_changed
            assert {"ib0", "ib1"} & kernel.snapshot().links_by_name.keys() == left
        assert calls == ["nothing"]
    with raises(BackendError, "unusable", match="the watch was closed"):
        watch.wait(0)


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


CALLS: list[tuple[str, Callable[[FaultyBackend], object]]] = [
    ("snapshot", FaultyBackend.snapshot),
    ("lookup", lambda backend: backend.lookup([])),
    ("lookup", lambda backend: backend.sources([])),
    ("watch", FaultyBackend.watch),
]


@pytest.mark.parametrize(("moment", "call"), CALLS, ids=range(4))
def test_each_call_can_fail(moment: Any, call: Callable[[FaultyBackend], object]) -> None:
    """It raises the error, once, after the acts of other programs, which come in their order."""
    backend, acts = FaultyBackend(h200()), list[str]()
    backend.meanwhile(moment, lambda: acts.append("first"))
    backend.meanwhile(moment, lambda: acts.append("second"))
    backend.fail(moment, errno.EBUSY)
    assert backend.waiting == 3
    with pytest.raises(BackendError, match=f"the kernel refused a {moment}"):
        call(backend)
    assert acts == ["first", "second"]
    assert backend.waiting == 0
    call(backend)
    backend.is_restless = True
    assert backend.snapshot().restless


class Forgetful(FaultyBackend):
    """A backend of somebody else that does its work, and leaves the first outcome out."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        return super().change(requests)[1:]


class Silent(FaultyBackend):
    """One that answers nothing."""

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """See RouteBackend."""
        return super().lookup(destinations)[:0]


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (Forgetful(h200()), "change returned 1 of 2 answers"),
        (Silent(h200()), "lookup returned 0 of 1 answers"),
    ],
)
def test_a_backend_with_too_few_answers(backend: FaultyBackend, said: str) -> None:
    """The call is named, and no route is left that nobody knows of."""
    wanted = config("10.9.0.0/16", "10.10.0.0/16", cidrs=("10.9.0.0/16",))
    before = backend.inner.snapshot()
    host = FakeHost(backend=lambda: nullcontext(backend))
    report = phases.run(Configure(wanted, host=host), undo_on_failure=True, observers=[])
    assert not report.ok
    assert said in str(report.failures[0].error)
    assert backend.inner.snapshot() == before


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
    links: set[str] = set()
    contents: dict[str, bytes] = {}
    for path in tmp_path.rglob("*"):
        name = f"/{path.relative_to(tmp_path)}"
        if path.is_symlink():
            links.add(name)
        elif path.is_file():
            contents[name] = path.read_bytes()
    assert {name: image.files.read_bytes(name) for name in contents} == contents
    assert {*image.files.texts, *image.files.programs} == {*contents}
    assert {*image.files.links} == links
    assert str(image.kernel) == str(FakeHost.local().kernel)


@pytest.mark.parametrize("make", [plain_vm, h200])
def test_the_ready_made_hosts(make: Callable[[], FakeKernel]) -> None:
    """Each leaves by eth0. Nodes of Kubernetes forward: otherwise nothing would be expected of the
    packets of pods.
    """
    snapshot = make().snapshot()
    default = "default via 10.0.0.1 dev eth0 proto dhcp metric 100"
    assert str(Fib(snapshot, 4).lookup("192.0.2.1").route) == default
    assert snapshot.ipv6_forwarding is True


def test_folders_that_refuse_files() -> None:
    """A folder that is broken, and what is in it, or a file; not neighbours with a similar name."""
    files = FakeFiles(broken={"/etc/systemd": "it is read-only"})
    reasons = {
        "/etc": "",
        "/etc/systemd": "it is read-only",
        "/etc/systemd/system": "it is read-only",
        "/etc/systemd-old": "",
    }
    for folder, reason in reasons.items():
        assert files.why_unwritable(folder) == reason
    files.broken["/etc/one"] = "it is a fifo"
    with pytest.raises(HostError, match="/etc/one: it is a fifo"):
        files.write("/etc/one", "text")
    files.write("/etc/systemd-old", "a file")
    for change in (files.write, files.link):
        with pytest.raises(HostError, match="/system/a: it is read-only"):
            change("/etc/systemd/system/a", "text")
        with pytest.raises(HostError, match="old/a: /etc/systemd-old is not a directory; remove"):
            change("/etc/systemd-old/a", "text")
    assert files.writes == ["/etc/systemd-old"]


def test_a_program_that_is_missing() -> None:
    """A host has the programs that a test does not take away."""
    host = FakeHost(missing=["nft"])
    assert (host.has_program("nft"), host.has_program("bash")) == (False, True)
