"""InstallGuard: the service is installed and removed with the configuration, and started when needed."""

import json
from datetime import datetime, timezone

import attrs
import pytest

import phases
from hostrouting import Configure, GuardConfig, Host, HostRoutingConfig, Remove
from hostrouting.boot.gate_files import parse_gate_steps
from hostrouting.boot.units import parse_guard_unit
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import UnitState
from hostrouting.model.route import OURS
from hostrouting.tasks.guard.loop import Guard
from hostrouting.tasks.guard.service import InstallGuard
from hostrouting.testing import FakeHost, FakeManager, h200
from phases.testing import FakeClock
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, failure_of, manager_of, run

GUARDED = attrs.evolve(config(*REPAIR, cidrs=(CIDR,)), guard=GuardConfig(enabled=True))
UNIT = LAYOUT.guard_unit


@pytest.fixture
def host() -> FakeHost:
    """An H200 node without anything that hostrouting installed."""
    return FakeHost(kernel=h200())


def started(host: FakeHost) -> int:
    """How often the service was started."""
    return manager_of(host).calls.count(f"start {UNIT}")


def standing(host: Host) -> dict[str, list[str]]:
    """What `status` says of the guard at 00:01:00 on 2026-01-02."""
    clock = FakeClock(start=datetime(2026, 1, 2, 0, 1, tzinfo=timezone.utc))
    found = InstallGuard(GUARDED, host=host, clock=clock).standing()
    assert found is not None
    kinds = {"faults": "error", "notes": "note"}
    told = {name: [str(one) for one in found.findings if one.severity == kind] for name, kind in kinds.items()}
    return {**told, "facts": list(found.facts)}


def test_it_is_installed_and_started(host: FakeHost) -> None:
    """The unit runs the program of this installation, is enabled, and is started once."""
    run(Configure(GUARDED, host=host))
    assert parse_guard_unit(host.files.texts[LAYOUT.guard_unit_path]) == "/usr/bin/hostrouting"
    assert host.files.links[LAYOUT.guard_enabled_path] == f"/etc/systemd/system/{UNIT}"
    assert f"enable {UNIT}\n" in host.files.texts[LAYOUT.guard_preset_path]
    assert started(host) == 1
    run(Configure(GUARDED, host=host))
    assert started(host) == 1
    assert Configure(GUARDED, host=host).preview().is_empty


def test_no_machine_waits_for_it(host: FakeHost) -> None:
    """The guard has no step in the gate."""
    run(Configure(GUARDED, host=host))
    steps = parse_gate_steps(host.files.texts[LAYOUT.gate_steps_path])
    assert [step.name for step in steps] == ["static-routes", "check-route-overlap"]


def test_a_guard_that_does_not_run_is_started(host: FakeHost) -> None:
    """The plan says so before."""
    run(Configure(GUARDED, host=host))
    manager_of(host).states[UNIT] = UnitState("loaded", "failed", "exit-code", 1)
    assert str(InstallGuard(GUARDED, host=host).change(up=True)) == f"start {UNIT}    # it is not running"
    run(Configure(GUARDED, host=host))
    assert started(host) == 2


def test_another_program_means_another_start(host: FakeHost) -> None:
    """If its unit changes, the running guard is restarted, and not stopped before that."""
    run(Configure(GUARDED, host=host))
    other = attrs.evolve(GUARDED, guard=GuardConfig(enabled=True, program="/opt/agent/bin/hostrouting"))
    run(Configure(other, host=host))
    assert manager_of(host).calls[-1] == f"start {UNIT}"
    assert f"stop {UNIT}" not in manager_of(host).calls
    assert parse_guard_unit(host.files.texts[LAYOUT.guard_unit_path]) == "/opt/agent/bin/hostrouting"


def test_another_configuration_does_not_restart_it(host: FakeHost) -> None:
    """A running guard reads what is installed before each look."""
    run(Configure(GUARDED, host=host))
    run(Configure(attrs.evolve(GUARDED, static_routes=config(*REPAIR, "10.9.0.0/16").static_routes), host=host))
    assert started(host) == 1


def test_it_goes_with_the_configuration(host: FakeHost) -> None:
    """The guard is stopped. Its files are removed, and those that it wrote."""
    run(Configure(GUARDED, host=host))
    host.files.texts |= dict.fromkeys((LAYOUT.guard_path, LAYOUT.figures_path), "written")
    run(Configure(attrs.evolve(GUARDED, guard=GuardConfig()), host=host))
    assert f"stop {UNIT}" in manager_of(host).calls
    assert not [path for path in (*host.files.texts, *host.files.links) if "guard" in path or ".prom" in path]


