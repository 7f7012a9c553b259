"""What a redacted snapshot is compared by."""

import attrs

from hostrouting.check.examine import examine_snapshot
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.redaction import Redaction
from hostrouting.model.snapshot import Snapshot


def judged_alike(host: Snapshot, config: HostRoutingConfig, redaction: Redaction) -> None:
    """Compare the verdicts on a host, the ways of what escapes, and the repairs, with those on the redacted host."""
    cidrs = [redaction.network(cidr) for cidr in config.route_overlap.expected_cidrs]
    redacted = attrs.evolve(config, route_overlap=attrs.evolve(config.route_overlap, expected_cidrs=cidrs))
    before, after = examine_snapshot(host, config), examine_snapshot(redaction.snapshot(host), redacted)
    for then, now in zip(before.families, after.families, strict=True):
        assert then.verdict == now.verdict
        ways = {(finding.kind, tuple(map(redaction.device, finding.devs))) for finding in then.escapes}
        assert ways == {(finding.kind, finding.devs) for finding in now.escapes}
        repair = {redaction.prefix(route.destination) for route in then.repair.routes}
        assert repair == {route.destination for route in now.repair.routes}
