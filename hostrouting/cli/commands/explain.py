"""`explain`: the route of a packet: which rules were tried, the route that decides, its owner, the device.

Here: the facts, found by pure functions, then the sentences and tables that show them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.exceptions import PodBlocks
from hostrouting.check.overlap import is_unexplained, networks_of
from hostrouting.check.packets import arrives_on
from hostrouting.check.report import packets_line, unexplained_owner
from hostrouting.cli.command import FINE, Command, Reply, config_option, devs_option
from hostrouting.cli.output import SHOWN, Line, Painted, Tone, capped, line, table
from hostrouting.cli.source import address_of, config_of, installed_config, known_devices, open_kernel, saved_snapshot
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.errors import BackendError, ConfigError, Fault
from hostrouting.fib.decision import Variant, goes_out, is_own
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import Flow
from hostrouting.fib.trace import Trace, Tried, trace_route
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import TABLE_LOCAL, Route, protocol_name, table_name
from hostrouting.routes.uplink import outbound_devs

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model.snapshot import Address, Link, Snapshot


class Explanation:
    """The route of one packet, and the facts that it depends on."""

    def __init__(
        self, snapshot: Snapshot, destination: IP, flow: Flow, *, check: RouteOverlapConfig, note: str = ""
    ) -> None:
        """Explain it; `flow` is what is known about the packet, and `note` what happened to it before routing.

        `check` has the expected and the allowed devices.
        """
        fib, family, self.flow, self.note = Fib(snapshot), destination.version, flow, note
        self.trace = trace = trace_route(snapshot, destination, flow)
        self.links = tuple(link for dev in trace.devs if (link := snapshot.link(dev)) is not None)
        self.source = _source(snapshot, trace)  # the address of this host for which the kernel added the route
        self.named = bool(check.expected_devs)
        self.outbound = check.expected_devs or outbound_devs(fib, family=family)  # the expected devices
        self.variants = fib.lookup(destination, flow).variants  # the packets that are treated differently
        route = trace.route
        # Whether the route has proto kernel although no address of its device explains it.
        self.unexplained = route is not None and is_unexplained(route, networks_of(snapshot.addresses))
        # Whether it is refused because its destination is in one of this host's own pod blocks.
        blocks = PodBlocks(fib, (Prefix(family, 0, 0),), check.allowed_devs)
        self.own_block = route is not None and blocks.holds(route)

    @property
    def goes_out(self) -> bool:
        """Whether the packet leaves by a device."""
        return goes_out(self.trace.kind, self.trace.route)

    @property
    def as_expected(self) -> bool | None:
        """Whether the packet leaves by the expected devices, or rightly stays here; None if no devices are expected."""
        if self.own_block or is_own(self.trace.kind, self.trace.route):
            return True
        if not self.outbound:
            return None
        return self.goes_out and bool(self.trace.devs) and set(self.trace.devs) <= set(self.outbound)


def _source(snapshot: Snapshot, trace: Trace) -> Address | None:
    """The address for which the kernel added a connected route."""
    route = trace.route
    if route is None or route.table == TABLE_LOCAL or any(leg.gateway for leg in route.legs):
        return None
    return next(
        (
            address
            for address in snapshot.addresses
            if address.dev in route.devs
            and route.prefix in {address.network, Prefix.around(address.ip.version, int(address.ip), address.length)}
        ),
        None,
    )


def _document(explanation: Explanation) -> dict[str, Any]:
    """The explanation as a JSON value, without the kernel's own answer."""
    trace = explanation.trace
    return {
        "schema": COMMAND.schema,
        "address": str(trace.address),
        "kind": trace.kind,
        "devs": list(trace.devs),
        "expected": explanation.as_expected,
        "expectedDevs": list(explanation.outbound),
        "rules": [
            {
                "priority": tried.rule.priority,
                "rule": str(tried.rule),
                "result": tried.result,
                "route": None if tried.route is None else str(tried.route),
            }
            for tried in trace.tried
        ],
        "rule": None if trace.rule is None else trace.rule.priority,
        "table": None if trace.route is None else table_name(trace.route.table),
        "route": None if trace.route is None else str(trace.route),
        "protocol": None if trace.route is None else protocol_name(trace.route.protocol),
        "legs": [
            {"dev": leg.dev, "gateway": None if leg.gateway is None else str(leg.gateway), "weight": leg.weight}
            for leg in trace.legs
        ],
        "links": [
            {"dev": link.name, "up": link.up, "carrier": link.carrier, "infiniband": link.infiniband}
            for link in explanation.links
        ],
        "passed": [
            {"route": str(passed.route), "devs": list(passed.route.devs), "reason": passed.reason}
            for passed in trace.passed
        ],
        "others": [
            {
                "when": [[str(condition) for condition in case] for case in variant.cases],
                "kind": variant.decision.kind,
                "devs": list(variant.decision.devs),
            }
            for variant in explanation.variants
        ],
        "source": explanation.note,
    }


