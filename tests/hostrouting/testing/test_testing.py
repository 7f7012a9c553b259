"""hostrouting.testing: the ready-made hosts are as described, the plugin can be enabled, and little
is imported.
"""

import errno
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.fib.engine import Fib
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import Manager, SystemdManager
from hostrouting.kernel.base import Answer, Outcome, RouteRequest
from hostrouting.kernel.programs import Ended
from hostrouting.kernel.rights import Rights
from hostrouting.model.prefix import IP
from hostrouting.tasks.configure import Configure
from hostrouting.testing import (
    FakeFiles,
    FakeHost,
    FakeKernel,
    FakeManager,
    FaultyBackend,
    cni_node,
    ecmp_node,
    h200,
    plain_vm,
    vpn_node,
)
from phases.testing import FakeClock
from tests.support.programs import completed
from tests.support.tasks import config, run

NO_SYSTEMD = (
    "System has not been booted with systemd as init system (PID 1). Can't operate.\n"
    "Failed to connect to bus: Host is down\n"
)
"""What systemctl prints where systemd does not run."""


def test_an_image_has_the_files_of_a_real_one(tmp_path: Path) -> None:
    """The same task writes the same files and links into an image in memory
    and into one on disk.
    """
    settings = config("10.9.0.0/16", cidrs=("172.16.0.0/16",))
    image = FakeHost.image()
    run(Configure(settings, host=image))
    python = tmp_path / "usr/bin/python3"
    python.parent.mkdir(parents=True)
    python.touch()
    run(Configure(settings, host=Host.offline(str(tmp_path))))
    python.unlink()
    real = {
        f"/{path.relative_to(tmp_path)}": path
        for path in tmp_path.rglob("*")
        if path.is_symlink() or path.is_file()
    }
    contents = {name: path.read_bytes() for name, path in real.items() if not path.is_symlink()}
    assert {name: image.files.read_bytes(name) for name in contents} == contents
    assert {*image.files.texts, *image.files.programs} == {*contents}
    assert {*image.files.links} == {*real} - {*contents}
    assert str(image.kernel) == str(FakeHost.local().kernel)


BY_ETH0 = "default via 10.0.0.1 dev eth0 proto dhcp metric 100"
BY_BOTH = (
    "default proto static nexthop via 10.0.0.1 dev eth0 weight 1 "
    "nexthop via 10.1.0.1 dev eth1 weight 1"
)
BY_CNI0 = "10.244.0.0/24 dev cni0 proto kernel scope link src 10.244.0.1"


@pytest.mark.parametrize(
    ("make", "address", "route"),
    [
        pytest.param(plain_vm, "192.0.2.1", BY_ETH0, id="plain VM"),
        pytest.param(h200, "192.0.2.1", BY_ETH0, id="H200"),
        pytest.param(ecmp_node, "192.0.2.1", BY_BOTH, id="two uplinks"),
        pytest.param(cni_node, "10.244.0.9", BY_CNI0, id="its pods"),
        pytest.param(
            cni_node,
            "10.244.2.9",
            "10.244.2.0/24 via 10.0.0.6 dev eth0 proto unspec",
            id="pods of another node",
        ),
        pytest.param(
            vpn_node, "192.0.2.1", "default dev wg0 table 51820 proto boot scope link", id="VPN"
        ),
    ],
)
def test_the_ready_made_hosts(make: Callable[[], FakeKernel], address: str, route: str) -> None:
    """Each leads packets as its description says."""
    assert str(Fib(make().snapshot(), 4).lookup(address).route) == route


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"kernel": h200},
            r"kernel is <function h200 .*; it must be a FakeKernel, such as h200\(\)",
        ),
        ({"kernel": None}, "kernel is None; it must be a FakeKernel"),
        ({"files": {"/etc/a": ""}}, r"files is {'/etc/a': ''}; it must be FakeFiles\(texts={…}\)"),
        ({"manager": FakeManager}, r"manager is <class .*; it must be a FakeManager, or None"),
        ({"interpreter": "no json"}, "interpreter is 'no json'; it must be a FakeInterpreter"),
        ({"rights": Rights()}, r"rights is Rights.*; it must be a function: lambda: Rights"),
    ],
)
def test_parts_of_another_kind(parts: Any, said: str) -> None:
    """They are refused when the host is made, such as a function in the place of what it makes."""
    with pytest.raises(TypeError, match=f"^{said}"):
        FakeHost(**parts)


def test_properties_that_are_one_text() -> None:
    """Its letters would be the properties, and none of them is set."""
    for manager in (FakeManager(), SystemdManager()):
        with pytest.raises(
            TypeError, match=r"^names is 'ActiveState'; it must be a tuple of properties: \('Act"
        ):
            manager.show("ActiveState", "kubelet.service")


