"""read_enforced: the installed scripts say what the configuration did that they were made from."""

import re

import pytest
from hypothesis import given

from hostrouting.boot.enforced import read_enforced
from hostrouting.boot.files import files_of, render_config
from hostrouting.boot.units import DROP_IN
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
from hostrouting.testing import FakeFiles
from hostrouting.testing.strategies import configs
from tests.support.tasks import GUARDED, LAYOUT, WANTED, configured, failure_of, run

PROBES = HostRoutingConfig.from_mapping(
    {
        "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
        "guard": {"enabled": True},
        "gate": {"units": ["kubelet.service"]},
    }
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
    if config.probe_rewrite.enabled:
        assert enforced.probe_rewrite == config.probe_rewrite
    for route, wanted_route in zip(
        enforced.static_routes.routes, config.static_routes.routes, strict=True
    ):
        assert (route.key, route.gateway) == (wanted_route.key, wanted_route.gateway)
        assert route.dev == wanted_route.dev
    check, wanted = enforced.route_overlap, config.route_overlap
    assert check.cidrs == wanted.cidrs
    if wanted.cidrs:
        assert check.service_cidrs == (*wanted.service_cidrs,)
        assert check.mode == wanted.mode
        assert check.expected_devs == (*wanted.expected_devs,)
        assert check.allowed_devs == (*wanted.allowed_devs,)
        assert check.intended_rules == (*wanted.intended_rules,)


@pytest.mark.parametrize(
    ("line", "edited"),
    [
        ("  'mode STRICT'\n", "  'mode STRICT'\n  'mode WARN'\n"),
        ("  'route 172.16.0.0/17 metric 0", "  'route 172.16.0.0/17 metric low"),
        ("  'route 172.16.0.0/17", "  'route '\n  'was 172.16.0.0/17"),
        ("  'cidr 172.16.0.0/16", "  'cidr 172.16.0.0/x"),
    ],
)
def test_edited_scripts(line: str, edited: str) -> None:
    """What cannot be a setting of ours ends nothing: only the section of that script is unknown."""
    host = configured(GUARDED)
    whole = read_enforced(host.files)
    for step in (LAYOUT.routes_step, LAYOUT.check_step):
        path = LAYOUT.step_path(step)
        host.files.texts[path] = host.files.texts[path].replace(line, edited, 1)
    enforced = read_enforced(host.files)
    known = (enforced.static_routes, enforced.route_overlap)
    of_one_script = (
        (whole.static_routes, RouteOverlapConfig()),
        (StaticRoutesConfig(), whole.route_overlap),
    )
    assert known in of_one_script
    assert (enforced.guard, gated_units(enforced)) == (whole.guard, gated_units(whole))
    assert Configure(GUARDED, host=host, allow_removal=False).plan().losses == ()


@pytest.mark.parametrize("step", [LAYOUT.routes_step, LAYOUT.check_step])
def test_an_edited_script_and_an_edited_configuration(step: str) -> None:
    """The protection that config.json does not name any more is not taken away in silence, although
    one of the scripts cannot be read.
    """
    units = GateConfig(("kubelet.service",))
    host = configured(GUARDED._replace(gate=units))
    path = LAYOUT.step_path(step)
    text = host.files.texts[path]
    host.files.texts[path] = re.sub("'(route|cidr) 172", r"'\1 x172", text)
    edited = WANTED._replace(gate=GateConfig(("other.service",)))
    host.files.texts[LAYOUT.config_path] = render_config(edited)
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
    """It hides no other unit: without config.json, nothing else says which units wait for the gate."""
    host = configured(WANTED._replace(gate=GateConfig(("kubelet.service",))))
    host.files.texts[LAYOUT.drop_in_path("containerd.service")] = DROP_IN
    host.files.texts[LAYOUT.config_path] = "{"
    enforced = read_enforced(host.files)
    assert enforced.gate == GateConfig(("kubelet.service",))
    managed = find_managed(host, HostRoutingConfig(), host.kernel.snapshot())
    assert managed is not None
    assert managed.gated == ("kubelet.service",)
    with pytest.raises(ConfigError, match=r'"gate": \{"units": \["kubelet.service"\]\}'):
        read_installed(host)


@pytest.mark.parametrize(
    "edited",
    [
        '  "route 172.16.0.0/17 metric 0"  # by hand\n',
        "'route 172.16.0.0/17 metric 0'\n",
        "  route\\ 172.16.0.0/17\\ metric\\ 0\n",
    ],
)
def test_a_setting_in_other_quotes(edited: str) -> None:
    """A setting counts as bash reads it; a comment does not."""
    host = configured(WANTED)
    path = LAYOUT.step_path(LAYOUT.routes_step)
    text = host.files.texts[path]
    text = re.sub(r"(?m)^  'route 172\.16\.0\.0/17.*\n", lambda _: edited, text)
    host.files.texts[path] = text.replace("  'route 172.16.128.0/17", "  # 'route 172.16.128.0/17")
    routes = read_enforced(host.files).static_routes.routes
    assert [str(route.destination) for route in routes] == ["172.16.0.0/17"]


def test_a_guard_of_probes() -> None:
    """The gated units and the guard are known, although there are neither routes nor a check: an
    edit of config.json does not take them away.
    """
    host = configured(PROBES)
    alone = PROBES._replace(guard=GuardConfig(), gate=None)
    host.files.texts[LAYOUT.config_path] = render_config(alone)
    task = Configure(alone, host=host, allow_removal=False)
    error = failure_of(run, task, of=ConfigError)
    assert [fault.path for fault in error.faults] == ["gate.units", "guard.enabled"]
