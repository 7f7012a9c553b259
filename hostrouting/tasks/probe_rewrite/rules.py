"""The rules and the route for probes: which are wanted, which exist, and what on the host blocks probes.

Here: values in, values out: the plan that gets from the present state to the wanted one; the record of what was added
to the kernel; and the findings about a host on which probes are lost although rules and route are as they should be.
Not here: the text of the table (`boot.probe`), reading the host, calling nft or the kernel, and the order of the steps
(`task`). How the rewrite works is told at the top of this folder.

The record is a file under /run, which the task and the boot script write before and after they change the kernel. A
reboot clears the kernel's state and the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.boot.probe import ON_LINK, OUR_COMMENT, PROBE_DELETION, TABLE, render_probe_table
from hostrouting.errors import ConfigError, Fault, ProgramError
from hostrouting.finding import Finding, Severity
from hostrouting.host.effects import Operation
from hostrouting.model.prefix import IPV6, Prefix
from hostrouting.model.route import DEFAULT_METRIC, OURS, Route
from hostrouting.routes.plan import RoutePlan, plan_exactly
from hostrouting.routes.uplink import missing_device

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.config.probe_rewrite import ProbeRewriteConfig
    from hostrouting.model.snapshot import Snapshot


def is_rewritten(config: ProbeRewriteConfig, *, source: IPv6Address, destination: IPv6Address, iif: str | None) -> bool:
    """Whether the rules change the source of such a packet to the global address."""
    stays = any(destination in network for network in ON_LINK)
    return config.enabled and source == config.link_local and iif in config.interfaces and not stays


# The record of what was added to the kernel.

_ROUTE = re.compile(r"route ([0-9a-f:.]+)")


@attrs.frozen
class Record:
    """What this configuration and earlier ones may have put into the kernel."""

    routes: tuple[IPv6Address, ...] = ()
    """The address of each route."""
    loaded: str = ""
    """The text that was loaded last, and nft's listing of it without counts; empty if that is not known."""

    @classmethod
    def of(cls, config: ProbeRewriteConfig) -> Self:
        """The route that this configuration adds."""
        return cls((config.global_address,) if config.ensure_route else ())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The record in this text; lines that are not understood are ignored."""
        head, _, loaded = text.partition("\n\n")
        routes = list[IPv6Address]()
        for found in filter(None, map(_ROUTE.fullmatch, head.splitlines())):
            with suppress(ValueError):
                routes.append(IPv6Address(found[1]))
        return cls(tuple(routes), loaded)

    def __add__(self, other: Record) -> Record:
        """The record of both, without repetitions."""
        return Record(tuple(dict.fromkeys((*self.routes, *other.routes))), self.loaded)

    def __str__(self) -> str:
        lines = [f"route {address}" for address in self.routes]
        return "\n".join(lines) + f"\n\n{self.loaded}"


# The changes that are needed.


class RewritePlan(NamedTuple):
    """The changes to make, first to the table and then to the route, and what prevents them."""

    text: str = ""
    """What nft has to load; empty if the table is as it should be."""
    on_table: tuple[Operation, ...] = ()
    """The same in words, each with its reason."""
    routes: RoutePlan = RoutePlan()
    waits: str = ""
    """What has to be there before the route can be added, such as `the device eth0 to be up`; empty if nothing."""
    is_off: bool = False
    """Whether that is IPv6, which is disabled: then there are no probes to lose, and only an operator enables it."""
    foreign: str = ""
    """Why the table cannot be loaded: another program has one with its name."""
    taken: str = ""
    """The device of this host that has the global address."""
    wanted: ProbeRewriteConfig | None = None
    """None if nothing is wanted any more."""
    wanted_text: str = ""
    """The text of the wanted table."""
    section: str = "probeRewrite"
    """The path of the settings in the configuration."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The changes in words, that of the table first."""
        on_route = (Operation(step.action, f"route {step.route}", step.why) for step in self.routes.changes)
        return (*self.on_table, *on_route)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Why the table or the route cannot be installed, each a sentence."""
        found = [str(self._taken_address)] if self.taken else []
        found += [self.foreign] if self.foreign else []
        return (*found, *(f"{step.route.prefix}: {step.why}" for step in self.routes.conflicts))

    @property
    def apart(self) -> tuple[RewritePlan, RewritePlan]:
        """The change of the table, and those of routes, as two plans."""
        return (self._replace(routes=RoutePlan(), taken=""), self._replace(text="", on_table=(), foreign=""))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What prevents the changes, or delays them."""
        conflicts = tuple(Finding("probe-rewrite", "error", conflict) for conflict in self.conflicts)
        return (*conflicts, *self._waiting)

    @property
    def _waiting(self) -> Iterator[Finding]:
        config = self.wanted
        if config is not None and self.waits:
            added = "; the guard or the next start of a gated unit then adds the route"
            severity: Severity = "note" if self.is_off else "warning"
            yield _finding("waits", config.interfaces[0], f"{_of_lack(self.waits)}{added}", severity)

    def require_possible(self) -> None:
        """Raise the error of the first conflict, if there is one."""
        if self.taken:
            raise self._taken_address
        if self.foreign:
            raise ProgramError(self.foreign, program="nft", kind="owned")
        self.routes.require_possible()

    @property
    def _taken_address(self) -> ConfigError:
        rule = f"is an address of this host, on {self.taken}, so the replies to probes would not leave it"
        known = "" if self.wanted is None else f'"{self.wanted.global_address}"'
        return ConfigError([Fault(f"{self.section}.globalAddress", known, rule, "write an address that no host has")])