_KNOWN = ("source", "iif", "oif", "mark", "tos", "uid", "ipproto", "sport", "dport")
_PASSED = {
    "shorter": "its prefix is shorter",
    "metric": "its metric is higher",
    "preference": "its router has a lower preference",
    "tie": "same prefix and metric, but listed later",
    "tos": "it is for another type of service, or for all of them",
    "oif": "it leaves by another device than the socket is bound to",
    "source": "a route to its prefix is only for other sources",
    "down": "none of its devices can be used",
    "expired": "it has expired",
}
_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "warn"}
_FATE = {
    "no-route": "has no route: none of the tables that the rules look up has one",
    "unreachable": "is refused: unreachable",
    "prohibit": "is refused: prohibited",
    "blackhole": "is dropped by a blackhole route",
    "local": "is this host's own address: packets stay on this host",
    "broadcast": "is a broadcast address: packets go to all hosts on its network",
    "multicast": "is a multicast address: packets go to every host that joined the group",
    "anycast": "is an anycast address of this host",
}
_RESULTS: dict[str, tuple[str, Tone]] = {
    "decides": ("decides: route {route}", "strong"),
    "refused": ("decides: {action}", "bad"),
    "no-route": ("no match in table {table}", "soft"),
    "suppressed": ("finds {route}, but suppresses it", "warn"),
    "thrown": ("finds {route}: continues with the next rule", "warn"),
    "jump": ("continues with rule {target}", "soft"),
    "nothing": ("does nothing", "soft"),
}
"""What a rule that was tried came to, but for one that does not match."""
_KINDS = {1: "Ethernet", 772: "loopback"}  # by ARPHRD number
_OWNERS = {
    "kernel": "the kernel, for the address on the device",
    "boot": "added with ip route, by hand or by a script (the default of iproute2)",
    "dhcp": "the DHCP client",
    "hostrouting": "hostrouting, as a static route of the configuration",
}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="where the packet goes, such as 172.16.5.9")
    devs_option(parser)
    config_option(parser)
    known = parser.add_argument_group("what else is known about the packet")
    known.add_argument("--from", dest="source", metavar="ADDRESS", help="its source address")
    known.add_argument("--iif", metavar="DEV", help="the device that it arrives on; lo: the host itself sends it")
    known.add_argument("--oif", metavar="DEV", help="the device that its socket is bound to")
    for name, what in (
        ("mark", "its mark"),
        ("tos", "its type of service"),
        ("uid", "the user that its socket belongs to"),
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 4294967295, such as 10 or 0xa")
    return number


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    address = address_of(arguments.address, "ADDRESS")
    source = None if arguments.source is None else address_of(arguments.source, "--from")
    if source is not None and source.version != address.version:
        fault = Fault(
            "--from", repr(arguments.source), f"is not an IPv{address.version} address", "use the family of ADDRESS"
        )
        raise ConfigError([fault])
    known = {name: getattr(arguments, name) for name in _KNOWN}
    flow = Flow(**{**known, "source": source})
    config = config_of(arguments)
    note, seen = _seen_by_rules(arguments, host, address, flow)

    def explained(snapshot: Snapshot) -> Explanation:
        known_devices(arguments, snapshot)
        port, top = seen.iif, arrives_on({link.name: link for link in snapshot.links}, seen.iif or "")
        if top is None or top == port:
            return Explanation(snapshot, address, seen, check=config.route_overlap, note=note)
        sentence = f"the device {port} is a port of {top}, so its packets arrive on {top}"
        notes = f"{note}; {sentence}" if note else sentence
        return Explanation(snapshot, address, attrs.evolve(seen, iif=top), check=config.route_overlap, note=notes)

    surprise = ""
    if (saved := saved_snapshot(arguments)) is not None:
        found = explained(saved)
    else:
        with open_kernel(host) as kernel:
            found = explained(kernel.snapshot(family=address.version))
            surprise = _surprise(found, kernel)
    return Reply(FINE, lambda: {**_document(found), "surprise": surprise}, lambda: _page(found, surprise))


def _seen_by_rules(
    arguments: argparse.Namespace, host: Callable[[], Host], address: IP, flow: Flow
) -> tuple[str, Flow]:
    """The packet as routing sees it, and a sentence if a link-local source is rewritten before that."""
    source = flow.source
    if (
        not isinstance(source, IPv6Address)
        or not isinstance(address, IPv6Address)
        or not source.is_link_local
        or flow.iif == "lo"
    ):
        return "", flow
    here = arguments.config is None and arguments.snapshot is None
    settings = ((installed_config(host()) or HostRoutingConfig()) if here else config_of(arguments)).probe_rewrite
    stays_on_link = address.is_link_local or address.is_multicast
    is_probe = settings.enabled and source == settings.link_local and not stays_on_link
    devs = [dev for dev in settings.interfaces if is_probe and flow.iif in {None, dev}]
    becomes = settings.global_address
    if flow.iif is None:
        sentence = f"a packet that arrives on {' or '.join(devs)} from {source} gets the source {becomes}"
        return (f"{sentence} before routing: add --iif {devs[0]} to trace it" if devs else ""), flow
    if not devs:
        sentence = f"Linux does not forward packets from {source}: a link-local address is valid on its own link only"
        more = "; the section probeRewrite of a configuration rewrites the source of load-balancer probes"
        return "" if stays_on_link else f"{sentence}{more}", flow
    from hostrouting.boot.probe_table import TABLE

    sentence = f"the source {source} becomes {becomes} before routing, if the nftables table ip6 {TABLE} is in force"
    return f"{sentence} (see: hostrouting status)", attrs.evolve(flow, source=becomes)


def _surprise(found: Explanation, backend: RouteBackend) -> str:
    """A clause with the kernel's own answer if that differs from its tables; empty if not."""
    trace, flow = found.trace, found.flow
    comes_in = flow.iif not in {None, "lo"}
    # Linux refuses a lookup for an arriving packet without a source, before any route is looked up.
    unasked = comes_in and flow.source is None
    if not found.goes_out or trace.route is None or unasked:
        return ""
    try:
        [answer] = backend.lookup([trace.address], flow)
    except BackendError as error:
        return f"the kernel itself could not be asked: {error}"
    said = answer.route
    by_hash = (variant.decision.route for variant in found.variants if variant.is_by_hash)
    # Linux lists the legs of an IPv6 route from the one that it chose for the address.
    possible = [(route.prefix, sorted(route.devs)) for route in (trace.route, *by_hash) if route is not None]
    if said is not None and (said.prefix, sorted(said.devs)) in possible:
        return ""
    if comes_in and answer.kind in {"blackhole", "unreachable"}:
        return f"the kernel itself drops it when it arrives on {flow.iif}; the tables do not say why"
    return f"the kernel itself answers {answer.route or answer.kind}, which is not what its tables say"


def _page(found: Explanation, surprise: str) -> Iterator[Line]:

    yield _answer_line(found)
    if found.note:
        yield line(Painted(f"{found.note[0].upper()}{found.note[1:]}.", "warn"))
    if surprise:
        yield line(Painted(f"But {surprise}.", "warn"))
    yield line()
    rules = [(str(tried.rule), _came_to(tried)) for tried in found.trace.tried]
    yield from table(("rule", "result"), rules) if rules else (line("  This host has no policy rules."),)
    if found.trace.route is not None:
        yield line()
        yield from _facts(found, found.trace.route)
    rows = [(str(passed.route), _PASSED[passed.reason]) for passed in found.trace.passed if passed.reason != "tie"]
    if rows:
        yield line()
        yield line("Other routes that match it, but do not decide:")
        yield from capped(table(("route", "why not"), rows[:SHOWN]), len(rows))
    yield from _limits(found)


def _answer_line(found: Explanation) -> Line:
    trace, address = found.trace, Painted(str(found.trace.address), "strong")
    if not found.goes_out:
        tone: Tone = _TONES[found.as_expected]
        fate = "is refused: it is in one of this host's own pod blocks, and no pod has it" if found.own_block else ""
        return line(address, " ", Painted(fate or _FATE.get(trace.kind, trace.kind), tone))
    devs = Painted(" or ".join(trace.devs) or "an unknown device", _TONES[found.as_expected])
    gateways = list(dict.fromkeys(str(leg.gateway) for leg in trace.legs if leg.gateway is not None))
    through = f" via {' or '.join(gateways)}" if gateways else ", directly to the neighbour"
    who = "the configuration expects" if found.named else "the default route uses"
    beside = f"; {who} {' or '.join(found.outbound)}" if found.as_expected is False else ""
    return line(address, " leaves by ", devs, through, beside)


def _came_to(tried: Tried) -> Painted:
    if tried.result == "not-selected":
        only = f" this packet: only {' '.join(tried.selector or ())}"
        others = ": the rule is for packets that are not as described"
        return Painted(f"does not match{others if tried.selector is None else only}", "soft")
    text, tone = _RESULTS[tried.result]
    rule = tried.rule
    table = table_name(rule.table)
    return Painted(text.format(route=_named(tried.route), action=rule.action, table=table, target=rule.target), tone)


def _named(route: Route | None) -> str:

    return "no route" if route is None else route.name


def _facts(found: Explanation, route: Route) -> Iterator[Line]:
    """The facts about the deciding route, each on one line after its name."""
    facts: list[tuple[str, str | Painted]] = [
        ("route", str(route)),
        ("table", table_name(route.table)),
        ("owner", _owner(found, route)),
        *(("device", _device(link)) for link in found.links),
        *(
            ("device", Painted(f"{dev}: does not exist", "bad"))
            for dev in found.trace.devs
            if dev not in {link.name for link in found.links}
        ),
    ]
    if len(route.legs) > 1:
        facts.append(("next hops", f"{len(found.trace.legs)}; each connection uses one"))
    if found.trace.in_turn:
        facts.append(("in turn", _turns(found)))
    exchanged = set(map(id, found.trace.in_turn))
    ties = [
        passed.route for passed in found.trace.passed if passed.reason == "tie" and id(passed.route) not in exchanged
    ]
    if ties:
        devs = list(dict.fromkeys(dev for tie in ties for dev in tie.devs))
        count = "1 more route has" if len(ties) == 1 else f"{len(ties)} more routes have"
        facts.append(("ties", f"{count} the same prefix and metric, by {', '.join(devs)}; the one listed first wins"))
    width = max(len(word) for word, _ in facts)
    for word, fact in facts:
        yield line("  ", Painted(f"{word:<{width}}  ", "soft"), fact)


def _turns(found: Explanation) -> str:
    others = found.trace.in_turn
    more = "1 more default route is" if len(others) == 1 else f"{len(others)} more default routes are"
    devs = ", ".join(dict.fromkeys(dev for route in others for dev in route.devs[:1]))
    return f"{more} used in turn, by {devs}: Linux tries the next one until it finds a reachable gateway"


def _owner(found: Explanation, route: Route) -> str:

    name = protocol_name(route.protocol)
    if found.source is not None and name == "kernel":
        return f"the kernel, for the address {found.source.ip}/{found.source.length} on {found.source.dev}"
    if found.unexplained:
        return unexplained_owner(name, route.devs)
    return _OWNERS.get(name, f"{name} (route protocol {route.protocol})")


def _device(link: Link) -> str | Painted:
    kind = "InfiniBand" if link.infiniband else link.kind or _KINDS.get(link.type, f"type {link.type}")
    state = "up" if link.up else "down"
    carrier = "" if link.carrier else ", no carrier"
    text = f"{link.name}: {kind}, {state}{carrier}{f', part of {link.master}' if link.master else ''}"
    return text if link.up and link.carrier else Painted(text, "bad")


def _limits(found: Explanation) -> Iterator[Line]:
    yield line()
    if not found.variants:
        yield line(Painted("Holds for every packet to this address that fits the description.", "soft"))
        return
    yield line("Holds for a plain packet from this host. Others are routed differently:")
    yield from capped((line("  ", _variant(variant)) for variant in found.variants[:SHOWN]), len(found.variants))


def _variant(variant: Variant) -> Painted:

    decision, who = variant.decision, packets_line(variant.cases).removesuffix(",")
    to = ", ".join(decision.devs) if decision.goes_out else decision.kind
    return Painted(f"{who}: {to or 'an unknown device'}, by the route {_named(decision.route)}", "warn")


COMMAND = Command(
    name="explain",
    answer=_answer,
    options=_options,
    more="""\
Only the destination of the packet is required. Options give what else is known about it (a mark, a user, the device
that it arrives on). In all other respects it is a packet that the host itself sends. If that matters, the answer
says so.
""",
    examples="""\
# which route decides for this address?
hostrouting explain 172.16.5.9
# the same for a packet of a pod, which arrives on cni0
hostrouting explain 172.16.5.9 --from 10.244.0.9 --iif cni0
""",
    takes_snapshot=True,
)
