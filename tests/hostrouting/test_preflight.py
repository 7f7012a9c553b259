"""hostrouting.preflight: what follows from what was read, as values."""

from __future__ import annotations

import errno

import pytest

from hostrouting.errors import FileError, NotPermitted
from hostrouting.gate import Gate
from hostrouting.openings import GateState
from hostrouting.preflight import (
    TOOLS,
    PreflightFinding,
    folder_findings,
    gate_findings,
    lock_findings,
    machine_findings,
    systemd_findings,
    task_findings,
    tool_findings,
    unit_findings,
    unread,
    worst_first,
)
from hostrouting.tasks import Configure
from hostrouting.testing import FakeHost
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config

UNIT, DROP_IN = LAYOUT.machine_unit, LAYOUT.gate_drop_in


def test_worst_first() -> None:
    """Errors come before warnings before the rest, each in the order in which they were found, and each once."""
    error, warning, info = (PreflightFinding("lock", it, it) for it in ("error", "warning", "info"))
    other = PreflightFinding("gate", "error", "another")
    assert worst_first([info, warning, error, other, error]) == (error, other, warning, info)


def test_what_cannot_be_read() -> None:
    """A bootstrap would meet the same error; what only this user may not read is a warning."""
    assert unread("kernel", "", FileError("no", path="/a")).severity == "error"
    assert unread("kernel", "", NotPermitted("root only")).severity == "warning"


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
    assert part in found.message


@pytest.mark.parametrize("version", ["247.3-7+deb11u4", "249", "257~rc1"])
def test_systemd_that_will_do(version: str) -> None:
    """From 247 on there is nothing to say."""
    assert not list(systemd_findings(version))


def test_tools() -> None:
    """A tool that is missing is named with its package, and with everything that needs it."""
    [found] = tool_findings({"awk": ["static-routes.sh", "check-route-overlap.sh"], "ip": ["static-routes.sh"]}, ["ip"])
    assert found == PreflightFinding(
        "tools",
        "error",
        "mawk or awk is not installed, and static-routes.sh and check-route-overlap.sh cannot run without it; install the"
        " package mawk",
        "awk",
    )


def test_every_tool_is_known() -> None:
    """Whatever a part or the gate needs has its row in TOOLS, and every row is needed."""
    parts = [task.part for task in Configure(config(*REPAIR, cidrs=(CIDR,)), host=FakeHost()).subtasks]
    assert {*Gate.tools, *(tool for part in parts for tool in part.tools)} == set(TOOLS)


def test_units() -> None:
    """What systemd reads instead of our file is an error; a drop-in of our unit is a warning."""
    found = tuple(
        unit_findings([("/run/x/a.service", "/etc/x/a.service")], [("/etc/x/b.service.d/1.conf", "b.service")])
    )
    assert [(it.severity, it.target) for it in found] == [
        ("error", "/run/x/a.service"),
        ("warning", "/etc/x/b.service.d/1.conf"),
    ]
    assert "instead of /etc/x/a.service" in found[0].message


@pytest.mark.parametrize(
    ("state", "severities"), [("loaded", []), ("masked", ["error"]), ("not-found", ["warning"]), ("error", ["warning"])]
)
def test_state_of_machines(state: str, severities: list[str]) -> None:
    """Machines that are masked, or whose unit is not there, do not start."""
    assert [it.severity for it in machine_findings(state, {}, unit=UNIT, drop_in=DROP_IN)] == severities


@pytest.mark.parametrize(
    ("path", "text", "is_told"),
    [
        ("/etc/a.d/50.conf", "[Service]\nExecStartPre=\n", True),
        ("/etc/a.d/50.conf", "[Service]\n ExecStartPre = \nExecStartPre=/bin/true\n", True),
        ("/etc/a.d/50.conf", "[Service]\nExecStartPre=/bin/true\n", False),
        ("/etc/a.d/50.conf", "[Service]\n#ExecStartPre=\n", False),
        ("/etc/a.d/00-first.conf", "[Service]\nExecStartPre=\n", False),
    ],
)
def test_drop_ins_of_machines(path: str, text: str, *, is_told: bool) -> None:
    """A drop-in that sorts after ours and empties ExecStartPre= would take the question to the gate away."""
    found = list(machine_findings("loaded", {path: text}, unit=UNIT, drop_in=DROP_IN))
    assert [(it.severity, it.target) for it in found] == ([("warning", path)] if is_told else [])


def test_folders() -> None:
    """A read-only folder is an error; folders that only this user may not write into are one warning together."""
    frozen = FileError("cannot write into /etc: read-only", path="/etc", errno=errno.EROFS)
    denied = [FileError(f"cannot write into {it}", path=it, errno=errno.EACCES) for it in ("/run/a", "/run/b")]
    found = list(folder_findings([denied[0], frozen, denied[1]]))
    assert [(it.severity, it.target) for it in found] == [("error", "/etc"), ("warning", "/run/a")]
    assert "/run/a, /run/b" in found[1].message


def test_lock() -> None:
    """Whoever holds the lock is named; a lock that nobody holds is not."""
    assert not list(lock_findings((), path="/run/lock"))
    [one] = lock_findings(("process 1 (a)",), path="/run/lock")
    [two] = lock_findings(("process 1 (a)", "process 2 (b)"), path="/run/lock")
    assert one.message.startswith("process 1 (a) has locked /run/lock; ")
    assert two.message.startswith("process 1 (a) and process 2 (b) have locked /run/lock; ")
    assert (one.severity, one.target) == ("warning", "/run/lock")


def test_gate() -> None:
    """What keeps every machine from starting is an error, what lets one start unchecked a warning."""
    found = gate_findings(GateState(is_up=True, openings=("open",), bars=("shut",)))
    assert [(it.severity, it.message) for it in found] == [("error", "shut"), ("warning", "open")]


def test_what_tasks_say() -> None:
    """What stops a task is an error, what takes its effect a warning, and a remark is only that."""
    found = task_findings("probes", conflicts=["a"], hindrances=["b"], notes=["c"])
    assert [(it.severity, it.message) for it in found] == [("error", "a"), ("warning", "b"), ("info", "c")]
