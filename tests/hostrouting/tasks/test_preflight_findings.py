"""hostrouting.tasks.preflight: what follows from what was read, as values."""

from __future__ import annotations

import errno

import attrs
import pytest

import phases
from hostrouting.boot.gate import Gate
from hostrouting.config import GuardConfig, HostRoutingConfig, Upkeep
from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.finding import Finding, worst_first
from hostrouting.host import UnitState
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.preflight import (
    TOOLS,
    Preflight,
    UnitDropIn,
    folder_findings,
    gated_findings,
    lock_findings,
    systemd_findings,
    task_findings,
    tool_findings,
    unit_findings,
    unread,
)
from hostrouting.testing import FakeHost
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config

UNIT = LAYOUT.machine_unit


def test_worst_first() -> None:
    """Errors come before warnings before the rest, each in the order in which they were found, and each once."""
    error, other, warning, note = (
        Finding("lock", "error", "one"),
        Finding("lock", "error", "another"),
        Finding("lock", "warning", "a warning"),
        Finding("lock", "note", "a note"),
    )
    assert worst_first([note, warning, error, other, error]) == (error, other, warning, note)


def test_what_cannot_be_read() -> None:
    """A bootstrap would meet the same error; what only this user may not read is a warning."""
    told = FileError("no", path="/a")
    assert unread("kernel", "", told, is_root=False) == Finding("file", "error", "no", "/a")
    assert (
        unread("probe-rewrite", "", BackendError("root only", kind="not-permitted"), is_root=False).severity
        == "warning"
    )
    assert unread("unit", "", ManagerError("no"), is_root=True).name == "systemd"


def test_root_has_no_benefit() -> None:
    """To root, a denial is an error with its own text: it is not because of the user."""
    told = FileError("cannot read /a: it is immutable", path="/a", errno=errno.EPERM)
    assert unread("file", "/a", told, is_root=True) == Finding("file", "error", str(told), "/a")
    assert unread("kernel", "", BackendError("no", kind="not-permitted"), is_root=True).severity == "error"


@pytest.mark.parametrize(
    ("version", "severity", "part"),
    [
        (None, "warning", "not running"),
        ("246.9-1", "error", "systemd 246 is too old"),
        ("", "warning", "not a number"),
        ("unknown", "warning", "'unknown'"),
    ],
)
def test_systemd(version: str | None, severity: str, part: str) -> None:
    """A systemd that does not run, or that is older than 247, is named."""
    [found] = systemd_findings(version)
    assert (found.severity, found.target) == (severity, "systemd")
    assert part in str(found)


@pytest.mark.parametrize("version", ["247.3-7+deb11u4", "249", "257~rc1"])
def test_systemd_that_will_do(version: str) -> None:
    """From 247 on there is nothing to say."""
    assert not list(systemd_findings(version))


@pytest.mark.parametrize(
    ("guard", "severity"), [(GuardConfig(), "warning"), (GuardConfig(enabled=True), "note")], ids=str
)
def test_networkd(guard: GuardConfig, severity: str) -> None:
    """Routes that systemd-networkd would delete are named, with the key that prevents it, unless that is set."""
    host = FakeHost()
    assert host.manager is not None
    guarded = attrs.evolve(config(*REPAIR), guard=guard)
    told = attrs.evolve(guarded, manage_foreign=Upkeep.KEEP)

    def found(settings: HostRoutingConfig) -> list[Finding]:
        plan = Preflight(settings, host=host).plan(phases.Context(observers=[]))
        return [finding for finding in plan.findings if finding.name == "networkd"]

    assert found(guarded) == []
    host.manager.states["systemd-networkd.service"] = UnitState("loaded", "active")
    [finding] = found(guarded)
    assert finding.severity == severity
    assert "2 static routes of this configuration" in finding.sentence
    assert '"manageForeign": "keep"' in finding.remedy
    assert found(told) == []


def test_tools() -> None:
    """A tool that is missing is named with its package, and with everything that needs it."""
    [found] = tool_findings({"awk": ["static-routes.sh", "check-route-overlap.sh"], "ip": ["static-routes.sh"]}, ["ip"])
    assert found == Finding(
        "tool",
        "error",
        "mawk or awk is not installed, and static-routes.sh and check-route-overlap.sh cannot run without it",
        "awk",
        "install the package mawk (Debian's name for it)",
    )


