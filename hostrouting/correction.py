"""What to change in a configuration so that it repairs a host: the static routes to add and the entries to delete.

A repair closes what escapes on a host as it is. A configuration may have some of its routes already; it may have others
that cannot be installed, because another program's route has the same destination and metric; and what it does not
have, `apply` deletes. So the change is found on the host as it will be once the configuration is applied.

Here: functions from values to values. Not here: the sentences about a correction (`correction_words`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.configured_routes import plan_static_routes, wanted_routes
from hostrouting.examination import examine_snapshot

if TYPE_CHECKING:
    from hostrouting.config import HostRoutingConfig
    from hostrouting.examination import Examination
    from hostrouting.model import IP
    from hostrouting.plan import RoutePlan
    from hostrouting.uplink import DesiredRoute

__all__ = ["Correction", "correction_of", "find_correction"]


@attrs.frozen
class Correction:
    """What to change in `staticRoutes.routes` of a configuration so that it repairs a host, as far as routes can."""

    add: tuple[DesiredRoute, ...] = ()
    """The routes that it lacks."""
    replaced: tuple[DesiredRoute, ...] = ()
    """Its entries with the destination and metric of a route to add, which takes their place."""
    contested: tuple[DesiredRoute, ...] = ()
    """Its entries to delete, because another program's route has their destination and metric."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.add or self.contested)


def find_correction(found: Examination, config: HostRoutingConfig, *, gateway: IP | None = None) -> Correction:
    """What this configuration lacks to repair what was found; `gateway` is the router that was given for the repair."""
    plan = plan_static_routes(config, found.fib.snapshot)
    if plan.changes:
        found = examine_snapshot(plan.apply_to(found.fib.snapshot), config, gateway=gateway)
    return correction_of(found, config, plan)


def correction_of(after: Examination, config: HostRoutingConfig, plan: RoutePlan) -> Correction:
    """The same, if the host after the plan of this configuration has been examined already."""
    added, lost = {it.key for it in after.routes}, {it.route.key for it in plan.conflicts}
    wanted = wanted_routes(config)
    return Correction(
        after.routes,
        tuple(it for it in wanted if it.key in added),
        tuple(it for it in wanted if it.key in lost and it.key not in added),
    )
