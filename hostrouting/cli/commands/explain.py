"""`explain`: the route of a packet: which rules were tried, the route that decides, its owner, what the check says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hostrouting.check.judge import DOUBT, ESCAPE, Judge, Opinion
from hostrouting.check.report import owner_of
from hostrouting.cli.command import FINE, Command, Reply, config_option, devs_option
from hostrouting.cli.output import SHOWN, Line, Painted, Tone, capped, line, table
from hostrouting.cli.source import address_of, config_of, known_devices, open_kernel, saved_snapshot
from hostrouting.errors import BackendError
from hostrouting.fib.engine import Decision, End, Fib
from hostrouting.fib.not_judged import not_judged
from hostrouting.fib.trace import Tried, trace_rules
from hostrouting.model.route import protocol_name, table_name
from hostrouting.text import spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.model.prefix import IP
    from hostrouting.model.snapshot import Snapshot

_FATES = {
    "no-route": "has no route: none of the tables that the rules look up has one",
    "unreachable": "is refused: unreachable",
    "prohibit": "is refused: prohibited",
    "blackhole": "is dropped by a blackhole route",
    "local": "stays on this host",
    "broadcast": "is a broadcast address: packets go to all hosts on its network",
    "multicast": "is a multicast address: packets go to every host that joined the group",
    "anycast": "is an anycast address of this host",
}
_RESULTS: dict[str, tuple[str, Tone]] = {
    "skipped": ("does not match this packet", "soft"),
    "not-judged": ("is not judged", "warn"),
    "no-route": ("no match in table {table}", "soft"),
    "thrown": ("finds {route}: continues with the next rule", "warn"),
    "suppressed": ("finds {route}, but suppresses it", "warn"),
    "refuses": ("decides: {action}", "bad"),
    "decides": ("decides: {route}", "strong"),
}


class Explanation:
    """The route of one plain packet, and what the check says of it."""

    def __init__(self, snapshot: Snapshot, address: IP, config: HostRoutingConfig) -> None:
        """Look it up, rule by rule."""
        check, fib = config.route_overlap, Fib(snapshot, address.version)
        self.address, self.snapshot = address, snapshot
        self._judge = Judge(fib, check)
        self.rules = tuple(trace_rules(fib, address))
        self.decision, self.others = fib.ends(int(address))
        self.opinion = self._judge.opinion(self.decision)
        self.not_judged = tuple(thing.name for thing in not_judged(fib) if address in thing.prefix)
        self.expected_devs = tuple(sorted(self._judge.uplinks.devs))

    def opinion_of(self, end: End) -> Opinion:
        """The opinion on packets that are routed differently."""
        return self._judge.opinion_of_other(end, self.decision)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="where the packet goes, such as 172.16.5.9")
    devs_option(parser)
    config_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    address, config = address_of(arguments.address, "ADDRESS"), config_of(arguments)
    saved, differing = saved_snapshot(arguments), ""
    if saved is None:
        with open_kernel(host) as kernel:
            explanation = Explanation(kernel.snapshot(), address, config)
            try:
                [answer] = kernel.lookup([address])
            except BackendError as error:
                differing = f"the kernel itself could not be asked: {error}"
            else:
                if answer.route is not None and set(answer.route.devs) != set(explanation.decision.devs):
                    differing = f"the kernel itself answers [{answer.route}], which is not what its tables say"
    else:
        explanation = Explanation(saved, address, config)
    known_devices(arguments, explanation.snapshot)
    return Reply(FINE, lambda: _document(explanation, differing), lambda: _page(explanation, differing))


def _document(explanation: Explanation, differing: str) -> dict[str, Any]:
    decision = explanation.decision
    route = decision.route
    return {
        "schema": COMMAND.schema,
        "address": str(explanation.address),
        "kind": decision.kind,
        "devs": list(decision.devs),
        "opinion": explanation.opinion.name,
        "expectedDevs": list(explanation.expected_devs),
        "rules": [
            {"rule": str(tried.rule), "result": tried.result, "route": str(tried.route) if tried.route else None}
            for tried in explanation.rules
        ],
        "table": None if route is None else table_name(route.table),
        "route": None if route is None else str(route),
        "protocol": None if route is None else protocol_name(route.protocol),
        "others": [
            {"rule": str(end.rule), "kind": end.decision.kind, "devs": list(end.decision.devs)}
            for end in explanation.others
        ],
        "kernelDiffers": differing,
    }


def _page(explanation: Explanation, differing: str) -> Iterator[Line]:
    yield _answer_line(explanation)
    if differing:
        yield line(Painted(f"But {differing}.", "warn"))
    yield line()
    rules = [(str(tried.rule), _result(tried)) for tried in explanation.rules]
    yield from table(("rule", "result"), rules) if rules else (line("  This host has no policy rules."),)
    if (route := explanation.decision.route) is not None:
        yield line()
        yield line("  ", Painted("route  ", "soft"), str(route))
        yield line("  ", Painted("owner  ", "soft"), owner_of(route))
    yield line()
    yield from (line(Painted(f"Not judged: {name}", "warn")) for name in explanation.not_judged[:SHOWN])
    if not explanation.others and not explanation.not_judged:
        yield line(Painted("This holds for every packet that this host sends to it.", "soft"))
        return
    if not explanation.others:
        return
    yield line("This holds for a plain packet of this host. Others are routed differently:")
    shown = (line("  ", *_other(explanation, end)) for end in explanation.others[:SHOWN])
    yield from capped(shown, len(explanation.others))


def _answer_line(explanation: Explanation) -> Line:
    decision, opinion = explanation.decision, explanation.opinion
    address, tone = Painted(str(explanation.address), "strong"), _tone(opinion)
    if not decision.devs or decision.kind != "unicast":
        return line(address, " ", Painted(_FATES.get(decision.kind, decision.kind), tone))
    gateways = dict.fromkeys(str(leg.gateway) for leg in decision.route.legs if leg.gateway) if decision.route else {}
    through = f" via {' or '.join(gateways)}" if gateways else ", directly to the neighbour"
    words = {
        FINE: f" ({opinion.name}: {opinion.reason})",
        ESCAPE: f"; expected: {spoken(explanation.expected_devs) or 'no device'}",
    }
    beside = words.get(opinion.grade, f"; {opinion.reason}: it is not known whether that is meant")
    return line(address, " leaves by ", Painted(spoken(decision.devs, last="or"), tone), through, beside)


def _tone(opinion: Opinion) -> Tone:
    tones: dict[int, Tone] = {ESCAPE: "bad", DOUBT: "warn"}
    return tones.get(opinion.grade, "good")


def _result(tried: Tried) -> Painted:
    text, tone = _RESULTS[tried.result]
    route = "no route" if tried.route is None else tried.route.name
    return Painted(text.format(route=route, action=tried.rule.action, table=table_name(tried.rule.table)), tone)


def _other(explanation: Explanation, end: End) -> tuple[str, Painted]:
    who = f"packets that {'match' if end.meets else 'do not match'} the rule {end.rule}: "
    return who, Painted(_way(end.decision), _tone(explanation.opinion_of(end)))


def _way(decision: Decision) -> str:
    return f"by {spoken(decision.devs, last='or')}" if decision.devs else decision.kind


COMMAND = Command(
    name="explain",
    answer=_answer,
    options=_options,
    more="""\
The packet is a plain one that the host itself sends: from user 0, without a mark, by a socket that is not bound. If
other packets to the address are routed differently, the answer says which.
""",
    examples="""\
# which route decides for this address?
hostrouting explain 172.16.5.9
# the same for the node that the snapshot is of
hostrouting explain 172.16.5.9 --snapshot node.json
""",
    takes_snapshot=True,
)