def test_every_tool_is_known() -> None:
    """Whatever a part or the gate needs has its row in TOOLS, and every row is needed."""
    parts = [task.part for task in Configure(config(*REPAIR, cidrs=(CIDR,)), host=FakeHost()).subtasks]
    assert {*Gate.tools, *(tool for part in parts for tool in part.tools)} == set(TOOLS)


def test_units() -> None:
    """What systemd reads instead of our file is an error; a drop-in of our unit is a warning."""
    meant = UnitDropIn("/etc/x/b.service.d/1.conf", "[Service]\nNice=1\n", ("b.service",), is_meant=True)
    found = tuple(unit_findings([("/run/x/a.service", "/etc/x/a.service")], [meant]))
    assert [(it.severity, it.target) for it in found] == [
        ("error", "/run/x/a.service"),
        ("warning", "/etc/x/b.service.d/1.conf"),
    ]
    assert "instead of /etc/x/a.service" in found[0].sentence


def test_drop_ins_of_several_units() -> None:
    """A drop-in for many units is named once for each harmful setting, with those of our units that it changes."""
    text = "[Service]\nExecCondition=/bin/false\n#Type=simple\nType=oneshot\n SuccessExitStatus = 1\n"
    found = list(
        unit_findings((), [UnitDropIn("/x/service.d/1.conf", text, ("a.service", "b.service"), is_meant=False)])
    )
    assert [str(it).partition(", which means")[0] for it in found] == [
        "/x/service.d/1.conf has ExecCondition=/bin/false for a.service and b.service",
        "/x/service.d/1.conf has SuccessExitStatus=1 for a.service and b.service",
    ]
    harmless = UnitDropIn(
        "/x/service.d/1.conf", "[Service]\nNice=1\nRemainAfterExit=no\n", ("a.service",), is_meant=False
    )
    assert not list(unit_findings((), [harmless]))


@pytest.mark.parametrize(
    ("state", "severities"), [("loaded", []), ("masked", ["error"]), ("not-found", ["warning"]), ("error", ["error"])]
)
def test_state_of_machines(state: str, severities: list[str]) -> None:
    """Machines that are masked, or whose unit is missing, do not start."""
    assert [finding.severity for finding in gated_findings(state, (), unit=UNIT)] == severities


def test_folders() -> None:
    """Folders of one read-only file system are one error; those that only this user may not write into, a warning."""
    frozen = [_refused(it, errno.EROFS, "Read-only file system; remount it writable") for it in ("/etc/a", "/etc/b")]
    denied = [_refused(it, errno.EACCES, "no") for it in ("/run/a", "/run/b")]
    found = list(folder_findings([*frozen, *denied], is_root=False))
    assert [(it.severity, it.target) for it in found] == [("error", "/etc/a"), ("warning", "/run/a")]
    assert found[0].sentence == "cannot write into /etc/a, /etc/b: Read-only file system; remount it writable"
    assert "/run/a, /run/b" in found[1].sentence


def _refused(path: str, number: int, reason: str) -> FileError:
    return FileError(f"cannot write into {path}: {reason}", path=path, errno=number, reason=reason)


def test_lock() -> None:
    """The holder of a lock is named; a free lock is not mentioned."""
    assert not list(lock_findings((), path="/run/lock"))
    [one] = lock_findings(("process 1 (a)",), path="/run/lock")
    [two] = lock_findings(("process 1 (a)", "process 2 (b)"), path="/run/lock")
    assert str(one).startswith("process 1 (a) has locked /run/lock; ")
    assert str(two).startswith("process 1 (a) and process 2 (b) have locked /run/lock; ")
    assert (one.severity, one.target) == ("warning", "/run/lock")


def test_what_tasks_say() -> None:
    """What stops a task is an error, what leaves it without effect is a warning, and a remark is only that."""
    found = task_findings("probe-rewrite", conflicts=["a"], hindrances=["b"], notes=["c"])
    assert [(it.severity, str(it)) for it in found] == [("error", "a"), ("warning", "b"), ("note", "c")]
