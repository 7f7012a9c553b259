"""By which device and gateway a repair leads packets out, or what is missing for that.

The routes of a repair are for a configuration. They leave the device out if the best default route
of table main supplies an expected one: then one configuration fits many hosts. Otherwise they name
the first expected device that has a default route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.expected import choice_between, devs_that_count
from hostrouting.config.settings import is_configurable_dev
from hostrouting.model.link_kinds import is_tap, is_tunnel
from hostrouting.model.prefix import Prefix
from hostrouting.routes.uplink import Need, Uplink

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.model.route import Route


class WayOut(NamedTuple):
    """Where all routes of a repair lead."""

    dev: str | None
    """The device that the routes name in a configuration; None if they leave it out."""
    default_route: Route
    """A default route as a configuration would make it, with the next hops of all routes."""
    uplink: Uplink

    def route_to(self, prefix: Prefix) -> Route | Need:
        """The route of a repair to this prefix; or what it needs before Linux accepts it."""
        return self.uplink.route_to(prefix, dev=self.dev)


def find_way_out(judge: Judge) -> WayOut | Need:
    """How packets leave as expected: by routes without a device, else by the first device by which
    it is possible. Or what is missing for that.

    While a default route is in doubt, there is no way out: the intended device has to be named. So
    it has where the host has none of the expected devices.
    """
    uplinks = judge.uplinks
    devs = [dev for dev in sorted(uplinks.devs) if _may_lead_out(judge, dev)]
    if not devs or uplinks.doubtful:
        return _need_for_a_name(judge)
    everywhere = Prefix(judge.fib.family, 0, 0)
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    # No device is named, if Linux then uses expected ones. A tunnel that nobody has named is never
    # among these: alone it may not lead out, and beside other devices it is in doubt.
    needs: list[Need] = []
    for dev in [None, *devs]:
        route = uplink.route_to(everywhere, dev=dev)
        if isinstance(route, Need):
            needs.append(route)
        elif uplinks.devs.issuperset(route.devs):
            return WayOut(dev, route, uplink)
    need = needs[-1]  # any of the devices would do, so what one of them needs is enough
    if judge.devices.links.keys().isdisjoint(devs):  # a card was renamed, for example
        counting = devs_that_count(need.defaults, judge.devices.links)
        need = need._replace(devs=tuple(sorted(counting)))
    return need


def _may_lead_out(judge: Judge, dev: str) -> bool:
    """Whether a repair may lead through this expected device, and a configuration can name it.

    A tunnel has to be named in the configuration, because it may be a VPN's. A tap need not be: as
    the only way out it is not a VPN's, and beside another it is in doubt.
    """
    if dev in judge.configured_devs:
        return True
    if not is_configurable_dev(dev):
        return False
    link = judge.devices.links.get(dev)
    return is_tap(link) or not is_tunnel(link)


def _need_for_a_name(judge: Judge) -> Need:
    """That the intended device is named, of all that may be it."""
    devs = sorted(judge.uplinks.devs)
    phrase = f"its device to be named in routeOverlap.expectedDevs: {choice_between(devs)}"
    return Need(phrase, devs=tuple(devs))