def test_lines_that_are_one_text() -> None:
    """Its letters would be the lines."""
    manager = FakeManager()
    lines: Any = "no certificate"
    manager.failing["a.service"] = lines
    with pytest.raises(
        TypeError, match=r"^failing\['a.service'\] is 'no certificate'; it must be the"
    ):
        manager.start("a.service", timeout=1)


def test_a_timeout_that_is_a_text() -> None:
    """On a node, the start would fail."""
    manager, timeout = FakeManager(), cast("Any", "60")
    with pytest.raises(ValueError, match=r"^timeout is '60'; it must be a number"):
        manager.start("a.service", timeout=timeout)
    assert not manager.calls


def test_nodes_forward() -> None:
    """As nodes of Kubernetes do: otherwise nothing would be expected of the packets of pods."""
    for node in (plain_vm, h200, vpn_node, cni_node):
        assert node().snapshot().ipv6_forwarding


def test_pods_are_ports_of_their_bridge() -> None:
    """So the bridge leads to guests only, and is not a network card."""
    links = cni_node().snapshot().links
    assert [link.name for link in links if link.master == "cni0"] == ["veth0", "veth1"]


def test_a_link_in_the_place_of_a_file() -> None:
    """A test that reads the texts no longer finds that of the file."""
    files = FakeFiles(texts={"/etc/a": "old", "/etc/b": ""})
    files.link("/etc/a", "b")
    assert files.texts == {"/etc/b": ""}
    assert files.links == {"/etc/a": "b"}


def test_folders_that_refuse_files() -> None:
    """A folder that is broken, and what is in it; not its neighbours with a similar name."""
    files = FakeFiles(broken={"/etc/systemd": "it is read-only"})
    folders = ("/etc", "/etc/systemd", "/etc/systemd/system", "/etc/systemd-old")
    assert [files.why_unwritable(folder) for folder in folders] == [
        "",
        "it is read-only",
        "it is read-only",
        "",
    ]
    files.write("/etc/systemd-old", "a file")
    for change in (files.write, files.link):
        with pytest.raises(HostError, match="/system/a: it is read-only"):
            change("/etc/systemd/system/a", "text")
        with pytest.raises(HostError, match="old/a: /etc/systemd-old is not a directory; remove"):
            change("/etc/systemd-old/a", "text")
    assert files.writes == ["/etc/systemd-old"]


def test_the_mode_of_a_removed_file() -> None:
    """It goes with the file: a text that a test then sets has 0644, as the docstring says."""
    files = FakeFiles({"/etc/a": "", "/etc/b": ""}, {"/etc/a": 0o600, "/etc/b": 0o600})
    files.remove("/etc/a")
    files.link("/etc/b", "a")
    assert files.modes == {}


@pytest.mark.parametrize("missing", [["zzz"], {"nft", "ipp"}, "nft"])
def test_a_program_that_nobody_needs(missing: Any) -> None:
    """A host that lacks it is like any other, so the test would prove nothing."""
    said = "; it must be a collection of programs that hostrouting needs: bash, nft"
    with pytest.raises(ValueError, match=f"^missing is .*{said}"):
        FakeHost(missing=missing)


TRIED_AGAIN = ("ENODEV", "ENETDOWN", "EAGAIN", "ENOBUFS", "ENOMEM", "EBUSY")


@pytest.mark.parametrize(
    ("number", "attempts"),
    [*((getattr(errno, name), 2) for name in TRIED_AGAIN), (errno.EINVAL, 1), (errno.EMLINK, 1)],
)
def test_what_is_tried_again_after_a_fault(number: int, attempts: int) -> None:
    """An errno of a fault has the effect that it has on Linux, as docs/testing.md says."""
    host = FakeHost(kernel=h200())
    host.faults.fail("change", number, nth=2)
    task = phases.retry(Configure(config("10.9.0.0/16", "10.10.0.0/16"), host=host))
    report = phases.run(task, clock=FakeClock(), observers=[])
    assert report.attempts == attempts
    assert report.ok == (attempts == 2)


class Forgetful(FaultyBackend):
    """A backend of somebody else that does its work, and answers for less than it was asked."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Leave the first outcome out."""
        return super().change(requests)[1:]


class Silent(FaultyBackend):
    """One that answers nothing."""

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """Ask, and say nothing."""
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


def test_a_fake_that_the_backend_around_it_has_closed() -> None:
    """A run connects more than once, so the message says how to leave the fake open."""
    kernel = h200()
    host = FakeHost(kernel=kernel, backend=lambda: FaultyBackend(kernel))
    report = phases.run(Configure(config("10.9.0.0/16"), host=host), observers=[])
    assert "write backend=lambda: contextlib.nullcontext(…)" in str(report.failures[0].error)


