"""In which order a run changes files and units, and what is true at each moment of it."""

from hypothesis import given

from hostrouting.config import GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.testing import FakeHost
from tests.hostrouting.install.test_install import apply, node, possible
from tests.support.mishaps import full, mishap_host
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    REPAIR,
    config,
    configured,
    failure_of,
    lose_routes,
    manager_of,
    run,
)

WANTED = config(*REPAIR, cidrs=(CIDR,))
KUBELET = "kubelet.service"
GATED = WANTED._replace(gate=GateConfig((KUBELET, "foo.service")))
UNGATED = WANTED._replace(gate=GateConfig(("foo.service",)))
GUARDED = WANTED._replace(guard=GuardConfig(enabled=True))


def is_read(host: FakeHost, *units: str) -> bool:
    """Whether systemd has read the files of these units as they are."""
    shown = manager_of(host).show(("NeedDaemonReload",), *units)
    return all(properties["NeedDaemonReload"] == "no" for properties in shown)


def calls_of(host: FakeHost) -> list[str]:
    """What systemd was told since the last time."""
    calls = [*manager_of(host).calls]
    manager_of(host).calls.clear()
    return calls


@given(possible(), possible())
def test_a_verdict_never_outlives_its_configuration(
    old: HostRoutingConfig, new: HostRoutingConfig
) -> None:
    """Wherever a run is killed, a marker is about the configuration that is installed then."""
    host, mishaps = node()
    judged: list[str | None] = []

    def look(event: str) -> None:
        installed = host.files.texts.get(LAYOUT.config_path)
        if event.startswith(f"write {LAYOUT.state_directory}"):
            judged[:] = [installed]
        if any(path in host.files.texts for path in HostLayout.markers):
            assert judged == [installed], event

    mishaps.watch = look
    for wanted in (old, new, HostRoutingConfig()):
        apply(host, wanted)
    look("the end")


def test_a_run_that_fails_leaves_no_verdict_on_another_configuration() -> None:
    """Not even the next run of another task makes it look like one on the new configuration."""
    host = configured(config(cidrs=("10.9.0.0/16",)))
    assert LAYOUT.ok_path in host.files.texts
    host.files.broken[LAYOUT.step_path(LAYOUT.check_step)] = "No space left on device"
    failure_of(run, Configure(config(cidrs=(CIDR,)), host=host), of=HostError)
    assert not {*HostLayout.markers} & {*host.files.texts}


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
