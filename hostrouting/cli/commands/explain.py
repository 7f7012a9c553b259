"""`explain`: the way of a packet, told: which rules were tried, the route that decides, its owner, the device.

How a packet's way is found is in `explanation`.
"""

from __future__ import annotations

import argparse

from hostrouting.cli.command import FINE, Command, Reply, config_option, devs_option
from hostrouting.cli.page import SHOWN, Painted, capped, line, spoken, table

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.backends.base import RouteBackend
    from hostrouting.cli.check import Check
    from hostrouting.cli.explanation import Explanation
    from hostrouting.cli.page import Line, Style, Tone
    from hostrouting.fib import Flow, Variant
    from hostrouting.fib.trace import Tried
    from hostrouting.host import Host
    from hostrouting.model import IP, Link, Route

__all__ = ["COMMAND"]

_KNOWN = ("source", "iif", "oif", "mark", "tos", "uid", "ipproto", "sport", "dport")
_PASSED = {
    "shorter": "its prefix is shorter",
    "metric": "its metric is higher",
    "tie": "same prefix and metric, but listed later",
    "tos": "it is for another type of service",
    "oif": "it leaves by another device than the socket is bound to",
    "down": "none of its devices can be used",
}
_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "warn"}
_FATE = {
    "no-route": "goes nowhere: no rule leads to a route for it",
    "unreachable": "is refused: unreachable",
    "prohibit": "is refused: prohibited",
    "blackhole": "vanishes in a blackhole",
    "local": "is this host's own address: it goes nowhere else",
    "broadcast": "is a broadcast address: it goes to all on its network",
    "multicast": "is a multicast address: it goes to whoever listens",
    "anycast": "is an anycast address of this host's own",
}
_KINDS = {1: "Ethernet", 772: "loopback"}  # by ARPHRD number
_OWNERS = {
    "kernel": "the kernel, with the address on the device",
    "boot": "somebody by hand, with ip route (iproute2's default)",
    "dhcp": "the DHCP client",
    "hostrouting": "us, as a static route of the configuration",
}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="where the packet goes, such as 172.16.5.9")
    devs_option(parser)
    config_option(parser)
    known = parser.add_argument_group("what else is known of the packet")
    known.add_argument("--from", dest="source", metavar="ADDRESS", help="its source address")
    known.add_argument("--iif", metavar="DEV", help="the device by which it comes in; lo: the host makes it itself")
    known.add_argument("--oif", metavar="DEV", help="the device that its socket is bound to")
    for name, what in (
        ("mark", "its mark"),
        ("tos", "its type of service"),
        ("uid", "the user whose socket it is from"),
        ("ipproto", "its protocol number: 6 for TCP, 17 for UDP"),
        ("sport", "its source port"),
        ("dport", "its destination port"),
    ):
        known.add_argument(f"--{name}", metavar="N", type=_number, help=what)


def _number(text: str) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 4294967295, such as 10 or 0xa")
    return number


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.check import Check
    from hostrouting.cli.explanation import explain, explain_document
    from hostrouting.cli.source import address_of, config_of, known_devices, looked_at
    from hostrouting.errors import ConfigError, Fault
    from hostrouting.fib import Flow

    address = address_of(arguments.address, "ADDRESS")
    source = None if arguments.source is None else address_of(arguments.source, "--from")
    if source is not None and source.version != address.version:
        fault = Fault("--from", repr(arguments.source), f"is no IPv{address.version} address", "as ADDRESS is one")
        raise ConfigError([fault])
    known = {name: getattr(arguments, name) for name in _KNOWN}
    flow = Flow(**{**known, "source": source})
    config = config_of(arguments)
    source_note, flow = _seen_by_rules(arguments, host, address, flow)
    with looked_at(arguments, host) as backend:
        snapshot = backend.snapshot(family=address.version)
        known_devices(arguments, snapshot)
        it = explain(snapshot, address, flow, expected=config.route_overlap.expected_devs)
        surprise = _surprise(it, backend, flow)
    return Reply(
        FINE,
        lambda: {**explain_document(it), "source": source_note, "surprise": surprise},
        lambda style: _page(it, Check.of(snapshot, config), source=source_note, surprise=surprise, style=style),
    )


