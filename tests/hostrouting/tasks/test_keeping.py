"""What is kept although systemd-networkd takes it away: routes and rules that it does not know."""

import pytest

from hostrouting import Configure, HostRoutingConfig, Remove
from hostrouting.tasks.keeping import KeepForeign
from hostrouting.testing import FakeHost, h200
from tests.support.tasks import LAYOUT, failure_of, manager_of, run

TOLD = HostRoutingConfig(manage_foreign="keep")


@pytest.fixture
def host() -> FakeHost:
    """An H200 node without anything that hostrouting installed."""
    return FakeHost(kernel=h200())


def test_the_drop_in(host: FakeHost) -> None:
    """The drop-in needs no gate, and is in the plan. A configuration without it removes it, and so does Remove."""
    run(Configure(TOLD, host=host))
    text = host.files.texts[LAYOUT.networkd_path]
    assert text.endswith("[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n")
    assert [path for path in host.files.texts if path.startswith("/etc")] == [LAYOUT.networkd_path]
    assert [call for call in manager_of(host).calls if "networkd" in call and not call.startswith("show")] == []
    look = Configure(HostRoutingConfig(), host=host).preview()
    assert LAYOUT.networkd_path in look.files.removes
    assert [gone.target for gone in KeepForeign(HostRoutingConfig(), host=host).removals()] == ["manageForeign"]
    run(Configure(HostRoutingConfig(), host=host))
    assert LAYOUT.networkd_path not in host.files.texts


def test_a_drop_in_of_somebody_else_stays(host: FakeHost) -> None:
    """A file that we did not write is neither replaced nor removed."""
    host.files.texts[LAYOUT.networkd_path] = "[Network]\nSpeedMeter=yes\n"
    failure_of(run, Configure(TOLD, host=host), match="was not written by hostrouting")
    run(Remove(TOLD, host=host))
    assert host.files.texts[LAYOUT.networkd_path] == "[Network]\nSpeedMeter=yes\n"