def test_the_programs_that_can_be_missing() -> None:
    """They are those that hostrouting asks for."""
    asked: set[str] = set()

    @attrs.frozen(kw_only=True)
    class Asked(FakeHost):
        def has_program(self, name: str) -> bool:
            asked.add(name)
            return super().has_program(name)

    settings = HostRoutingConfig.from_mapping(
        {"probeRewrite": {"enabled": True, "interfaces": ["eth0"]}}
    )
    files = FakeFiles({f"{HostLayout.gate_directory}/50-site.sh": "true\n"})
    Configure(settings, host=Asked(files=files)).plan()
    assert FakeHost(missing=asked).missing == asked
    for program in asked:
        assert not FakeHost(missing=[program]).has_program(program)
    with pytest.raises(ValueError, match=f"needs: {', '.join(sorted(asked))}$"):
        FakeHost(missing=["zzz"])


def test_a_manager_that_has_yet_to_read() -> None:
    """A unit needs a reload from the moment when its file
    or a drop-in changes, until the reload.
    """
    unit = "/etc/systemd/system/a.service"
    host = FakeHost(files=FakeFiles(texts={unit: "[Service]\n"}))
    manager = host.manager
    assert manager is not None
    steps: list[tuple[Callable[[], object], str]] = [
        (list, "no"),
        (lambda: host.files.write("/etc/other/a.service", ""), "no"),
        (lambda: host.files.write("/etc/systemd/system/b@.service.d/a.conf", "[Unit]\n"), "no"),
        (lambda: host.files.write(f"{unit}.d/a.conf", "[Unit]\n"), "yes"),
        (manager.reload, "no"),
        (lambda: host.files.remove(unit), "yes"),
    ]
    for step, needs_reload in steps:
        step()
        assert (
            manager.show(("NeedDaemonReload",), "a.service")[0]["NeedDaemonReload"] == needs_reload
        )


def test_a_stop_ends_what_runs() -> None:
    """Whoever gave the unit its state; one that has failed has failed still, as in systemd."""
    manager = FakeManager(
        states={"a.service": "active", "b.service": "failed"},
        properties={"c.service": {"ActiveState": "active", "SubState": "running"}, "d.service": {}},
    )
    units = ("a.service", "b.service", "c.service", "d.service")
    for unit in units:
        manager.stop(unit)
    states = [shown["ActiveState"] for shown in manager.show(("ActiveState",), *units)]
    assert states == ["inactive", "failed", "inactive", "inactive"]
    assert manager.show(("SubState",), "c.service") == ({"SubState": ""},)


def test_what_a_manager_shows() -> None:
    """A pattern matches the units in `properties`; a property that is not set is empty; a template
    is not a unit.
    """
    manager = FakeManager(
        properties={"m@b.service": {"SubState": "dead"}, "m@a.service": {}, "x.service": {}}
    )
    assert manager.show(("Id", "SubState"), "m@*.service", "y.service") == (
        {"Id": "m@b.service", "SubState": "dead"},
        {"Id": "m@a.service", "SubState": ""},
        {"Id": "y.service", "SubState": ""},
    )
    assert manager.show(("Id",), "n@*.service") == ()
    assert manager.calls == []
    with pytest.raises(
        HostError, match=r"m@\.service is neither a valid invocation ID nor unit name"
    ):
        manager.show(("Id",), "m@a.service", "m@.service")


def test_what_the_files_of_a_unit_say() -> None:
    """Drop-ins count in the order of their names, and one of the unit replaces that of its
    template; an empty value resets a list. A link enables a unit.
    """
    units = "/etc/systemd/system"
    texts = {
        f"{units}/m@a.service.d/20.conf": "ExecCondition=second",
        f"{units}/m@a.service.d/10.conf": "ExecCondition=\nExecCondition=first",
        f"{units}/m@.service.d/20.conf": "ExecCondition=replaced",
        f"{units}/m@.service.d/05.conf": "ExecCondition=reset",
    }
    links = {f"{units}/multi-user.target.wants/b.service": "/lib/systemd/system/b.service"}
    manager = FakeManager(files=FakeFiles(texts, links=links))
    enabled = manager.show(("UnitFileState",), "b.service", "m@a.service")
    assert [shown["UnitFileState"] for shown in enabled] == ["enabled", ""]
    [shown] = manager.show(("LoadState", "ExecCondition", "DropInPaths"), "m@a.service")
    assert shown == {
        "LoadState": "loaded",
        "ExecCondition": "{ argv[]=first ; } { argv[]=second ; }",
        "DropInPaths": (
            f"{units}/m@.service.d/05.conf {units}/m@a.service.d/10.conf"
            f" {units}/m@a.service.d/20.conf"
        ),
    }


