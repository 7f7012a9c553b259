"""The lookups that Linux makes for itself while it changes IPv6 routes: for gateways, and for addresses of its own.

Here: those lookups, for a device. Not here: what a packet meets (`hostrouting.fib`).
"""

from typing import Any

import attrs

from hostrouting.backends.memory.devices import Devices
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Standing, Tables
from hostrouting.fib import PLAIN, Fib
from hostrouting.model import IP, TABLE_LOCAL, TABLE_MAIN, Route, Snapshot

__all__ = ["Lookup6"]


class Lookup6:
    """IPv6 lookups on the tables as they stand."""

    def __init__(self, tables: Tables[Any], rules: Rules, devices: Devices) -> None:
        """Look at these whenever asked."""
        self._tables, self._rules, self._devices = tables, rules, devices

    def is_own(self, address: IP) -> bool:
        """Whether any device holds the address."""
        return any(held.ip == address for device in self._devices for held in device.ipv6)

    def nearest(self, table: int, address: IP, dev: str | None) -> Route | None:
        """What one table has for the address, by this device if there are several."""
        found: list[Route] = []
        for standing in self._tables.covering(int(address), (table,)):
            route: Route = standing.route
            if any(leg.dead for leg in route.legs):
                continue
            if found and (route.prefix, route.metric) != (found[0].prefix, found[0].metric):
                break
            found.append(route)
        return next((route for route in found if dev in route.devs), found[0] if found else None)

    def in_table(self, table: int, address: IP, dev: str | None) -> Route | None:
        """What one table has for the address, by this device, with or without a carrier."""
        return next((it.route for it in self._tables.covering(int(address), (table,)) if _usable(it, dev)), None)

    def everywhere(self, address: IP, dev: str | None) -> Route | None:
        """What the rules lead to, by this device; where a lost carrier matters, it does so here."""
        if not self._rules.custom:
            # Here a route that leads nowhere ends it, also one that throws.
            tables = (TABLE_LOCAL, TABLE_MAIN)
            near = (it for table in tables for it in self._tables.covering(int(address), (table,)))
            return next((it.route for it in near if _usable(it, dev) and self._with_carrier(it)), None)
        every = self._tables.covering(int(address), self._tables)
        covering = [it.route for it in every if _usable(it, dev)]
        links = tuple(device.link for device in self._devices)
        fib = Fib(Snapshot(links=links, rules=self._rules.in_force(), routes=covering))
        return fib.lookup(address, attrs.evolve(PLAIN, ipproto=0, iif="", oif=dev or "")).route

    def _with_carrier(self, standing: Standing) -> bool:
        """Whether it is not passed over because of a lost carrier."""
        legs = standing.route.legs
        return not any(leg.linkdown and self._devices.ignores_linkdown(leg.dev) for leg in legs)


def _usable(standing: Standing, dev: str | None) -> bool:
    # What leads nowhere is kept on lo, and not found by any other device.
    legs = standing.route.legs
    return (dev is None and not legs) or any(dev in {None, leg.dev} and not leg.dead for leg in legs)
