"""read_enforced: which configuration the installed scripts and drop-ins were made from."""

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given

from hostrouting.boot.enforced import read_enforced
from hostrouting.boot.files import files_of, render_config
from hostrouting.boot.units import DROP_IN_TEXT
from hostrouting.config.settings import (
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoutesConfig,
    gated_units,
)
from hostrouting.errors import ConfigError
from hostrouting.install.installed import read_installed
from hostrouting.install.managed import find_managed
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeFiles, FakeHost
from hostrouting.testing.strategies import configs
from tests.support.tasks import GUARDED, LAYOUT, WANTED, configured, failure_of, run

PROBES = HostRoutingConfig.from_mapping(
    {
        "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
        "guard": {"enabled": True},
        "gate": {"units": ["kubelet.service"]},
    }
)


def edit(host: FakeHost, step: str, old: str, new: str) -> None:
    """Somebody edits the first such line in the script of this step."""
    path = LAYOUT.step_path(step)
    text = host.files.texts[path]
    assert old in text
    host.files.texts[path] = text.replace(old, new, 1)


def edit_config(host: FakeHost, config: HostRoutingConfig) -> None:
    """Somebody writes another config.json."""
    host.files.texts[LAYOUT.config_path] = render_config(config)


def routes_in_force(config: HostRoutingConfig) -> list[tuple[object, ...]]:
    """What a script has of each static route."""
    return [(route.key, route.gateway, route.dev) for route in config.static_routes.routes]


def check_in_force(config: HostRoutingConfig) -> tuple[object, ...]:
    """What a script has of the check; without CIDRs there is no script,
    so no other setting counts.
    """
    check = config.route_overlap
    if not check.cidrs:
        return ()
    return (
        list(check.cidrs),
        list(check.service_cidrs),
        check.mode,
        list(check.expected_devs),
        list(check.allowed_devs),
        list(check.intended_rules),
    )


@given(configs())
def test_what_the_scripts_say(config: HostRoutingConfig) -> None:
    """Without config.json, all that `apply`, `status` and the errors need is known."""
    files = FakeFiles()
    for file in files_of(config):
        file.write(files)
    enforced = read_enforced(files)
    assert set(gated_units(enforced)) == set(gated_units(config))
    assert enforced.guard == config.guard
    assert routes_in_force(enforced) == routes_in_force(config)
    assert check_in_force(enforced) == check_in_force(config)
    if config.probe_rewrite.enabled:
        assert enforced.probe_rewrite == config.probe_rewrite


class Edit(NamedTuple):
    """Words of an installed script, and what somebody has written in their place."""

    step: str
    old: str
    new: str


NO_ROUTES = {"static_routes": StaticRoutesConfig()}
NO_CHECK = {"route_overlap": RouteOverlapConfig()}
EDITS = {
    "a metric in words": Edit(LAYOUT.routes_step, "/17 metric 0", "/17 metric low"),
    "no metric": Edit(LAYOUT.routes_step, "/17 metric 0", "/17"),
    "a word without a value": Edit(LAYOUT.routes_step, "/17 metric 0", "/17 metric 0 onlink"),
    "a route without a destination": Edit(LAYOUT.routes_step, "'route 172", "'route '\n  'was 172"),
    "two modes": Edit(LAYOUT.check_step, "'mode STRICT'", "'mode STRICT'\n  'mode WARN'"),
    "a CIDR without a length": Edit(LAYOUT.check_step, "'cidr 172.16.0.0/16", "'cidr 172.16.0.0/x"),
}


@pytest.mark.parametrize("edited", EDITS.values(), ids=EDITS)
def test_an_edited_script(edited: Edit) -> None:
    """What cannot be a setting of ours ends nothing: only what this script does is unknown."""
    host = configured(GUARDED)
    whole = read_enforced(host.files)
    edit(host, *edited)
    unknown: Any = NO_ROUTES if edited.step == LAYOUT.routes_step else NO_CHECK
    assert read_enforced(host.files) == whole._replace(**unknown)
    assert Configure(GUARDED, host=host, allow_removal=False).plan().losses == ()


