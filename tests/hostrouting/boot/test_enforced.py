"""read_enforced: the installed scripts say what the configuration did that they were made from."""

from hypothesis import given

from hostrouting.boot.enforced import read_enforced
from hostrouting.boot.files import files_of
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.testing import FakeFiles
from hostrouting.testing.strategies import configs


@given(configs())
def test_what_the_scripts_say(config: HostRoutingConfig) -> None:
    """Without config.json, all that `apply`, `status` and the errors need is known."""
    files = FakeFiles()
    for file in files_of(config):
        file.write(files)
    enforced = read_enforced(files)
    assert set(gated_units(enforced)) == set(gated_units(config))
    assert enforced.guard == config.guard
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