def test_a_guard_that_runs_by_hand(host: FakeHost) -> None:
    """A run without `guard.enabled` leaves its state and figures alone; they go with the next run after its end."""
    written = (LAYOUT.guard_path, LAYOUT.figures_path)
    host.files.texts |= dict.fromkeys(written, "written")
    host.files.locked.add(LAYOUT.guard_lock_path)
    run(Configure(attrs.evolve(GUARDED, guard=GuardConfig()), host=host))
    assert [host.files.texts[path] for path in written] == ["written"] * 2
    host.files.locked.clear()
    run(Configure(attrs.evolve(GUARDED, guard=GuardConfig()), host=host))
    assert not [path for path in written if path in host.files.texts]


def test_remove(host: FakeHost) -> None:
    """Remove removes the guard with everything else, and its plan lists the guard."""
    run(Configure(GUARDED, host=host))
    assert LAYOUT.guard_unit_path in str(phases.plan(Remove(HostRoutingConfig(), host=host)))
    run(Remove(HostRoutingConfig(), host=host))
    assert host.files.texts == {}
    assert host.files.links == {}


def test_alone(host: FakeHost) -> None:
    """As a task of its own it installs the service without a gate, even if none of the others was run."""
    run(InstallGuard(GUARDED, host=host))
    assert started(host) == 1
    assert LAYOUT.gate_drop_in() not in host.files.texts
    assert InstallGuard(GUARDED, host=host).plan(phases.Context(observers=[])).is_empty
    run(Remove(HostRoutingConfig(), host=host))
    assert host.files.texts == {}


@pytest.mark.parametrize("first", [True, False])
def test_another_task_fails(host: FakeHost, *, first: bool) -> None:
    """The guard runs even on a host that the check refuses, and also after a change of its unit in this run."""
    escaping = attrs.evolve(
        config(cidrs=(CIDR,)), guard=GuardConfig(enabled=True, program="/opt/agent/bin/hostrouting")
    )
    if not first:
        run(Configure(GUARDED, host=host))
    failure_of(run, Configure(escaping, host=host), match="OVERLAP")
    assert manager_of(host).state(UNIT).active == "active"
    assert manager_of(host).calls[-1] == f"start {UNIT}"


def test_cancelled() -> None:
    """A run that is cancelled while an earlier task works does not start it."""
    ctx = phases.Context(clock=FakeClock(), observers=[])

    class Cancelling(FakeManager):
        def start(self, unit: str, *, timeout: float) -> None:
            super().start(unit, timeout=timeout)
            ctx.cancel("enough")

    host = FakeHost(kernel=h200(), manager=Cancelling())
    with pytest.raises(phases.Cancelled):
        Configure(GUARDED, host=host).do(ctx)
    assert LAYOUT.guard_unit_path in host.files.texts
    assert manager_of(host).calls[-1] != f"start {UNIT}"
    assert started(host) == 0


def test_it_cannot_be_started(host: FakeHost) -> None:
    """The run fails with what the service has logged, and does not try again; routes and gate are installed."""
    manager_of(host).failing[UNIT] = ("no module named hostrouting",)
    failure_of(run, Configure(GUARDED, host=host), match="no module named hostrouting")
    assert started(host) == 1
    assert len([route for route in host.kernel.snapshot().routes if route.protocol == OURS]) == 2
    assert LAYOUT.gate_drop_in() in host.files.texts


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        pytest.param("", "is needed here: the program hostrouting was not found", id="none"),
        pytest.param(
            "/tmp/a/bin/hostrouting",  # noqa: S108
            'by default, it is the program of this Python, "/tmp/a/bin/hostrouting", which is in a directory for temporary',
            id="temporary",
        ),
    ],
)
def test_no_program_to_run(program: str, rule: str) -> None:
    """The task says so before it changes anything."""
    host = attrs.evolve(FakeHost(kernel=h200()), own_program=lambda: program or None, find_program=lambda _: None)
    failure_of(run, Configure(GUARDED, host=host), match=f": guard.program: {rule}")
    assert not [path for path in host.files.writes if path != LAYOUT.lock_path]


def test_a_named_program_for_which_the_service_has_another_folder() -> None:
    """A path that the operator wrote is shown as it is written."""
    wanted = attrs.evolve(GUARDED, guard=GuardConfig(enabled=True, program="/tmp/a/bin/hostrouting"))  # noqa: S108
    failure_of(
        run, Configure(wanted, host=FakeHost(kernel=h200())), match=r'guard\.program: "/tmp/a/bin/hostrouting" is in'
    )


