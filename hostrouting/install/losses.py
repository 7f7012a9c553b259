"""The losses of a run: what protects the host now, and would be taken away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import collapse_addresses

from hostrouting.config.settings import HostRoutingConfig, Network, gated_units
from hostrouting.errors import Fault
from hostrouting.gate.unit_names import template_of
from hostrouting.text import spoken

_REFUSING_SETTINGS = (
    (
        "routeOverlap.mode",
        "overlap",
        "STRICT is installed; with WARN, units start even if addresses escape",
    ),
    (
        "routeOverlap.undecided",
        "undecided",
        '"refuse" is installed; without it, units start even if the verdict is UNDECIDED',
    ),
)
"""For each setting that holds units back: its path, the verdict that it refuses, and the loss."""


def find_losses(
    installed: HostRoutingConfig, gated: Iterable[str], config: HostRoutingConfig
) -> Iterator[Fault]:
    """Yield a fault for each protection that the new configuration (`config`) would take away: a
    CIDR that is checked, STRICT, the refusal of UNDECIDED, the gate of a unit, all static routes,
    the guard. `gated` are the units that have our drop-in now. The installed configuration need not
    name them any more: somebody may have edited it.

    Not a loss:

    - a static route, as long as any is left, because the run and each start of a gated unit check
      the addresses;
    - a CIDR that moves from serviceCidrs to expectedCidrs: it is still checked, and only a route of
      a CNI that refuses its packets is not a fault any more;
    - other devices or rules that are allowed, which only change how the host is judged;
    - `probeRewrite` and `manageForeign`;
    - in WARN, the gate of systemd-nspawn@.service, if it was there only by default (without a
      section `gate`).
    """
    old = installed.route_overlap
    new = config.route_overlap
    cidrs = [str(cidr) for cidr in old.cidrs if not _covers(new.cidrs, cidr)]
    if cidrs:
        rule = f"{spoken(cidrs)} would no longer be checked"
        yield Fault("routeOverlap.expectedCidrs", "", rule)
    for path, verdict, rule in _REFUSING_SETTINGS:
        # A configuration without CIDRs checks nothing, which is the loss above.
        if old.refuses(verdict) and new.cidrs and not new.refuses(verdict):
            yield Fault(path, "", rule)
    # An instance stays gated if its template does.
    wanted = set(gated_units(config))
    units = [unit for unit in gated if wanted.isdisjoint({unit, template_of(unit)})]
    # In WARN, a gate that is there only by default, without a section `gate`, is no loss.
    if units and (installed.gate is not None or old.is_strict):
        yield Fault("gate.units", "", f"{spoken(units)} would no longer wait for the gate")
    if installed.static_routes.routes and not config.static_routes.routes:
        yield Fault("staticRoutes.routes", "", "all static routes would be deleted")
    if installed.guard.enabled and not config.guard.enabled:
        yield Fault("guard.enabled", "", "the guard that repairs routes would be removed")


def _covers(networks: Iterable[Network], cidr: Network) -> bool:
    """Return whether the networks, taken together, contain the whole CIDR."""
    of_family = (network for network in networks if network.version == cidr.version)
    return any(cidr.subnet_of(whole) for whole in collapse_addresses(of_family))  # type: ignore[type-var,arg-type]  # all of one family
