"""In which order a run changes files and units, and what is true at each moment of it."""

import re

from hypothesis import given

from hostrouting.boot.files import owned_paths
from hostrouting.boot.units import UNITS
from hostrouting.config import GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.testing import FakeHost
from tests.hostrouting.install.test_install import apply, node, possible
from tests.support.mishaps import full, mishap_host
from tests.support.tasks import (
    CIDR,
    GUARDED,
    LAYOUT,
    WANTED,
    config,
    configured,
    failure_of,
    lose_routes,
    manager_of,
    run,
)

KUBELET = "kubelet.service"
GATED = WANTED._replace(gate=GateConfig((KUBELET, "foo.service")))
UNGATED = WANTED._replace(gate=GateConfig(("foo.service",)))


def is_read(host: FakeHost, *units: str) -> bool:
    """Whether systemd has read the files of these units as they are."""
    shown = manager_of(host).show(("NeedDaemonReload",), *units)
    return all(properties["NeedDaemonReload"] == "no" for properties in shown)


def calls_of(host: FakeHost) -> list[str]:
    """What systemd was told since the last time."""
    calls = [*manager_of(host).calls]
    manager_of(host).calls.clear()
    return calls


class Moments:
    """What is wrong at any moment of a run, since whatever comes next may be the kill."""

    def __init__(self, host: FakeHost) -> None:
        """Look at this host; what is found is kept, because what `look` raised would be caught."""
        self.wrong: list[str] = []
        self._host = host
        self._judged: str | None = None

    def look(self, event: str) -> None:
        """Called before each effect."""
        texts, states = self._host.files.texts, manager_of(self._host).states
        installed = texts.get(LAYOUT.config_path)
        verb, _, thing = event.partition(" ")
        if thing.startswith(f"{LAYOUT.state_directory}/") and verb == "write":
            self._judged = installed
        if {*HostLayout.markers} & {*texts} and self._judged != installed:
            self._found(event, "the marker is about another configuration")
        if installed is None and owned_paths(self._host.files):
            self._found(event, "files of ours are there without config.json")
        goes = thing.rpartition("/")[2] if verb == "remove" else ""
        if thing in map(LAYOUT.unit_path, UNITS) and states.get(goes) == "active":
            self._found(event, "the unit runs whose file goes")
        if verb == "start" and not is_read(self._host, thing):
            self._found(event, "systemd has not read the unit that it starts")
        if thing == LAYOUT.guard_path and states.get(LAYOUT.guard_unit) == "active":
            self._found(event, "the guard runs whose script changes")
        loaded = [*manager_of(self._host).read]
        drop_ins = {path for path in loaded if path.endswith(f"/{DROP_IN}")}
        if thing == LAYOUT.config_path and not drop_ins <= {*texts}:
            self._found(event, "a drop-in that is gone is loaded")
        for path in (*texts, *loaded):
            for script in scripts_of(path, texts.get(path, "")):
                if script not in texts:
                    self._found(event, f"{path} runs {script}, which is missing")

    def _found(self, event: str, fault: str) -> None:
        self.wrong.append(f"before {event}: {fault}")


def scripts_of(path: str, text: str) -> list[str]:
    """The scripts that systemd runs because of this file, or the gate because of its list."""
    if path.endswith(f"/{DROP_IN}"):
        return [LAYOUT.gate_path]
    if path == LAYOUT.unit_path(LAYOUT.guard_unit):
        return [LAYOUT.guard_path]
    if path == LAYOUT.gate_path:
        [lists] = re.findall(r"^required=\((.*)\) wanted=\((.*)\)$", text, re.MULTILINE)
        return [LAYOUT.step_path(step) for step in " ".join(lists).split()]
    return []


@given(possible(), possible())
def test_each_moment(old: HostRoutingConfig, new: HostRoutingConfig) -> None:
    """Wherever a run is killed, no marker is wrong, and no unit runs a script that is missing."""
    host, mishaps = node()
    moments = Moments(host)
    mishaps.watch = moments.look
    for wanted in (old, new, HostRoutingConfig()):
        apply(host, wanted)
        for unit in UNITS:
            if LAYOUT.unit_path(unit) in host.files.texts:
                manager_of(host).states[unit] = "active"
        if LAYOUT.guard_path in host.files.texts:
            host.files.texts[LAYOUT.guard_path] += "# of an older release\n"
    moments.look("the end")
    assert moments.wrong == []


def test_a_run_that_fails_leaves_no_verdict_on_another_configuration() -> None:
    """Not even the next run of another task makes it look like one on the new configuration."""
    host = configured(config(cidrs=("10.9.0.0/16",)))
    assert LAYOUT.ok_path in host.files.texts
    host.files.broken[LAYOUT.step_path(LAYOUT.check_step)] = "No space left on device"
    failure_of(run, Configure(config(cidrs=(CIDR,)), host=host), of=HostError)
    assert not {*HostLayout.markers} & {*host.files.texts}


def test_removal_without_a_configuration() -> None:
    """If somebody has deleted config.json, the marker goes with the rest."""
    host = configured(config(cidrs=("10.9.0.0/16",)))
    del host.files.texts[LAYOUT.config_path]
    run(Remove(host=host))
    assert host.files.texts == {}


def test_a_reload_that_is_lost_with_the_configuration() -> None:
    """If config.json cannot be read, nothing says whose drop-in systemd may still have loaded: it
    reads its files again.
    """
    host, mishaps = mishap_host()
    run(Configure(GATED, host=host))
    host.files.texts[LAYOUT.config_path] = "{"
    mishaps.watch = lambda event: mishaps.arm(1, full) if event == "reload" else None
    failure_of(run, Configure(UNGATED, host=host), of=HostError)
    mishaps.watch = lambda _event: None
    mishaps.disarm()
    assert not is_read(host, KUBELET)
    run(Configure(UNGATED, host=host))
    assert is_read(host, KUBELET, "foo.service")


class TestGuard:
    """The guard is a program that runs on, whatever becomes of its files."""

    def test_its_unit_is_gone(self) -> None:
        """It is stopped nevertheless, and the plan and the result say so."""
        host = configured(GUARDED)
        del host.files.texts[LAYOUT.unit_path(LAYOUT.guard_unit)]
        plan = Remove(host=host).plan()
        assert f"stop {LAYOUT.guard_unit}    # it is no longer wanted" in str(plan).splitlines()
        result = run(Remove(host=host))
        assert f"stop {LAYOUT.guard_unit}" in str(result)
        assert manager_of(host).states[LAYOUT.guard_unit] == "inactive"

    def test_all_files_are_gone(self) -> None:
        """It is stopped, and systemd forgets drop-ins that call a gate.sh that is gone."""
        host = configured(GATED._replace(guard=GuardConfig(enabled=True)))
        lose_routes(host)
        host.files.texts.clear()
        host.files.links.clear()
        calls_of(host)
        run(Remove(host=host))
        assert calls_of(host) == [f"stop {LAYOUT.guard_unit}", "reload"]
        assert Remove(host=host).plan().is_empty

    def test_a_run_that_is_killed_before_the_start(self) -> None:
        """A guard with old files is stopped before the new ones are written, so that the next run
        starts it.
        """
        host = configured(GUARDED)
        host.files.texts[LAYOUT.guard_path] += "# of an older release\n"
        host.files.broken[LAYOUT.guard_path] = "No space left on device"
        failure_of(run, Configure(GUARDED, host=host), of=HostError)
        assert manager_of(host).states[LAYOUT.guard_unit] == "inactive"
