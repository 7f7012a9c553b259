"""What is in doubt, in words, and how an operator names the device that is intended.

A check describes its doubts as soon as it has them, because they decide its verdict. Most doubts
are about a default route. To name the intended device ends these, and an operator needs to know for
that which devices it may be, and what is known of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hostrouting.check.results import (
    FamilyReport,
    RangeInDoubt,
    phrase_of_extents,
)
from hostrouting.config.cni import devices_of
from hostrouting.finding import Finding, Name, Remedy, in_turn
from hostrouting.model.link_kinds import is_card
from hostrouting.model.prefix import extent, ip_at
from hostrouting.model.route import OURS, PROTOCOL_KERNEL, deletion_command, devs_of
from hostrouting.text import grouped, spoken

if TYPE_CHECKING:
    from hostrouting.check.repair_line import RepairLine
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Link, Snapshot


def how_to_allow(kinds: Mapping[str, str], repair: RepairLine) -> Remedy:
    """The remedy if packets are meant to leave through these devices, which are given with their
    kinds.
    """
    named = [f"{dev} ({kind})" if kind else dev for dev, kind in kinds.items()]
    words = f"if leaving through {spoken(named)} is intended"
    return Remedy(words, repair.line("--allow", kinds))


class Wording(NamedTuple):
    """What is said about a doubt, with {holes}."""

    sentence: str
    remedy: Remedy | None = None


DOUBTS = {
    "default-routes": Wording(
        "it is unclear whether packets to {where} should leave through {reason}",
        Remedy("in routeOverlap.expectedDevs, name the intended devices"),
    ),
    "two-cnis": Wording(
        "packets to {where} leave through a device that a CNI may have left behind: {reason}",
        Remedy(
            "drain the node if pods of both run here, then remove the leftovers of the CNI that is "
            "not used"
        ),
    ),
    "doubtful-route": Wording("packets to {where} may be lost: {reason}"),
    "other-packets": Wording("some packets to {where} are routed differently, by {reason}"),
    "unknown-source": Wording(
        "which source packets to {where} have is not known, and matters: {reason}",
        Remedy(
            "check on the host itself, where Linux is asked; if this stays, give the route a "
            "source (src), or correct the rule"
        ),
    ),
    "not-judged": Wording(
        "hostrouting does not judge {reason}",
        Remedy("to ask Linux about one address", "ip route get {address}", needs_root=False),
    ),
    "kernel-differs": Wording(
        "{where}: the kernel answers {reason}",
        Remedy(
            "run it again; if it stays so, look for programs that redirect packets, such as BPF"
        ),
    ),
}
"""By the name of a doubt."""


def describe_doubts(report: FamilyReport, doubts: Iterable[RangeInDoubt]) -> Iterator[Finding]:
    """A finding for all ranges about which there is the same doubt. The report need not have it.

    Where an operator can choose, the facts have the choices, and `what_to_type` adds the line.
    """
    by_opinion = grouped((opinion, (first, last)) for opinion, first, last in doubts)
    for opinion, ranges in by_opinion.items():
        where = phrase_of_extents([extent(report.family, *each) for each in ranges])
        wording = DOUBTS[opinion.name]
        sentence = wording.sentence.format(where=where, reason=opinion.reason)
        remedy = wording.remedy
        if remedy is not None:
            address = ip_at(report.family, ranges[0][0])
            remedy = remedy._replace(command=remedy.command.format(address=address))
        facts: dict[str, Any] = {}
        if opinion.candidates:
            facts["candidates"] = devices_to_name(opinion.candidates, report)
        if opinion.route is not None:
            remedy = in_turn(how_to_delete([opinion.route]))
        if opinion.may_allow:
            facts["mayAllow"] = kinds_of([opinion.may_allow], report)
        if opinion.selection:
            facts["mayIntend"] = opinion.selection
        yield Finding(cast("Name", opinion.name), "warning", sentence, where, remedy, facts)


def what_to_type(finding: Finding, report: FamilyReport, repair: RepairLine) -> Finding:
    """The finding with the lines that name a device, or allow a device or a rule, if its facts have
    some to choose from.
    """
    facts = finding.facts
    if "candidates" in facts:
        remedy = how_to_name_a_device(facts["candidates"], report, repair)
    elif "mayAllow" in facts:
        remedy = how_to_allow(facts["mayAllow"], repair)._replace(otherwise=finding.remedy)
    elif "mayIntend" in facts:
        remedy = Remedy("if this is intended", repair.line("--allow", [facts["mayIntend"]]))
    else:
        return finding
    return finding._replace(remedy=remedy)


def kinds_of(devs: Iterable[str], report: FamilyReport) -> dict[str, str]:
    """The kind of each of these devices; empty for hardware."""
    links = report.snapshot.links_by_name
    return {dev: links[dev].kind for dev in devs if dev in links}


def how_to_delete(routes: Sequence[Route]) -> list[Remedy]:
    """How to delete these routes: an address brings the route to its network back, and the guard a
    configured one.
    """
    if not routes:
        return []
    commands = " && ".join(map(deletion_command, routes))
    prefixes = dict.fromkeys(str(route.prefix) for route in routes)
    words = f"if the route to {spoken([*prefixes])} is not intended"
    connected = devs_of(filter(_leads_to_network_of_address, routes))
    if any(route.protocol == OURS for route in routes):
        words += ", remove hostrouting's from staticRoutes.routes; if it is not there"
    elif connected:
        words += f", give {spoken(sorted(connected))} another network; until the next boot"
    return [Remedy(words, commands)]


def _leads_to_network_of_address(route: Route) -> bool:
    """Whether Linux has this route because a device has an address in the network. It also has one
    to the address alone, which is local.
    """
    if route.protocol != PROTOCOL_KERNEL:
        return False
    return route.type == "unicast" or not route.prefix.is_single


def cards_with_address(report: FamilyReport) -> list[str]:
    """The network cards that have an address, so a default route may be missing there."""
    devs = dict.fromkeys(address.dev for address in report.addresses)
    return [card.name for card in _cards(report.snapshot) if card.name in devs]


def cards_without_address(report: FamilyReport) -> list[str]:
    """The network cards that are up and have no address, as where DHCP has not answered; not those
    of a bond or a bridge, which has the address.
    """
    devs = {address.dev for address in report.addresses}
    cards = _cards(report.snapshot)
    return [card.name for card in cards if card.up and not card.master and card.name not in devs]


def _cards(snapshot: Snapshot) -> list[Link]:
    """The network cards. InfiniBand has no router. A CNI's device leads to pods, and so does a
    bridge without a card, such as docker0.
    """
    links = snapshot.links_by_name
    return [
        link
        for link in snapshot.links
        if is_card(link, links) and not devices_of(link.name, link.kind)
    ]


def devices_to_name(devs: Sequence[str], report: FamilyReport) -> list[str]:
    """The devices to choose from: these, and if no network card is among them, the cards."""
    links = report.snapshot.links_by_name
    if any(is_card(links.get(dev), links) for dev in devs):
        return [*devs]
    return [*dict.fromkeys([*devs, *cards_with_address(report)])]


def how_to_name_a_device(
    devs: Iterable[str], report: FamilyReport, repair: RepairLine
) -> Remedy | None:
    """What to type to choose one of these devices, with what is known of each."""
    return in_turn([_way_to_name(dev, report, repair) for dev in devs])


def _way_to_name(dev: str, report: FamilyReport, repair: RepairLine) -> Remedy:
    """What to do if this device is intended, with what is known of it."""
    words = f"if {dev} is intended"
    known = _known_of(dev, report)
    if known:
        words += f" ({known})"
    return Remedy(words, repair.line("--dev", [dev]))


def _known_of(dev: str, report: FamilyReport) -> str:
    """What tells this device from another one that may be intended: its kind and first address."""
    known = [f"kind {kind}" for kind in kinds_of([dev], report).values() if kind]
    for address in report.addresses:
        if address.dev == dev:
            known.append(f"address {address.ip}")
            break
    return ", ".join(known)