def plan_rewrite(
    config: ProbeRewriteConfig, record: Record, listing: str | None, snapshot: Snapshot, *, up: bool
) -> RewritePlan:
    """The changes from the present state to the configuration; with `up` false, to nothing of ours.

    `listing` is the table as nft lists it, without counts; None if it is absent.
    """
    operations: list[Operation] = []
    text, foreign, wanted = "", "", render_probe_table(config) if up else ""
    title, is_ours = f"nftables table ip6 {TABLE}", listing is not None and OUR_COMMENT in listing
    if not up:
        if is_ours:
            text = PROBE_DELETION
            operations.append(Operation("delete", title, "it is no longer wanted"))
    elif listing is None or is_ours:
        if why := _difference(wanted, record.loaded, listing):
            text = wanted
            operations.append(Operation("create" if listing is None else "replace", title, why))
    else:
        foreign = (
            f"{title} is not ours: nothing in it has a comment that begins with 'hostrouting:'; "
            "delete it, and stop the program that creates it"
        )
    about = {Prefix.of(IPv6Network(address)) for address in record.routes}
    route, waits = _wanted_route(config) if up else None, ""
    if route is not None:
        waits = _lack(config.interfaces[0], snapshot)
        about.add(route.prefix)
    taken = (address.dev for address in snapshot.addresses if up and address.ip == config.global_address)
    return RewritePlan(
        text=text,
        on_table=tuple(operations),
        routes=plan_exactly(() if waits or route is None else (route,), snapshot, about=about),
        waits=waits,
        is_off=bool(waits) and _is_off(config.interfaces[0], snapshot),
        foreign=foreign,
        taken=next(taken, ""),
        wanted=config if up else None,
        wanted_text=wanted,
    )


def _difference(wanted: str, loaded: str, listing: str | None) -> str:
    """Why the table is not in force; empty if it is."""
    if listing is None:
        return "it is missing"
    if not loaded.startswith(wanted):
        return "it was loaded by another configuration" if loaded else "it is not known how it was loaded"
    was, now = (text.splitlines() for text in (loaded.removeprefix(wanted), listing))
    for lines, others, told in ((now, was, "a line was added to it"), (was, now, "a line of it is missing")):
        if new := [line.strip() for line in lines if line not in others]:
            return f"{told}: {new[0]}"
    return "" if was == now else "its lines are in another order"


def _wanted_route(config: ProbeRewriteConfig) -> Route | None:
    """The route that sends replies to the uplink; None if no uplink is configured, or `ensure_route` is false."""
    if not (config.ensure_route and config.interfaces):
        return None
    prefix, [dev] = Prefix.of(IPv6Network(config.global_address)), config.interfaces
    return Route.to(prefix, dev=dev, metric=DEFAULT_METRIC[IPV6], protocol=OURS)


def _lack(dev: str, snapshot: Snapshot) -> str:
    """What a route by this device still needs; empty if nothing."""
    return missing_device(dev, snapshot.link(dev), family=IPV6) or ""


