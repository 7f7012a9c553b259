"""hostrouting.boot.files: every file for the boot, as laws for any configuration."""

from hypothesis import example, given

from hostrouting.boot import units
from hostrouting.boot.files import UNIT_OF_PART, wanted_files
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeHost
from hostrouting.testing.interpreter import FakeInterpreter
from tests.support.configs import configs

LAYOUT = HostLayout()
IMAGE = FakeHost(backend=None, manager=None, interpreter=FakeInterpreter("/usr/bin/python3.12"))


@example(HostRoutingConfig(manage_foreign="keep"))  # without a gated unit
@given(configs())
def test_the_order(config: HostRoutingConfig) -> None:
    """The program, config.json, other files, then the drop-ins; each part has its unit."""
    paths = [file.path for file in wanted_files(IMAGE, config)]
    gated = gated_units(config)
    first: list[str] = []
    if gated:
        first += [LAYOUT.program_path, LAYOUT.python_path]
    if paths:
        first.append(LAYOUT.config_path)
    drop_ins = [LAYOUT.drop_in_path(unit) for unit in gated]
    assert paths[: len(first)] == first
    assert paths[len(paths) - len(drop_ins) :] == drop_ins
    assert len(set(paths)) == len(paths)
    assert (LAYOUT.networkd_path in paths) is (config.manage_foreign == "keep")
    own = {unit for unit in units.UNITS if LAYOUT.unit_path(unit) in paths}
    assert own - {LAYOUT.guard_unit} == {UNIT_OF_PART[part] for part in config.parts}
    assert (LAYOUT.guard_unit in own) is config.guard.enabled


@given(configs(), configs())
def test_values_are_data(one: HostRoutingConfig, other: HostRoutingConfig) -> None:
    """Only config.json differs: no value is in a file that systemd or a shell reads."""
    first = {file.path: file for file in wanted_files(IMAGE, one)}
    second = {file.path: file for file in wanted_files(IMAGE, other)}
    for path in first.keys() & second.keys() - {LAYOUT.config_path}:
        assert first[path] == second[path]


FULL = HostRoutingConfig.from_mapping(
    {
        "staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}]},
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
        "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
        "guard": {"enabled": True},
        "manageForeign": "keep",
    }
)


def test_links() -> None:
    """They lead where they will lead on the host: units that start at boot, and the interpreter."""
    links = {file.path: file.target for file in wanted_files(IMAGE, FULL) if file.target}
    assert links == {
        LAYOUT.python_path: "/usr/bin/python3.12",
        LAYOUT.enabled_path(LAYOUT.routes_unit): "/etc/systemd/system/static-routes.service",
        LAYOUT.enabled_path(LAYOUT.probe_unit): "/etc/systemd/system/probe-rewrite.service",
        LAYOUT.enabled_path(LAYOUT.guard_unit): "/etc/systemd/system/hostrouting-guard.service",
    }


def test_texts_and_modes() -> None:
    """Each unit has its text. All may read a file of ours, and type the program by its name."""
    files = {file.path: file for file in wanted_files(IMAGE, FULL) if not file.target}
    for path, file in files.items():
        assert file.mode == (0o755 if path == LAYOUT.program_path else 0o644)
    for unit, text in units.UNITS.items():
        assert files[LAYOUT.unit_path(unit)].text == text
