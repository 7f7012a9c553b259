"""What is in doubt, in words, and how an operator names the device that is intended.

A check describes its doubts as soon as it has them, because they decide its verdict. Most doubts
are about a default route. To name the intended device ends these, and an operator needs to know for
that which devices it may be, and what is known of each.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hostrouting.check.results import (
    DOUBTFUL_ROUTE,
    FamilyReport,
    Opinion,
    RangeInDoubt,
    extents_of,
    phrase_of_extents,
)
from hostrouting.command import Command, call, joined
from hostrouting.config.cni import devices_of
from hostrouting.config.settings import is_configurable_dev
from hostrouting.finding import Finding, Name, Remedy, in_turn
from hostrouting.model.link_kinds import is_card, is_tunnel
from hostrouting.model.prefix import ip_at
from hostrouting.model.route import deletion_command
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.model.prefix import Prefix
    from hostrouting.model.snapshot import Address


def line_naming(dev: str, cidrs: Iterable[Prefix]) -> Command:
    """The line to type that has this device expected."""
    return _repair_line("--dev", [dev], cidrs)


def line_allowing(devs: Iterable[str], cidrs: Iterable[Prefix]) -> Command:
    """The line to type that has these devices allowed, or the rules with these selectors."""
    return _repair_line("--allow", devs, cidrs)


def _repair_line(option: str, devs: Iterable[str], cidrs: Iterable[Prefix]) -> Command:
    words = ["repair", *map(str, cidrs)]
    for dev in devs:
        words += [option, dev]
    return joined(" | ", call(shlex.join(words)), call("apply --config -"))


def how_to_allow(kinds: Mapping[str, str], command: Command) -> Remedy:
    """The remedy if packets are meant to leave through these devices, of which the kinds are given:
    the command allows them.
    """
    named = [f"{dev} ({kind})" if kind else dev for dev, kind in kinds.items()]
    return Remedy(f"if leaving through {spoken(named)} is intended", command)


class Wording(NamedTuple):
    """What is said about a doubt, with {holes}."""

    sentence: str
    remedy: Remedy


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
    "doubtful-route": Wording(
        "packets to {where} may be lost: {reason}",
        Remedy("if this is not intended, correct the route, or delete it"),
    ),
    "other-packets": Wording(
        "some packets to {where} are routed differently, by {reason}",
        Remedy("if this is intended"),
    ),
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
    """A finding for all ranges about which there is the same doubt. The report need not have it."""
    doubts = [*doubts]
    for opinion, extents in extents_of(report.family, doubts).items():
        where = phrase_of_extents(extents)
        wording = DOUBTS[opinion.name]
        sentence = wording.sentence.format(where=where, reason=opinion.reason)
        first = min(first for each, first, _ in doubts if each == opinion)
        command = wording.remedy.command.format(address=ip_at(report.family, first))
        remedy: Remedy | None = wording.remedy._replace(command=command)
        facts: dict[str, Any] = {}
        if opinion.candidates:
            devs = devices_to_name(opinion.candidates, report)
            remedy = how_to_name_a_device(devs, report)
            facts["candidates"] = devs
        elif opinion.name == DOUBTFUL_ROUTE:
            kinds = _kinds_to_allow(opinion, report)
            remedy = _how_to_end_doubt(opinion, kinds, report, wording.remedy.words)
            if kinds:
                facts["mayAllow"] = kinds
        elif opinion.selection:
            facts["mayIntend"] = opinion.selection
            allowing = line_allowing([opinion.selection], report.cidrs)
            remedy = wording.remedy._replace(command=allowing)
        yield Finding(cast("Name", opinion.name), "warning", sentence, where, remedy, facts)


def _kinds_to_allow(opinion: Opinion, report: FamilyReport) -> dict[str, str]:
    """The device that ends the doubt if it is allowed, with its kind; none if there is none."""
    link = report.snapshot.links_by_name.get(opinion.may_allow)
    if link is None or not is_configurable_dev(link.name):
        return {}
    return {link.name: link.kind}


def _how_to_end_doubt(
    opinion: Opinion, kinds: Mapping[str, str], report: FamilyReport, otherwise: str
) -> Remedy | None:
    """How to allow the device by which packets may be lost, and how to delete the route."""
    deletion = "" if opinion.route is None else deletion_command(opinion.route)
    ways = [Remedy(otherwise, deletion)]
    if kinds:
        ways.insert(0, how_to_allow(kinds, line_allowing(kinds, report.cidrs)))
    return in_turn(ways)


def cards_with_address(report: FamilyReport) -> list[Address]:
    """The addresses of network cards, by which a default route could lead. A CNI's device leads to
    pods, and so does a bridge without a card, such as docker0.
    """
    links = report.snapshot.links_by_name
    addresses: list[Address] = []
    for address in report.addresses:
        link = links.get(address.dev)
        if link is None or not is_card(link, links) or devices_of(link.name, link.kind):
            continue
        addresses.append(address)
    return addresses


def devices_to_name(devs: Sequence[str], report: FamilyReport) -> list[str]:
    """Of which devices one is intended: of these, or if there is only one, perhaps of the cards."""
    if len(devs) > 1:
        return [*devs]
    return [*dict.fromkeys([*devs, *(address.dev for address in cards_with_address(report))])]


def how_to_name_a_device(devs: Sequence[str], report: FamilyReport) -> Remedy | None:
    """How to name each of these devices, of which one is intended; with what is known of it.

    The last way is for the case that none of the others is right: if there is one device, another
    may be intended; if one of several is a tunnel, it may have a default route by mistake.
    """
    ways = [_way_to_name(dev, report) for dev in devs]
    links = report.snapshot.links
    tunnels = [link.name for link in links if link.name in devs and is_tunnel(link)]
    if len(devs) == 1:
        ways.append(Remedy("if another device is intended", line_naming("NAME", report.cidrs)))
    elif tunnels:
        words = f"if {spoken(tunnels, last='or')} should not have a default route"
        ways.append(Remedy(f"{words}, correct the program that sets it"))
    return in_turn(ways)


def _way_to_name(dev: str, report: FamilyReport) -> Remedy:
    """What to do if this device is intended, with what is known of it."""
    words = f"if {dev} is intended"
    known = _known_of(dev, report)
    if known:
        words += f" ({known})"
    if is_configurable_dev(dev):
        return Remedy(words, line_naming(dev, report.cidrs))
    return Remedy(f"{words}, give it another name: a configuration cannot have this one")


def _known_of(dev: str, report: FamilyReport) -> str:
    """What tells this device from another one that may be intended: its kind, its best default
    route and its first address.
    """
    links = report.snapshot.links
    known = [f"kind {link.kind}" for link in links if link.name == dev and link.kind]
    all_defaults = report.snapshot.default_routes(report.family)
    defaults = [route for route in all_defaults if dev in route.devs]
    if defaults:
        best = min(defaults, key=attrgetter("metric"))
        known.append(f"[{best}]")
    for address in report.addresses:
        if address.dev == dev:
            known.append(f"address {address.ip}")
            break
    return ", ".join(known)
