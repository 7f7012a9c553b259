"""hostrouting.gate.health: what lets a gated unit start unchecked, or keeps it from starting."""

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from hostrouting.boot.units import HEADER
from hostrouting.config.settings import GateConfig, gated_units
from hostrouting.errors import HostError, RequirementError
from hostrouting.finding import Finding
from hostrouting.gate.health import find_faults
from hostrouting.gate.unit_gates import RELOAD, find_cancelled_gates, judge_gates
from hostrouting.gate.unit_names import unused_instance
from hostrouting.host.effects import effects_of
from hostrouting.status import find_status
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.statuses import DROP_INS, Change, close_files, lost, stop_systemd
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    failure_of,
    lose_routes,
    manager_of,
    our_destinations,
    run,
)

if TYPE_CHECKING:
    from hostrouting.tasks.task import InstallTask

UNITS = "/etc/systemd/system"
KUBELET = "kubelet.service"
MACHINES = "systemd-nspawn@.service"
KUBE1 = "systemd-nspawn@kube1.service"
DROP_IN = LAYOUT.drop_in_path(MACHINES)
OVERRIDE = f"{UNITS}/{MACHINES}.d/50-x.conf"
RESET = "[Service]\nExecCondition=\n"
WARN = config(*REPAIR, cidrs=(CIDR,), mode="WARN")


@pytest.fixture
def host() -> FakeHost:
    """A host on which the configuration is installed, and all is well."""
    host = configured(WANTED)
    assert faults(host) == ()
    return host


def faults(host: FakeHost, *broken: Finding) -> tuple[Finding, ...]:
    return find_faults(host, gated_units(WANTED), broken)


def loaded(path: str, text: str) -> Change:
    """An administrator writes this, and has systemd read it."""

    def change(host: FakeHost) -> None:
        host.files.texts[path] = text
        manager_of(host).reload()

    return change


def reload(host: FakeHost) -> None:
    manager_of(host).reload()


def break_program(host: FakeHost) -> None:
    host.interpreter.broken = "No module named 'json'"


def give_config_away(host: FakeHost) -> None:
    break_program(host)  # no Python that others can change is tried
    host.files.modes[LAYOUT.config_path] = 0o666


def take_condition_away(host: FakeHost) -> None:
    manager_of(host).properties[unused_instance(MACHINES)] = {"ExecCondition": ""}


OPEN: dict[str, tuple[list[Change], str, bool]] = {
    "a drop-in in a folder that is not looked at": (
        [take_condition_away],
        "another drop-in takes the ExecCondition= of the gate away",
        False,
    ),
    "no drop-in": ([lost(DROP_IN), reload], f"{DROP_IN} is missing", True),
    "a drop-in that was overwritten": (
        [loaded(DROP_IN, f"{HEADER}# hostrouting-gate\n")],
        f"{DROP_IN} is missing, masked or overwritten",
        True,
    ),
    "a condition with the words of the gate": (
        [loaded(OVERRIDE, f"{RESET}ExecCondition=/bin/true hostrouting-gate %n\n")],
        f"{OVERRIDE} takes the ExecCondition= of the gate away",
        False,
    ),
    "a refusal that counts as a success": (
        [loaded(OVERRIDE, "[Service]\nSuccessExitStatus=1 255\n")],
        "its SuccessExitStatus= has 255",
        False,
    ),
}
"""What has happened, what is said, and whether an apply mends it."""


@pytest.mark.parametrize("name", OPEN)
def test_an_open_gate(name: str, host: FakeHost) -> None:
    """It is an error; what another program has done, apply does not end, and fails then."""
    changes, reason, is_mended = OPEN[name]
    for change in changes:
        change(host)
    [fault] = faults(host)
    assert (fault.name, fault.severity, fault.target) == ("gate-open", "error", MACHINES)
    assert fault.sentence.startswith(f"{MACHINES} starts unchecked: {reason}")
    cancelled = tuple(find_cancelled_gates(host, WANTED))
    if is_mended:
        assert fault.remedy is None
        assert cancelled == ()
        run(Configure(WANTED, host=host))
        assert faults(host) == ()
        return
    see = f"take that line out, and reload systemd; to see it: systemctl cat {MACHINES}"
    assert str(fault.remedy) == see
    assert cancelled == (fault,)
    for task in (CheckRouteOverlap, ConfigureStaticRoutes, Configure):
        lose_routes(host)
        assert "starts unchecked" in task(WANTED, host=host).plan().would_fail
        failure_of(run, task(WANTED, host=host), of=RequirementError, match="starts unchecked")
    assert our_destinations(host) == [*REPAIR], "the parts do their work all the same"


