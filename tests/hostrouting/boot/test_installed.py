"""hostrouting.boot.installed: the configuration that was applied is found again, and is never taken for a smaller one."""

import attrs
import pytest

from hostrouting import Configure, GuardConfig, HostRoutingConfig, Remove
from hostrouting.boot.installed import installed_config, installed_wait, kept_config
from hostrouting.boot.scripts import DEFAULT_WAIT
from hostrouting.errors import ConfigError
from hostrouting.testing import FakeHost
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, run

GUARD = GuardConfig(enabled=True, program="/usr/bin/hostrouting")
ROUTES, CHECK = config(*REPAIR, mode="WARN"), config(cidrs=(CIDR,), mode="WARN")
REWRITE = HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": ["eth0"]})
TOLD = HostRoutingConfig(manage_foreign="keep")
WORK = {"routes": ROUTES, "check": CHECK, "rewrite": REWRITE}
ALL = attrs.evolve(
    ROUTES, route_overlap=CHECK.route_overlap, probe_rewrite=REWRITE.probe_rewrite, manage_foreign="keep"
)
INSTALLED = {
    "nothing": HostRoutingConfig(),
    **{name: attrs.evolve(work, guard=GUARD) for name, work in WORK.items()},
    "networkd": TOLD,
    "units": attrs.evolve(ROUTES, gate={"units": ["kubelet.service"]}),
    "all": ALL,
}
CHECKED = (LAYOUT.check_script_path, LAYOUT.probe_script_path)
AGAIN = "write it again with: hostrouting apply --config FILE"
LOST = f"is missing, so the installed configuration is not known; {AGAIN}"
CHANGED = f"is not as hostrouting wrote it; {AGAIN}"


@pytest.fixture
def host() -> FakeHost:
    """A node on which nothing is installed."""
    return FakeHost()


@pytest.mark.parametrize("settings", INSTALLED.values(), ids=INSTALLED)
def test_it_is_found_again(host: FakeHost, settings: HostRoutingConfig) -> None:
    """Each section is found by itself, the guard's with each kind of work; nothing is found after Remove."""
    run(Configure(settings, host=host))
    assert installed_config(host) == (None if settings == HostRoutingConfig() else settings)
    assert kept_config(host) == settings
    run(Remove(settings, host=host))
    assert (installed_config(host), installed_wait(host)) == (None, DEFAULT_WAIT)


def test_a_guard_without_work(host: FakeHost) -> None:
    """Where what the guard kept is lost, what else is installed is found, and the loss is the only fault."""
    run(Configure(attrs.evolve(TOLD, static_routes=ROUTES.static_routes, guard=GUARD), host=host))
    host.files.remove(LAYOUT.routes_script_path)
    assert installed_config(host) == TOLD
    with pytest.raises(ConfigError) as caught:
        kept_config(host)
    assert [str(fault) for fault in caught.value.faults] == [f"{LAYOUT.routes_script_path}: {LOST}"]


@pytest.mark.parametrize(
    ("text", "rule", "paths"),
    [
        (None, LOST, (LAYOUT.routes_script_path, *CHECKED)),
        ("#!/bin/bash\nexit 0\n", CHANGED, (LAYOUT.routes_script_path, *CHECKED)),
    ],
    ids=["lost", "edited"],
)
def test_scripts_that_are_not_as_written(host: FakeHost, text: str | None, rule: str, paths: tuple[str, ...]) -> None:
    """Each is a fault, and all are told at once: a guard that took one for nothing would delete its routes."""
    run(Configure(ALL, host=host, wait=50))
    assert kept_config(host) == ALL
    assert installed_wait(host) == 50
    written = dict(host.files.texts)
    for those in (*((path,) for path in paths), paths):
        host.files.texts.clear()
        host.files.texts.update({path: now for path in written if (now := text if path in those else written[path])})
        with pytest.raises(ConfigError) as caught:
            kept_config(host)
        assert [fault.path for fault in caught.value.faults] == [*those]
        assert {str(fault).partition(": ")[2] for fault in caught.value.faults} == {rule}