def _seen_by_rules(
    arguments: argparse.Namespace, host: Callable[[], Host], address: IP, flow: Flow
) -> tuple[str, Flow]:
    """What becomes of a link-local source before routing, in a sentence, and the packet as routing sees it."""
    from ipaddress import IPv6Address

    import attrs

    from hostrouting.cli.source import config_of, installed_config
    from hostrouting.cli.standings import Standings
    from hostrouting.config import HostRoutingConfig
    from hostrouting.probe_rewrite import is_rewritten

    source = flow.source
    if (
        not isinstance(source, IPv6Address)
        or not isinstance(address, IPv6Address)
        or not source.is_link_local
        or flow.iif == "lo"
    ):
        return "", flow
    here = arguments.config is None and arguments.snapshot is None
    config = (installed_config(host()) or HostRoutingConfig()) if here else config_of(arguments)
    settings = config.probe_rewrite
    if flow.iif is None:
        ways = [it for it in settings.interfaces if is_rewritten(settings, source=source, destination=address, iif=it)]
        told = f"what comes in by {' or '.join(ways)} from {source} becomes {settings.global_address} before routing"
        return (f"{told}: add --iif {ways[0]} to follow it" if ways else ""), flow
    if not is_rewritten(settings, source=source, destination=address, iif=flow.iif):
        if address.is_link_local or address.is_multicast:
            return "", flow
        told = f"Linux does not forward what comes from {source}: the address is valid on its own link only"
        return f"{told}; the section probeRewrite of a configuration rewrites the source of load-balancer probes", flow
    told = f"the source {source} becomes {settings.global_address} before routing (nftables table ip6 {settings.table})"
    if not arguments.snapshot:
        standings = Standings.on(host(), config)
        faults = (*standings.troubles, *standings.faults)
        told += f"; but that is not in force: {'; '.join(faults)}" if faults else ""
    return told, attrs.evolve(flow, source=settings.global_address)


def _surprise(it: Explanation, backend: RouteBackend, flow: Flow) -> str:
    """What the kernel itself answers, where that is not what follows from its tables."""
    from hostrouting.errors import BackendError

    trace = it.trace
    comes_in = flow.iif not in {None, "lo"}
    # What comes in from nowhere Linux refuses before it looks at any route.
    if trace.kind != "unicast" or trace.route is None or (comes_in and flow.source is None):
        return ""
    try:
        [answer] = backend.lookup([trace.address], flow)
    except BackendError as error:
        return f"the kernel itself was not heard: {error}"
    if answer.route is not None and (answer.route.prefix, answer.route.devs) == (trace.route.prefix, trace.route.devs):
        return ""
    if comes_in and answer.kind == "blackhole":
        reason = f"by rp_filter, or since nothing from {flow.source} can come from there"
        return f"the kernel itself drops it as it comes in by {flow.iif}: {reason}"
    told = f"the kernel itself answers {answer.route or answer.kind}, which is not what its tables say"
    is_kept = comes_in and answer.kind == "unreachable"
    return f"{told}; it does so where forwarding is off on {flow.iif}" if is_kept else told


def _page(it: Explanation, check: Check, *, source: str, surprise: str, style: Style) -> Iterator[Line]:
    yield _answer_line(it)
    if source:
        yield line(Painted(f"{source[0].upper()}{source[1:]}.", "warn"))
    if surprise:
        yield line(Painted(f"But {surprise}.", "warn"))
    yield line()
    rules = [(str(tried.rule), _came_to(tried)) for tried in it.trace.tried]
    yield from table(("rule", "what it says"), rules) if rules else (line("  This host has no rules at all."),)
    if it.trace.route is not None:
        yield line()
        yield from _facts(it, it.trace.route)
    rows = [(str(passed.route), _PASSED[passed.reason]) for passed in it.trace.passed if passed.reason != "tie"]
    if rows:
        yield line()
        yield line("Other routes that cover it, and do not decide:")
        yield from capped(table(("route", "why not"), rows[:SHOWN]), len(rows))
    yield from _map(it, check, style)
    yield from _limits(it)