def test_a_manager_starts_what_does_not_run() -> None:
    """As with systemd, starting a unit that runs does nothing, so it is not among the calls."""
    manager = FakeManager(properties={"b.service": {"ActiveState": "active"}})
    for unit in ("a", "a.service", "b"):
        manager.start(unit, timeout=1)
    assert manager.calls == ["start a.service"]
    assert manager.show(("Id", "ActiveState"), "a") == (
        {"Id": "a.service", "ActiveState": "active"},
    )


def test_a_start_takes_its_time() -> None:
    """By the clock of the run: a retry, a deadline and a cancellation can be tested without
    waiting. A start that is given up is ended by a stop.
    """
    clock = FakeClock()
    manager = FakeManager(seconds={"kubelet": 50, "slow.service": 100})

    def start(unit: str) -> phases.Task[None]:
        return phases.task(unit)(lambda ctx: manager.start(unit, timeout=60, ctx=ctx))

    def run_for(task: phases.AnyTask) -> tuple[str, float]:
        before = clock.now()
        return phases.run(task, clock=clock, observers=[]).why, clock.now() - before

    too_slow = "HostError: systemctl did not start slow.service within 60 s; check that it answers"
    assert run_for(start("slow")) == (f"{too_slow}, then try again", 60)
    in_vain = "DeadlineExceeded: not finished within 30 s"
    assert run_for(phases.deadline(start("kubelet"), 30)) == (in_vain, 30)
    assert manager.states == {"slow.service": "inactive", "kubelet.service": "inactive"}
    assert run_for(start("kubelet")) == ("", 50)
    with pytest.raises(HostError, match="did not start slow"):
        manager.start("slow", timeout=60)  # without a context, no time passes
    assert manager.calls == [
        *["start slow.service", "stop slow.service"],
        *["start kubelet.service", "stop kubelet.service", "start kubelet.service"],
        *["start slow.service", "stop slow.service"],
    ]


def test_a_unit_that_does_not_start() -> None:
    """It has failed, whatever state the test gave it. One that is masked is as before.
    Both are told.
    """
    masked = FakeFiles(links={"/etc/systemd/system/masked.service": "/dev/null"})
    manager = FakeManager(
        failing={"a.service": ("no certificate",)},
        properties={"a.service": {"ActiveState": "inactive", "MainPID": "0"}},
        files=masked,
    )
    for unit, reason in (
        ("a.service", "no certificate"),
        ("masked.service", "is masked"),
    ):
        with pytest.raises(HostError, match=reason):
            manager.start(unit, timeout=1)
    assert manager.calls == [f"start {name}.service" for name in ("a", "masked")]
    assert manager.show(("ActiveState", "MainPID"), "a.service", "masked.service") == (
        {"ActiveState": "failed", "MainPID": "0"},
        {"ActiveState": "inactive", "MainPID": ""},
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.reload(),
        lambda manager: manager.start("a.service", timeout=1),
        lambda manager: manager.stop("a.service"),
        lambda manager: manager.show(("ActiveState",), "a.service"),
        lambda manager: manager.show(("Version",)),
    ],
    ids=["reload", "start", "stop", "show a unit", "show the manager"],
)
def test_a_manager_that_does_not_run(call: Callable[[Manager], object]) -> None:
    """Whatever is asked of it raises the error of systemctl on a host without systemd."""

    def systemctl(*_words: str, **_options: object) -> Ended:
        return Ended(1, err=NO_SYSTEMD)

    errors: list[HostError] = []
    for manager in (SystemdManager(run=systemctl), FakeManager(running=False)):
        with pytest.raises(
            HostError, match="systemd does not answer; check that it runs"
        ) as caught:
            call(manager)
        errors.append(caught.value)
    assert errors[0].to_mapping() == errors[1].to_mapping()


def test_a_manager_that_stops_running() -> None:
    """It records no call that nobody has answered."""
    manager = FakeManager()
    manager.running = False
    with pytest.raises(HostError):
        manager.reload()
    assert manager.calls == []


@pytest.mark.linux
def test_little_is_loaded() -> None:
    """The test kit imports neither hypothesis, pytest nor pyroute2."""
    script = """if True:
        import sys, hostrouting.testing
        print({"hypothesis", "pytest", "pyroute2"} & set(sys.modules))
    """
    assert completed([sys.executable, "-c", script], check=True).stdout == "set()\n"