@pytest.mark.parametrize("is_installed", [False, True])
def test_an_open_gate_in_warn(*, is_installed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A plan and its run warn of it, once, whether the gate is installed before or not."""
    host = configured(WARN) if is_installed else FakeHost(kernel=h200())
    loaded(OVERRIDE, RESET)(host)
    tasks: tuple[type[InstallTask], ...] = (ConfigureStaticRoutes, Configure)
    for task in tasks:
        caplog.clear()
        plan = task(WARN, host=host).plan()
        [warning] = effects_of(run(task(WARN, host=host))).warnings
        assert (warning.name, warning.severity) == ("gate-open", "warning")
        assert caplog.text.count("starts unchecked") == 1
        assert plan.findings == (warning,)
        assert plan.would_fail == ""


def test_files_that_systemd_has_not_read(host: FakeHost) -> None:
    """A drop-in that is there is in force after a reload, and one that is gone is until then."""
    gated = WANTED._replace(gate=GateConfig((KUBELET,)))
    run(Configure(gated, host=host, allow_removal=True))
    manager_of(host).properties[KUBELET] = {"LoadState": "loaded"}
    drop_in = LAYOUT.drop_in_path(KUBELET)
    text = host.files.texts[drop_in]
    host.files.remove(drop_in)
    reload(host)
    host.files.texts[drop_in] = text
    [fault] = find_faults(host, [KUBELET])
    assert "systemd still uses the old files" in fault.sentence
    assert fault.remedy == RELOAD
    assert [*find_cancelled_gates(host, gated)] == [], "an apply has systemd read them"
    reload(host)
    assert find_faults(host, [KUBELET]) == ()
    host.files.remove(drop_in)
    assert [fault.remedy for fault in find_faults(host, [KUBELET])] == [None]


UNREAD = {
    "/usr/lib/systemd/system/NAME.d/10-x.conf": True,
    "/usr/local/lib/systemd/system/NAME.d/10-x.conf": True,
    "/run/systemd/system/NAME.d/10-x.conf": True,
    f"{UNITS}/service.d/10-x.conf": True,
    f"{UNITS}/NAME.d/10-x.conf": True,
    f"{UNITS}/NAME.d/00-before.conf": False,
    f"{UNITS}/NAME.d/10-x.conf.bak": False,
}
"""The paths of drop-ins with RESET: whether it takes the gate away once systemd reads it."""


@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
@pytest.mark.parametrize("path", UNREAD)
def test_a_drop_in_that_systemd_has_not_read(path: str, mode: str) -> None:
    """An apply changes nothing while one takes the gate away, which is in force until then."""
    gated = config(*REPAIR, cidrs=(CIDR,), mode=mode)._replace(gate=GateConfig((KUBELET,)))
    host = configured(gated)
    manager_of(host).properties[KUBELET] = {"LoadState": "loaded"}
    path = path.replace("NAME", KUBELET)
    host.files.texts[path] = RESET.replace("=", " = ")  # systemd ignores such blanks
    manager_of(host).properties[KUBELET]["NeedDaemonReload"] = "yes"
    lose_routes(host)
    if not UNREAD[path.replace(KUBELET, "NAME")]:
        run(Configure(gated, host=host))
        return
    [fault] = find_faults(host, [KUBELET])
    assert (fault.name, fault.target) == ("requirement", KUBELET)
    assert fault.sentence == (
        f"once systemd is reloaded, {KUBELET} starts unchecked: {path} takes the ExecCondition= of "
        "the gate away"
    )
    calls = [*manager_of(host).calls]
    failure_of(run, Configure(gated, host=host), of=RequirementError, match=path)
    assert manager_of(host).calls == calls
    # A file of the same name hides one of the vendor's.
    host.files.texts[f"{UNITS}/{KUBELET}.d/10-x.conf"] = "[Service]\n"
    assert find_faults(host, [KUBELET]) == ()


@pytest.mark.parametrize("text", DROP_INS)
def test_the_line_that_takes_the_gate_away(text: str) -> None:
    """It is read as systemd reads it, which does not notice at once that a new folder is there."""
    host = configured(WANTED._replace(gate=GateConfig((KUBELET,))))
    manager_of(host).properties[KUBELET] = {"LoadState": "loaded", "NeedDaemonReload": "no"}
    host.files.texts[f"{UNITS}/service.d/10-x.conf"] = f"[Service]\n{text}"
    names = [fault.name for fault in find_faults(host, [KUBELET])]
    assert names == ["requirement"] * DROP_INS[text]


def test_a_unit_that_is_not_there(host: FakeHost) -> None:
    """An apply only notes it, and gates what may come later."""
    manager_of(host).properties["foo.service"] = {"LoadState": "not-found"}
    [fault] = find_faults(host, ["foo.service"])
    assert (fault.name, fault.remedy) == ("gate-open", None)
    wrong = WANTED._replace(gate=GateConfig((MACHINES, "foo.service")))
    [note] = Configure(wrong, host=host).plan().findings
    assert note.severity == "note"
    assert note.sentence.startswith("foo.service is not known to systemd: ")
    assert run(Configure(wrong, host=host))
    assert find_faults(host, ["foo.service"]) == ()
    assert find_status(host).state == "in force"


def test_a_drop_in_of_an_earlier_release(host: FakeHost) -> None:
    """It runs the gate, so nothing is open: a plan says that it is not the one of this release."""
    earlier = host.files.texts[DROP_IN].replace("# A condition", "# It")
    host.files.texts[DROP_IN] = earlier
    for change in (reload, loaded(OVERRIDE, "")):
        change(host)
        assert faults(host) == ()
    host.files.links[f"{UNITS}/{MACHINES}.d/60-x.conf"] = "/etc"  # it cannot be read
    assert faults(host) == (), "systemd has not read another drop-in"
    stop_systemd(host)
    assert [fault.target for fault in faults(host)] == ["systemd"]
    assert Configure(WANTED, host=host).plan().files.written_paths == (DROP_IN,)


def test_some_instances(host: FakeHost) -> None:
    """They may have settings of their own, loaded or not, and the others are gated."""
    manager_of(host).properties[KUBE1] = {"SuccessExitStatus": "255"}
    assert [fault.target for fault in faults(host)] == [KUBE1]
    manager_of(host).properties[KUBE1] = {}
    for number, unit in enumerate((KUBE1, KUBE1.replace("1", "2")), start=1):
        loaded(f"{UNITS}/{unit}.d/50-x.conf", RESET)(host)
        *_, last = found = faults(host)
        assert (len(found), last.target) == (number, unit)
        assert f"{unit}.d/50-x.conf takes the ExecCondition= of the gate away" in last.sentence
        assert str(last).endswith(f"systemctl cat {unit}")
    loaded(OVERRIDE, RESET)(host)
    assert [fault.target for fault in faults(host)] == [MACHINES], "for the same reason"


@pytest.mark.parametrize("state", ["masked", "bad-setting", "error"])
def test_a_unit_that_systemd_does_not_start(state: str, host: FakeHost) -> None:
    """A masked one, for example, cannot start unchecked; but it needs its drop-in."""
    manager_of(host).properties[KUBELET] = {"LoadState": state, "ExecCondition": ""}
    run(Configure(WANTED._replace(gate=GateConfig((KUBELET,))), host=host, allow_removal=True))
    assert judge_gates(host, [KUBELET]) == ()
    assert [*find_cancelled_gates(host, WANTED)] == []
    host.files.remove(LAYOUT.drop_in_path(KUBELET))
    [fault] = judge_gates(host, [KUBELET])
    assert fault.name == "gate-open"


@pytest.mark.parametrize(
    ("change", "target", "without_systemd"),
    [
        (break_program, LAYOUT.program_path, ["gate-open"]),
        (give_config_away, LAYOUT.config_path, ["gate-shut", "gate-open"]),
    ],
)
def test_a_gate_that_lets_nothing_pass(
    change: Change, target: str, without_systemd: list[str], host: FakeHost
) -> None:
    """Where no start asks the gate, no Python is tried."""
    change(host)
    [fault] = faults(host)
    assert (fault.name, fault.severity, fault.target) == ("gate-shut", "error", target)
    stop_systemd(host)
    assert [fault.name for fault in faults(host)] == without_systemd


def test_a_broken_configuration(host: FakeHost) -> None:
    """Its faults shut the gate, also if this user may not look at the rest."""
    broken = Finding("file", "error", "config.json is not JSON", LAYOUT.config_path)
    assert [fault.name for fault in faults(host, broken)] == ["gate-shut"]
    close_files(host)
    other = broken._replace(target="")
    assert [fault.name for fault in faults(host, broken, other)] == ["gate-shut"] * 2


def test_a_reason_for_root(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that only root can read opens the gate, too, but only in a folder of root's."""
    host.files.write(LAYOUT.opening_path, "a reason", mode=0o400)
    host.files.links[LAYOUT.run_directory] = "/run/a"
    assert [fault.name for fault in judge_gates(host, gated_units(WANTED))] == ["file"]
    del host.files.links[LAYOUT.run_directory]
    host.files.owners[LAYOUT.run_directory] = 1
    assert [fault.name for fault in judge_gates(host, gated_units(WANTED))] == ["file"]
    host.files.owners.clear()
    monkeypatch.setattr(FakeFiles, "read", Mock(side_effect=HostError("denied", what="file")))
    [fault] = faults(host)
    assert fault.sentence.endswith(": the reason is in the file, which only root can read")
    assert str(fault.remedy) == f"to end this, as root: rm {LAYOUT.opening_path}"
    assert find_faults(host, []) == (), "without a gated unit, there is no gate"
    assert [*find_cancelled_gates(host, WANTED)] == []