def _map(it: Explanation, check: Check, style: Style) -> Iterator[Line]:
    """Where the address is among its neighbours: in the expected CIDR that it is of, or in the route's block."""
    from hostrouting.cli.cidr_map import draw_map, segments_of

    if it.trace.kind not in {"unicast", "no-route", "unreachable", "blackhole", "prohibit"}:
        return
    report = check.found.report
    if not it.outbound:
        return
    block = next((cidr for cidr in report.cidrs if it.trace.address in cidr), None)
    hosts = [("now", check.fib)] + ([("repaired", after)] if block and (after := check.repaired) else [])
    place = block or it.around
    yield line()
    rows = [
        (name, segments_of(fib, place, expected_devs=it.outbound, allowed_devs=report.allowed_devs, flow=it.trace.flow))
        for name, fib in hosts
    ]
    yield from draw_map(place, rows, style, mark=int(it.trace.address))


def _answer_line(it: Explanation) -> Line:
    trace, address = it.trace, Painted(str(it.trace.address), "strong")
    if trace.kind != "unicast":
        tone: Tone = _TONES[it.as_expected]
        return line(address, " ", Painted(_FATE.get(trace.kind, trace.kind), tone))
    devs = Painted(" or ".join(trace.devs) or "a device that is not known", _TONES[it.as_expected])
    gateways = list(dict.fromkeys(str(leg.gateway) for leg in trace.legs if leg.gateway is not None))
    through = f" through {' or '.join(gateways)}" if gateways else ", straight to the neighbour"
    who = "the configuration expects" if it.named else "the default route would take it by"
    beside = f"; {who} {' or '.join(it.outbound)}" if it.as_expected is False else ""
    return line(address, " leaves by ", devs, through, beside)


def _came_to(tried: Tried) -> Painted:
    from hostrouting.model import table_name

    rule, where = tried.rule, table_name(tried.rule.table)
    match tried.result:
        case "decides":
            return Painted(f"decides, by the route {_named(tried.route)}", "strong")
        case "refused":
            return Painted(f"decides: {rule.action}", "bad")
        case "no-route":
            return Painted(f"nothing for it in table {where}", "soft")
        case "suppressed":
            return Painted(f"finds {_named(tried.route)}, which it is told not to take", "warn")
        case "thrown":
            return Painted(f"finds {_named(tried.route)}, which sends it on to the next rule", "warn")
        case "jump":
            return Painted(f"goes on at {rule.target}", "soft")
        case "nothing":
            return Painted("does nothing", "soft")
        case "not-selected":
            asked = "" if tried.selector is None else f": only {' '.join(tried.selector)}"
            return Painted(f"not for this packet{asked or ': it is for all others'}", "soft")


def _named(route: Route | None) -> str:
    from hostrouting.wording import prefix_name

    return "no route" if route is None else prefix_name(route.prefix)


def _facts(it: Explanation, route: Route) -> Iterator[Line]:
    """What there is to know about the deciding route, a word and a fact a line."""
    from hostrouting.model import table_name

    facts: list[tuple[str, str | Painted]] = [
        ("route", str(route)),
        ("table", table_name(route.table)),
        ("owner", _owner(it, route)),
        *(("device", _device(link)) for link in it.links),
        *(
            ("device", Painted(f"{dev}: it is not there", "bad"))
            for dev in it.trace.devs
            if dev not in {x.name for x in it.links}
        ),
    ]
    if len(it.trace.legs) > 1:
        facts.append(("ways", f"{len(it.trace.legs)}, of which each connection takes one"))
    ties = [passed.route for passed in it.trace.passed if passed.reason == "tie"]
    if ties:
        devs = list(dict.fromkeys(dev for tie in ties for dev in tie.devs))
        count = "1 more says" if len(ties) == 1 else f"{len(ties)} more say"
        facts.append(
            (
                "ties",
                f"{count} the same, by {', '.join(devs)}; the one listed first wins",
            )
        )
    if it.strict:
        facts.append(("replies", Painted(_replies(it), "warn")))
    width = max(len(word) for word, _ in facts)
    for word, fact in facts:
        yield line("  ", Painted(f"{word:<{width}}  ", "soft"), fact)


