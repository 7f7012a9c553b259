"""Two agents at once on a new host: neither ends without its check."""

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import RouteOverlapError
from hostrouting.install.installed import Wanted
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, h200
from tests.support.sections import expect
from tests.support.tasks import failure_of, run

STRICT = HostRoutingConfig(route_overlap=expect("172.16.0.0/16", mode="STRICT"))


class SlowConfigure(Configure):
    """It reads that nothing is installed, then another run installs the same, and then it looks at
    the files.
    """

    reads = 0

    def wanted(self) -> Wanted:
        """See InstallTask."""
        wanted = super().wanted()
        SlowConfigure.reads += 1
        if SlowConfigure.reads == 1:
            failure_of(run, Configure(STRICT, host=self.host), of=RouteOverlapError)
        return wanted


def test_the_slower_run_checks_too() -> None:
    """In STRICT it fails as the other one did: addresses escape."""
    report = phases.run(SlowConfigure(STRICT, host=FakeHost(kernel=h200())), observers=[])
    assert not report.ok, str(report)
    assert "leaves through ib0" in str(report)
