"""By which device and gateway a repair leads packets out, or what is missing for that.

The routes of a repair are for a configuration. They leave the device out if the default route of
table main is sure to fill in an expected one: then one configuration fits many hosts. Otherwise
they name the first expected device by which a default route leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.config.settings import StaticRoute
from hostrouting.errors import ConfigError
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.routes.uplink import Need, Uplink, is_tap, is_tunnel
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge


class WayOut(NamedTuple):
    """The way of all routes of a repair."""

    dev: str | None
    """The device that the routes name in a configuration; None if they leave it out."""
    route: Route
    """A route with the next hops."""


def find_way_out(judge: Judge) -> WayOut | Need:
    """How packets leave as expected, or what is missing for that.

    While a default route is in doubt, there is no way out: the intended device has to be named.
    """
    uplinks = judge.uplinks
    devs = [dev for dev in sorted(uplinks.devs) if _may_lead_out(judge, dev)]
    if not devs or uplinks.doubtful:
        return _need_for_a_name(judge)
    every = Prefix(judge.fib.family, 0, 0)
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    default = uplink.route_to(every)
    if isinstance(default, Route) and uplinks.devs.issuperset(default.devs):
        return WayOut(None, default)
    needs: list[Need] = []
    for dev in devs:
        route = uplink.route_to(every, dev=dev)
        if not _is_configurable(dev, every):
            needs.append(Need(f"a device whose name a configuration can have, not {dev!r}"))
        elif isinstance(route, Need):
            needs.append(route)
        else:
            return WayOut(dev, route)
    # Any of the devices would do, so what is missing for one of them is enough to go on.
    return needs[-1]


def _may_lead_out(judge: Judge, dev: str) -> bool:
    """Whether a repair may lead through this expected device.

    A tunnel has to be named in the configuration, unless it is a tap: where the default route of a
    tap is not in doubt, the tap is the only way out.
    """
    link = judge.devices.links.get(dev)
    return dev in judge.configured_devs or not is_tunnel(link) or is_tap(link)


def _need_for_a_name(judge: Judge) -> Need:
    uplinks = judge.uplinks
    candidates = sorted(uplinks.devs | uplinks.doubtful)
    if uplinks.are_without_card:
        candidates.append("the network card that is meant")
    names = spoken(candidates, last="or")
    return Need(f"its device to be named: write {names} into routeOverlap.expectedDevs first")


def _is_configurable(dev: str, every: Prefix) -> bool:
    """Whether a configuration can have the name: Linux takes nearly any letter."""
    try:
        StaticRoute(every.halves()[0].to_network(), dev=dev)
    except ConfigError:
        return False
    return True