def _owner(it: Explanation, route: Route) -> str:
    from hostrouting.model import protocol_name

    name = protocol_name(route.protocol)
    if it.source is not None and name == "kernel":
        return f"the kernel: it comes with the address {it.source.ip}/{it.source.length} on {it.source.dev}"
    return _OWNERS.get(name, f"{name} (route protocol {route.protocol})")


def _device(link: Link) -> str | Painted:
    kind = "InfiniBand" if link.infiniband else link.kind or _KINDS.get(link.type, f"type {link.type}")
    state = "up" if link.up else "down"
    carrier = "" if link.carrier else ", no carrier"
    text = f"{link.name}: {kind}, {state}{carrier}{f', part of {link.master}' if link.master else ''}"
    return text if link.up and link.carrier else Painted(text, "bad")


def _replies(it: Explanation) -> str:
    what = f"what comes in from {it.trace.address} by {spoken(it.strict)}"
    return f"{what} is dropped there (rp_filter 1: the way back is another)"


def _limits(it: Explanation) -> Iterator[Line]:
    yield line()
    if not it.variants:
        yield line(Painted("Holds for every packet to this address as far as it was described.", "soft"))
        return
    yield line("Holds for a plain packet of this host's own. Others go another way:")
    yield from capped((line("  ", _variant(it)) for it in it.variants[:SHOWN]), len(it.variants))


def _variant(variant: Variant) -> Painted:
    from hostrouting.packet_words import packets_line

    decision, who = variant.decision, packets_line(variant.cases).removesuffix(",")
    to = ", ".join(decision.devs) if decision.kind == "unicast" else decision.kind
    return Painted(f"{who}: {to or 'a device that is not known'}, by the route {_named(decision.route)}", "warn")


COMMAND = Command(
    "explain",
    "the way of a packet: rule, table, route, owner, device",
    answer=_answer,
    options=_options,
    more="""\
Of a packet one only has to know where it goes. Whatever else is known of it (a mark, a user, where it comes in) can
be told; for the rest it is one that the host itself makes, and where that matters the answer says so.
""",
    takes_snapshot=True,
    keys={
        "address": "the address that was asked for",
        "kind": "unicast, local, broadcast, multicast, anycast, no-route, unreachable, blackhole or prohibit",
        "devs[]": "the devices by which a packet to it may leave",
        "expected": "whether these are the expected devices, or it stays here as it should; null: none are expected",
        "expectedDevs[]": "the devices of the configuration, or else of the default route",
        "rules[].priority": "a rule that was tried, in order",
        "rules[].rule": "the same, in the words of ip rule",
        "rules[].result": "not-selected, no-route, suppressed, thrown, jump, nothing, refused or decides",
        "rules[].route": "the route that was found in its table",
        "rule": "the priority of the rule that decides",
        "table": "the table of the route that decides",
        "route": "the route that decides, in the words of ip route",
        "protocol": "who installed it",
        "legs[].dev": "a way that a packet may take",
        "legs[].gateway": "the gateway there",
        "legs[].weight": "its weight among the others",
        "links[].dev": "a device by which a packet may leave",
        "links[].up": "whether it is up",
        "links[].carrier": "whether it has a carrier",
        "links[].infiniband": "whether it leads into an InfiniBand fabric",
        "links[].rpFilter": "0, 1 (strict) or 2 (loose): what becomes of packets that come in by another way than back",
        "passed[].route": "another route in the same table that covers the address",
        "passed[].devs[]": "its devices",
        "passed[].reason": "why it does not decide: shorter, metric, tie, tos, oif or down",
        "dropsReplies[]": "devices that drop what comes in from the address, for the way back is another",
        "others[].when[][]": "what would have to be true of a packet that goes another way: all of one of the lists",
        "others[].kind": "what becomes of it",
        "others[].devs[]": "by which devices",
        "source": "what becomes of a link-local source before routing: a sentence; else empty",
        "surprise": "what the kernel itself answers, where that is not what its tables say; else empty",
    },
)