@pytest.mark.parametrize(
    ("step", "word"),
    [(LAYOUT.routes_step, "route"), (LAYOUT.check_step, "cidr")],
    ids=["routes", "check"],
)
def test_an_edited_script_and_an_edited_configuration(step: str, word: str) -> None:
    """The protection that config.json does not name any more is not taken away in silence, although
    one of the scripts cannot be read.
    """
    host = configured(GUARDED._replace(gate=GateConfig(("kubelet.service",))))
    edit(host, step, f"'{word} 172", f"'{word} x172")
    edited = WANTED._replace(gate=GateConfig(("other.service",)))
    edit_config(host, edited)
    task = Configure(edited, host=host, allow_removal=False)
    error = failure_of(run, task, of=ConfigError)
    assert [fault.path for fault in error.faults] == ["gate.units", "guard.enabled"]


def test_units_where_no_script_can_be_read() -> None:
    """The drop-ins say which units wait for the gate."""
    host = configured(WANTED._replace(gate=GateConfig(("kubelet.service",))))
    for step in (LAYOUT.routes_step, LAYOUT.check_step):
        host.files.texts[LAYOUT.step_path(step)] = "configuration=(\n  'mode\n)\n"
    assert read_enforced(host.files) == HostRoutingConfig(gate=GateConfig(("kubelet.service",)))


def test_a_drop_in_for_a_unit_that_cannot_be_gated() -> None:
    """It hides no other unit, although only the drop-ins say which units wait for the gate if
    config.json cannot be read.
    """
    host = configured(WANTED._replace(gate=GateConfig(("kubelet.service",))))
    host.files.texts[LAYOUT.drop_in_path("containerd.service")] = DROP_IN_TEXT
    host.files.texts[LAYOUT.config_path] = "{"
    enforced = read_enforced(host.files)
    assert enforced.gate == GateConfig(("kubelet.service",))
    managed = find_managed(host, HostRoutingConfig(), host.kernel.snapshot())
    assert managed is not None
    assert managed.to_keep_gated == ("kubelet.service",)
    with pytest.raises(ConfigError, match=r'"gate": \{"units": \["kubelet.service"\]\}'):
        read_installed(host)


@pytest.mark.parametrize(
    "edited",
    [
        '  "route 172.16.0.0/17 metric 0"  # by hand\n',
        "'route 172.16.0.0/17 metric 0'\n",
        "  route\\ 172.16.0.0/17\\ metric\\ 0\n",
    ],
    ids=["double quotes and a comment", "no indent", "backslashes"],
)
def test_a_setting_in_other_quotes(edited: str) -> None:
    """A setting counts as bash reads it; a comment does not."""
    host = configured(WANTED)
    text = host.files.texts[LAYOUT.step_path(LAYOUT.routes_step)]
    [line] = re.findall(r"(?m)^  'route 172\.16\.0\.0/17.*\n", text)
    edit(host, LAYOUT.routes_step, line, edited)
    edit(host, LAYOUT.routes_step, "  'route 172.16.128.0/17", "  # 'route 172.16.128.0/17")
    routes = read_enforced(host.files).static_routes.routes
    assert [str(route.destination) for route in routes] == ["172.16.0.0/17"]


def test_a_guard_of_probes() -> None:
    """The gated units and the guard are known, although there are neither routes nor a check: an
    edit of config.json does not take them away.
    """
    host = configured(PROBES)
    alone = PROBES._replace(guard=GuardConfig(), gate=None)
    edit_config(host, alone)
    task = Configure(alone, host=host, allow_removal=False)
    error = failure_of(run, task, of=ConfigError)
    assert [fault.path for fault in error.faults] == ["gate.units", "guard.enabled"]
