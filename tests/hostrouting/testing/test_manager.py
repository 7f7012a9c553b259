"""FakeManager: what it starts, and what it shows of units, is as with systemd."""

from collections.abc import Callable

import pytest

from hostrouting.errors import HostError
from hostrouting.host.systemd import Manager, SystemdManager
from hostrouting.kernel.programs import Ended
from hostrouting.testing import FakeFiles, FakeHost, FakeManager
from tests.support.stand_ins import Programs
from tests.support.tasks import manager_of

UNITS = "/etc/systemd/system"


def shown(manager: FakeManager, name: str, *units: str) -> list[str]:
    return [unit[name] for unit in manager.show((name,), *units)]


def test_a_manager_that_has_yet_to_read() -> None:
    """From when its file or a drop-in changes, until the reload."""
    unit = f"{UNITS}/a.service"
    host = FakeHost(files=FakeFiles(texts={unit: "[Service]\n"}))
    steps: list[tuple[Callable[[], object], str]] = [
        (lambda: host.files.write("/etc/other/a.service", ""), "no"),
        (lambda: host.files.write(f"{UNITS}/b@.service.d/a.conf", "[Unit]\n"), "no"),
        (lambda: host.files.write(f"{unit}.d/a.conf", "[Unit]\n"), "yes"),
        (manager_of(host).reload, "no"),
        (lambda: host.files.remove(unit), "yes"),
    ]
    for step, needs_reload in steps:
        step()
        assert shown(manager_of(host), "NeedDaemonReload", "a.service") == [needs_reload]
        assert shown(manager_of(host), "NeedDaemonReload", "b@1.service") == ["no"], "not loaded"
    assert manager_of(host).calls == ["reload"]


def test_what_runs_already() -> None:
    """As with systemd, starting it does nothing, so that is not among the calls. A stop ends it,
    whoever gave the unit its state; one that has failed has failed still.
    """
    manager = FakeManager(
        states={"a.service": "active", "b.service": "failed"},
        properties={"c.service": {"ActiveState": "active", "SubState": "running"}, "d.service": {}},
    )
    for unit in ("a", "c", "d", "d.service"):
        manager.start(unit, timeout=1)
    assert manager.calls == ["start d.service"]
    units = ("a.service", "b.service", "c.service", "d.service")
    assert shown(manager, "ActiveState", *units) == ["active", "failed", "active", "active"]
    for unit in units:
        manager.stop(unit)
    assert shown(manager, "ActiveState", *units) == ["inactive", "failed", "inactive", "inactive"]
    assert shown(manager, "SubState", "c.service") == [""]


def test_what_the_files_of_a_unit_say() -> None:
    """Drop-ins come after it, by their names; one of the unit replaces that of its template."""
    texts = {
        f"{UNITS}/m@.service": "SuccessExitStatus=97",
        f"{UNITS}/c.service": "",
        f"{UNITS}/d.service": "[Service]",
        f"{UNITS}/m@a.service.d/30.conf.bak": "ExecCondition=ignored",
        f"{UNITS}/m@a.service.d/20.conf": "ExecCondition=second",
        f"{UNITS}/m@a.service.d/10.conf": "ExecCondition=\nExecCondition=first",
        f"{UNITS}/m@.service.d/20.conf": "ExecCondition=replaced",
        f"{UNITS}/m@.service.d/05.conf": "ExecCondition=reset",
    }
    links = {f"{UNITS}/multi-user.target.wants/b.service": "/lib/systemd/system/b.service"}
    manager = FakeManager(files=FakeFiles(texts, links=links))
    assert shown(manager, "UnitFileState", "b.service", "m@a.service") == ["enabled", ""]
    states = {"b": "not-found", "c": "masked", "d": "loaded", "m@a": "loaded", "n@a": "loaded"}
    assert shown(manager, "LoadState", *states) == [*states.values()]
    properties = ("SuccessExitStatus", "ExecCondition", "DropInPaths")
    assert manager.show(properties, "m@a.service") == (
        {
            "SuccessExitStatus": "97",
            "ExecCondition": (
                "{ argv[]=first ; ignore_errors=no } { argv[]=second ; ignore_errors=no }"
            ),
            "DropInPaths": (
                f"{UNITS}/m@.service.d/05.conf {UNITS}/m@a.service.d/10.conf"
                f" {UNITS}/m@a.service.d/20.conf"
            ),
        },
    )


def test_a_pattern() -> None:
    """It matches the units that a test has given properties, and those that run or have failed."""
    manager = FakeManager(
        properties={"m@a.service": {}, "m@e.service": {}},
        failing={"m@b.service": ("no certificate",)},
        states={"n@a.service": "active"},
    )
    for unit in ("m@a", "m@c", "m@d"):
        manager.start(unit, timeout=1)
    with pytest.raises(HostError, match=": no certificate;"):
        manager.start("m@b", timeout=1)
    manager.stop("m@d")
    matching = shown(manager, "Id", "m@*.service")
    assert matching == [f"m@{name}.service" for name in "abce"]


def test_a_unit_that_does_not_start() -> None:
    """It has failed; one that is masked, or whose template is, is as before."""
    masked = (f"{UNITS}/masked.service", f"{UNITS}/node@.service")
    manager = FakeManager(
        failing={"a.service": ("no certificate",)},
        properties={"a.service": {"ActiveState": "inactive", "MainPID": "0"}},
        files=FakeFiles(links=dict.fromkeys(masked, "/dev/null")),
    )
    reasons = {
        "a.service": r"exit status 1\): no certificate; see",
        "masked.service": "is masked",
        "node@1.service": "is masked",
    }
    for unit, reason in reasons.items():
        with pytest.raises(HostError, match=reason):
            manager.start(unit, timeout=1)
    assert manager.calls == ["start a.service", "start masked.service", "start node@1.service"]
    assert shown(manager, "ActiveState", "a", "masked") == ["failed", "inactive"]
    results = manager.show(("Result", "ExecMainStatus"), "a", "masked")
    assert [" ".join(each.values()) for each in results] == ["exit-code 1", "success 0"]
    assert shown(manager, "MainPID", "a") == ["0"]
    manager.errors["a.service"] = ("no certificate",)
    assert manager.errors_of("a", "today") == ("no certificate",)
    assert manager.errors_of("a", "") == (), "it has not started"


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.reload(),
        lambda manager: manager.start("a.service", timeout=1),
        lambda manager: manager.stop("a.service"),
        lambda manager: manager.show(("ActiveState",), "a.service"),
    ],
    ids=["reload", "start", "stop", "show"],
)
def test_a_manager_that_does_not_run(call: Callable[[Manager], object]) -> None:
    """Each call raises the error of systemctl on a host without systemd."""
    no_systemd = (
        "System has not been booted with systemd as init system (PID 1). Can't operate.\n"
        "Failed to connect to bus: Host is down\n"
    )
    systemctl = Programs(systemctl=Ended(1, err=no_systemd))
    errors: list[object] = []
    fake = FakeManager(running=False)
    for manager in (SystemdManager(run=systemctl), fake):
        with pytest.raises(HostError, match="systemd does not answer; check") as caught:
            call(manager)
        errors.append(caught.value.to_mapping())
    assert errors[0] == errors[1]
    assert fake.calls == []