def test_in_an_image(tmp_path: object) -> None:
    """The image's own program is run; if it has none, the path has to be configured."""
    image = attrs.evolve(Host.offline(str(tmp_path)), find_program=lambda name: f"/usr/sbin/{name}")
    run(Configure(GUARDED, host=image))
    unit = image.files.read(HostLayout(root=str(tmp_path)).guard_unit_path) or ""
    assert parse_guard_unit(unit) == "/usr/sbin/hostrouting"
    failure_of(run, Configure(GUARDED, host=Host.offline(str(tmp_path))), match="the program hostrouting was not found")


def test_status(host: FakeHost) -> None:
    """Without a guard there is no standing; with one, it says whether the guard runs and what it has done."""
    assert InstallGuard(GUARDED, host=host).standing() is None
    run(Configure(GUARDED, host=host))
    assert standing(host) == {
        "faults": [f"the guard does not run; see: systemctl status {UNIT}"],
        "notes": [],
        "facts": [],
    }
    host.files.locked.add(LAYOUT.guard_lock_path)
    assert standing(host) == {"faults": [], "notes": [], "facts": []}
    host.files.texts[LAYOUT.guard_path] = json.dumps(
        {
            "schema": "hostrouting/guard/2",
            "since": "2026-01-01T00:00:00Z",
            "lastLook": "2026-01-02T00:00:00Z",
            "unknown": ["check-route-overlap"],
            "repairs": 3,
            "lastRepair": "2026-01-01T12:00:00Z",
            "failure": "the netlink socket is closed",
            "fights": [{"key": "10.9.0.0/16", "ours": "[a]", "found": "no route", "rounds": 4}],
        }
    )
    assert standing(host) == {
        "faults": [],
        "notes": [
            "10.9.0.0/16 does not stay: the last time there was no route instead of [a]",
            "check-route-overlap: not known since 2026-01-02T00:00:00Z; what is shown is from before",
            "the netlink socket is closed",
        ],
        "facts": [
            "running since 2026-01-01T00:00:00Z; last look: 2026-01-02T00:00:00Z",
            "repairs: 3, the last at 2026-01-01T12:00:00Z",
        ],
    }


@pytest.mark.parametrize(("looked", "hangs"), [("00:00:00", False), ("23:58:00", False), ("23:57:59", True)])
@pytest.mark.parametrize("key", ["lastLook", "since"])
def test_status_of_a_guard_that_hangs(host: FakeHost, key: str, looked: str, *, hangs: bool) -> None:
    """A guard that has not looked for three minutes does not work."""
    run(Configure(GUARDED, host=host))
    host.files.locked.add(LAYOUT.guard_lock_path)
    moment = f"2026-01-0{2 if looked < '12' else 1}T{looked}Z"
    state = {"schema": "hostrouting/guard/2", "lastLook": None, key: moment}
    host.files.texts[LAYOUT.guard_path] = json.dumps(state)
    told = f"the guard has not looked at the host since {moment}; see: systemctl status {UNIT}"
    assert standing(host)["faults"] == ([told] if hangs else [])


def test_status_of_many_fights(host: FakeHost) -> None:
    """The first ones are named, and the others are counted."""
    run(Configure(GUARDED, host=host))
    host.files.locked.add(LAYOUT.guard_lock_path)
    fights = [{"key": f"10.9.{number}.0/24", "ours": "[a]", "found": "no route", "rounds": 4} for number in range(300)]
    host.files.texts[LAYOUT.guard_path] = json.dumps({"schema": "hostrouting/guard/2", "fights": fights})
    notes = standing(host)["notes"]
    assert [note.partition(" ")[0] for note in notes[:3]] == ["10.9.0.0/24", "10.9.1.0/24", "10.9.2.0/24"]
    assert notes[3:] == ["297 more do not stay"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema": "other/1"}', '{"schema": "hostrouting/guard/2", "fights": 5}']
)
def test_a_damaged_state(host: FakeHost, text: str) -> None:
    """Unreadable values are left out."""
    run(Configure(GUARDED, host=host))
    host.files.locked.add(LAYOUT.guard_lock_path)
    host.files.texts[LAYOUT.guard_path] = text
    assert standing(host)["faults"] == []


def test_status_without_systemd() -> None:
    """If systemd does not run, the guard starts at the next boot: that is not a fault."""
    host = FakeHost(kernel=h200(), manager=FakeManager(running=False))
    run(Configure(GUARDED, host=host))
    assert InstallGuard(GUARDED, host=host).standing() is None


def test_two_guards(host: FakeHost) -> None:
    """A second guard on the same host is refused, and the message names the first."""
    host.files.locked.add(LAYOUT.guard_lock_path)
    failure_of(
        run, Guard(GUARDED, host=host), match=r"a guard already runs on this host: process 4711 .* stop it first"
    )