def _is_off(dev: str, snapshot: Snapshot) -> bool:
    """Whether this device needs nothing but IPv6."""
    link = snapshot.link(dev)
    return link is not None and link.up and link.ipv6_disabled


def _of_lack(lack: str) -> str:
    return f"waiting for {lack}: until then no probe arrives there, and the loaded rules match nothing"


# What blocks probes, or may block them, although rules and route are as they should be.

_RIVAL = "azureslbprobe"
"""A part of the name of tables that other agents create and delete for the same purpose."""


class Surroundings(NamedTuple):
    """The facts about a host that matter to a rewrite, except for the table."""

    snapshot: Snapshot
    settings: Mapping[str, int] = {}
    """By their paths below net.ipv6.conf, such as `eth0.accept_ra`: those that are known."""
    way_back: tuple[str, ...] | None = None
    """The outgoing devices for a packet to the global address; None if that is not known."""
    tables: tuple[tuple[str, str], ...] = ()
    """Family and name of every nftables table."""


def find_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> tuple[Finding, ...]:
    """Facts about the host that block probes, or may, although the rules and the route are in force."""
    return tuple(_hindrances(config, around))


def _hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Finding]:
    snapshot, known = around.snapshot, config.global_address
    for dev in config.interfaces:
        yield from _device_hindrances(dev, config, around)
    if not all(_lack(dev, snapshot) for dev in config.interfaces):
        near = [address.ip for address in snapshot.addresses if address.dev in config.interfaces]
        has_ipv6 = any(isinstance(ip, IPv6Address) and not (ip.is_link_local or ip.is_site_local) for ip in near)
        severity: Severity = "warning" if has_ipv6 else "note"  # without an address no probe is sent to this host
        if around.settings.get("all.forwarding") == 0:
            setting = "net.ipv6.conf.all.forwarding"
            sentence = (
                f"{setting} is 0, so no probe is forwarded to a pod; set it to 1, and accept_ra of the uplink to 2"
            )
            yield _finding("forwarding-off", setting, sentence, severity)
        if around.way_back is not None and not set(around.way_back) & set(config.interfaces):
            ways, uplinks = " and ".join(around.way_back), " or ".join(config.interfaces)
            ways = f"leaves by {ways}" if ways else "has no route"
            sentence = f"a packet to {known} {ways}, so replies to probes are lost"
            remedy = "it has to leave by" if config.ensure_route else "set ensureRoute to true, or add a route by"
            yield _finding("no-way-back", str(known), f"{sentence}; {remedy} {uplinks}", severity)
    for family, name in around.tables:
        if _RIVAL in name.lower():
            sentence = f"the nftables table {family} {name} has the same purpose; other agents create and delete it"
            yield _finding("other-table", f"{family} {name}", f"{sentence}; it is not changed", "note")


def _device_hindrances(dev: str, config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Finding]:
    snapshot, settings = around.snapshot, around.settings
    link, lack = snapshot.link(dev), _lack(dev, snapshot)
    if lack and not config.ensure_route:  # otherwise the plan has it
        yield _finding("waits", dev, _of_lack(lack), "note" if _is_off(dev, snapshot) else "warning")
    # For a port of a bridge or a bond, prerouting runs once, with the bridge or bond as the device. For a port of a VRF
    # it runs twice: Linux runs the hook in ip6_rcv for the port, passes the packet to the VRF, and runs it again there.
    master = None if link is None or link.master is None else snapshot.link(link.master)
    if link is not None and link.master is not None and not (master is not None and master.kind == "vrf"):
        sentence = f"{dev} is a port of {link.master}, so its packets arrive on {link.master} and no rule matches them"
        yield _finding("link-enslaved", dev, f"{sentence}; name {link.master} in probeRewrite.interfaces", "warning")
    if settings.get(f"{dev}.accept_ra") == 1 and settings.get("all.forwarding"):
        setting = f"net.ipv6.conf.{dev}.accept_ra"
        sentence = f"{setting} is 1, so a host that forwards ignores router advertisements, and loses the default"
        yield _finding("accept-ra", setting, f"{sentence} route that they install; set it to 2", "note")


def _finding(kind: str, target: str, told: str, severity: Severity) -> Finding:
    """A fact about the host that blocks probes, or (a note) may block them."""
    return Finding("probe-rewrite", severity, told, target, facts={"kind": kind})
