"""The repair: the fewest routes in table main that send what escapes out as expected.

Theory of operation. Say that 10.0.0.0/8 has to leave by eth0, but [10.0.0.0/8 dev ib0] decides for
it. Inside, [10.9.0.0/24 dev cni0] decides for the pods of this node, which is right. Of the routes
to one address, Linux uses the one with the longest prefix. So a new route decides only instead of
shorter ones around it. To decide instead of [10.0.0.0/8 dev ib0], but not instead of the route by
cni0, two routes are needed: 10.0.0.0/9 and 10.128.0.0/9. One is enough if the present route has a
worse metric (10.0.0.0/8), or if the expected CIDR is longer (10.4.0.0/16).

If the escaping route hides a shorter one by a CNI's device, or by another one that is allowed, a
route by the uplink would only lose the packets in another way: then the escaping route has to be
deleted (`below-a-cni`).

Then the proof: the routes are put into the tables, and everything is judged again. What they do not
make fine is named. If anything is worse than before, no route is proposed at all.

If a rule leads packets away before table main is looked up, no route helps, but another rule may
(`_with_rules`). It is proven in the same way, without the routes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts, join_by_label
from hostrouting.check.results import Grade, Part, Repair, Unrepairable, Why
from hostrouting.config.settings import is_configurable_dev
from hostrouting.model.link_kinds import is_tap, is_tunnel
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import OURS, TABLE_LOCAL, TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from hostrouting.routes.uplink import Need, Uplink

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib

# The metric of a repair that Linux prefers to the present route because of its prefix. A CNI may
# start later and add a route with the same prefix to its pods. This route has a lower metric, which
# Linux prefers: usually 0 in IPv4, and up to 1024 in IPv6. If the repair had the same metric, Linux
# would refuse or ignore the CNI's route, and the pods would be lost.
_HIGH_METRIC = 2048
_NO_DEVICE = Why("no-device", "name the device in routeOverlap.expectedDevs first")
_NOT_PROVEN = Why("not-proven", "Linux would not use another static route, or lose packets by it")


class Change(NamedTuple):
    """A range of addresses, as it is judged without the proposed routes or rule, and with them."""

    before: Part  # the part that contains the range
    after: Part  # the range itself


RangesWithWhy: TypeAlias = list[tuple[Part, Why | None]]
"""Ranges, each with the reason why no route repairs it; None if nothing escaped, or a route does.
"""


def propose_repair(
    judge: Judge, cidrs: Sequence[Prefix], blocks: Sequence[Prefix], parts: Sequence[Part]
) -> Repair:
    """Find the routes that bring escaping packets back to the expected devices. Return these
    routes, and the ranges that no route repairs, with the reasons. `blocks` are the CIDRs, joined
    where several make one prefix; `parts` are ranges of the blocks, with the opinions on each.
    """
    escaping = [part for part in parts if part.escape is not None]
    if not escaping:
        return Repair()
    # By the first address of each part: why its route has to be deleted; None if an added route may
    # help.
    why_delete = {part.first: _why_delete_instead(judge, part) for part in escaping}
    to_add: set[tuple[Prefix, int]] = set()  # each prefix with its metric
    for part in escaping:
        # If only other packets escape, such as marked ones, a rule leads them away, and no route
        # repairs that.
        if part.opinion.grade is Grade.ESCAPE and why_delete[part.first] is None:
            # A part lies in exactly one block.
            [around] = [block for block in blocks if block.first <= part.first <= block.last]
            to_add.update(_prefixes_to_add(judge, part, around))
    dev, possible, why_not_made = _routes_to(judge, sorted(to_add))
    # Judge everything again with the possible routes, and keep the routes that help.
    routes, changes = _proven(judge, parts, possible, blocks)
    # Each range as it is judged with the routes, and why it is not repaired. The reason is None if
    # the routes repair the range, or if nothing escaped there.
    ranges: RangesWithWhy = []
    for change in changes:
        why = None
        if change.before.escape is not None and not _is_repaired(change):
            why = why_delete[change.before.first] or _why_no_route_helps(change.after, why_not_made)
        ranges.append((change.after, why))
    unrepairable: list[Unrepairable] = []
    if any(why is not None for _, why in ranges):
        # A rule may repair what no route does. Try rules for each CIDR alone: a rule is for one
        # prefix, so a range that it repairs must not have addresses of two CIDRs.
        for cidr in _outermost(cidrs):
            with_rules = _with_rules(judge, cidr, _inside(cidr, ranges))
            # Neighbours with the same reason are joined, and those without one are left out.
            unrepairable += [Unrepairable(*each) for each in join_by_label(with_rules)]
    return Repair(tuple(routes), dev, tuple(unrepairable))


def _outermost(cidrs: Sequence[Prefix]) -> Iterator[Prefix]:
    """Yield the CIDRs that do not lie inside another of these CIDRs, in order."""
    for cidr in sorted(set(cidrs)):
        if not any(cidr in other for other in cidrs if other != cidr):
            yield cidr


def _inside(cidr: Prefix, ranges: RangesWithWhy) -> RangesWithWhy:
    """Of the ranges, return those that overlap the CIDR, cut off at its ends. Each keeps its `Why`,
    the reason why no route repairs it.
    """
    inside: RangesWithWhy = []
    for part, why in ranges:
        if part.first <= cidr.last and cidr.first <= part.last:
            first, last = max(part.first, cidr.first), min(part.last, cidr.last)
            inside.append((part._replace(first=first, last=last), why))
    return inside


def _why_delete_instead(judge: Judge, part: Part) -> Why | None:
    """Return why an operator has to delete the escaping route of this part, and a repair adds none:
    the escaping route hides a right route, such as a CNI's ("below-a-cni"), and an added route
    would hide it, too. Linux uses the right route once the escaping route is deleted. None if no
    right route is hidden.
    """
    decision = part.decision
    # The routes to the first address are those to the whole part.
    covering = judge.fib.tables[TABLE_MAIN].covering(part.first)
    to_pods = judge.devices.routes_to_pods.covering(part.first)  # they may be in other tables
    for route in (*covering, *to_pods):
        # A right route leads the packets where they belong: by another device than the uplink.
        if route != decision.route and judge.opinion_on_route(route).belongs_elsewhere:
            return Why("below-a-cni", f"[{decision}] hides [{route}]")
    return None


def _prefixes_to_add(judge: Judge, part: Part, block: Prefix) -> Iterator[tuple[Prefix, int]]:
    """Yield one or two prefixes for new routes that Linux would use for this part, each with the
    metric of the route. The part is a range of the block, which is a CIDR or several joined.

    Usually the prefix is that of the block. But if the present route to the part has a prefix that
    is as long or longer, Linux would not use a route to the block. Then the prefix of the present
    route is taken.

    In two cases, this prefix will not do, and its two halves are yielded. Either the present route
    has the metric 0 or 1, so no lower metric is left for ours. Or the prefix is that of all
    addresses, which a static route may not have. `_useful_routes` later leaves out a half that is
    not needed. A single address has no halves, so no route can help there.
    """
    # The route to the first address is that to the whole part.
    present = judge.fib.tables[TABLE_MAIN].best(part.first)
    prefix = block
    metric: int | None = _HIGH_METRIC  # above those of CNIs, so that their routes can be added
    if present is not None and present.prefix.length >= block.length:
        prefix = present.prefix
        metric = present.metric  # a route of ours is replaced
        if present.protocol != OURS:
            # Linux prefers the lower metric. Ours is 1, the lowest that both families have, so that
            # it stays lower if the present route gets another metric. None: it cannot be lower.
            metric = 1 if present.metric > 1 else None
    if prefix.length > 0 and metric is not None:
        yield prefix, metric
    elif not prefix.is_single:
        for half in prefix.halves():
            yield half, _HIGH_METRIC


# By which device the routes lead.


def _routes_to(
    judge: Judge, prefixes: Sequence[tuple[Prefix, int]]
) -> tuple[str | None, list[Route], Why | None]:
    """Make the routes to these prefixes, with these metrics. Return three things: the device that a
    configuration has to name for the routes (None if it need not name one), the routes, and why
    some are missing: no gateway or no device (None if there is no such reason).

    First the configuration names no device, because then it fits many hosts. If that gives no
    route, each expected device is tried, until one gives a route.
    """
    expected = judge.uplinks
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    devs = [dev for dev in sorted(expected.devs) if _may_lead_out(judge, dev)]
    # While it is unclear which device is meant, a repair could lead through the wrong one.
    if expected.doubtful or not devs:
        return None, [], _NO_DEVICE
    why: Why | None
    for dev in [None, *devs]:
        why = None
        routes: list[Route] = []
        for prefix, metric in prefixes:
            route = uplink.route_to(prefix, dev=dev, metric=metric)
            if isinstance(route, Need):  # not a route, but what it lacks
                why = Why("no-gateway", f"a repair needs {route}")
            # A configuration cannot have a route to a reserved prefix, and a route through a device
            # that is not expected repairs nothing.
            elif not is_reserved(prefix) and expected.devs.issuperset(route.devs):
                routes.append(route)
        if routes:
            return dev, routes, why
    return None, [], why  # of the last device that was tried


def _may_lead_out(judge: Judge, dev: str) -> bool:
    """Whether a repair may lead through this expected device: a configuration can name it, and it
    is not a tunnel. A tunnel may be a VPN's, so it is used only if the configuration names it
    already. A tap is used, too: if a card could be the uplink instead, the tap is in doubt, and no
    repair is proposed at all.
    """
    link = judge.devices.links.get(dev)
    is_named = dev in judge.configured_devs
    return bool(is_configurable_dev(dev)) and (is_named or is_tap(link) or not is_tunnel(link))


# The rules that repair what no route does.


def _with_rules(judge: Judge, cidr: Prefix, ranges: RangesWithWhy) -> RangesWithWhy:
    """Look for rules that repair ranges of the CIDR that no route repairs. Return all ranges; where
    a rule repairs a range, the range's `Why` now has the rule (`Why.rule`). First a rule for the
    whole CIDR is tried, then a rule for each network of pods of this node that packets do not
    reach.
    """
    destinations = {cidr: None}
    for part, _ in ranges:
        hidden = part.opinion.hidden  # the route to a network of pods that packets do not use
        # There is no rule for a single pod, because the rule would outlive the pod.
        if hidden is not None and not hidden.prefix.is_single:
            destinations[hidden.prefix] = None
    for destination in destinations:
        ranges = _with_rule(judge, destination, ranges)
    return ranges


def _with_rule(judge: Judge, destination: Prefix, ranges: RangesWithWhy) -> RangesWithWhy:
    """Try a new rule for packets to this destination: to look up table main, before the rule by
    which they escape. Return all ranges; where the new rule repairs a range, the range's `Why` now
    has the rule. If the rule is not worth proposing, the ranges are returned unchanged.
    """
    before = list(find_parts(judge, destination.first, destination.last))
    priority = _priority_before(judge, before)
    if priority is None:
        return ranges
    rule = Rule(judge.fib.family, priority, table=TABLE_MAIN, dst=destination)
    changes = _changes(judge, before, judge.fib.with_rules([rule]), [destination])
    if not _is_worth_proposing(judge, changes):
        return ranges
    after = [change.after for change in changes]
    with_rule: RangesWithWhy = []
    for part, why in ranges:
        is_inside = destination.first <= part.first <= destination.last
        # If `why.rule` is set, the rule for another destination repairs the range already.
        needs_rule = is_inside and why is not None and why.rule is None
        if needs_rule and _is_repaired(Change(part, _part_around(after, part.first))):
            # Make a `Why` that blames the rule by which packets escape, because the new rule is the
            # remedy for that: `why` may blame a route that has to be deleted.
            with_rule.append((part, _why_no_route_helps(part)._replace(rule=rule)))
        else:
            with_rule.append((part, why))
    return with_rule


def _is_worth_proposing(judge: Judge, changes: Sequence[Change]) -> bool:
    """Whether a rule with these changes is worth proposing. The rule must not make a range worse,
    or lead packets away from a device where they are fine, such as a CNI's. While the uplink is in
    doubt, the rule must also leave nothing in doubt.
    """
    if _is_worse(changes):
        return False
    for before, after in changes:
        # Packets that rightly leave by another device than the uplink must still leave by it.
        if before.opinion.belongs_elsewhere and before.decision.devs != after.decision.devs:
            return False
        if judge.uplinks.doubtful and after.worst_grade is not Grade.FINE:
            return False
    return True


def _priority_before(judge: Judge, parts: Sequence[Part]) -> int | None:
    """The priority at which a new rule comes just before the first rule by which packets to these
    parts escape. Rules that look up main or local do not count, because routes in main are the
    repair of what escapes there. Rules that refuse packets do not count, either, because refusal is
    what they are for. None if no rule counts, or if the new rule would come before the rule for
    table local.
    """
    priorities: list[int] = []
    for part in parts:
        for opinion in part.opinions:
            # An escape of the host's own connections has its own decision. Any other escape is one
            # of plain packets.
            rule = (opinion.decision or part.decision).rule
            if opinion.grade is not Grade.ESCAPE or rule is None:
                continue
            # A rule that refuses packets has table 0.
            if rule.table not in {0, TABLE_LOCAL, TABLE_MAIN}:
                priorities.append(rule.priority - 1)
    # A new rule with the same priority as the rule for table local comes after that rule.
    local_priorities = [rule.priority for rule in judge.fib.rules if rule.table == TABLE_LOCAL]
    if not priorities or min(priorities) < max(local_priorities, default=0):
        return None
    return min(priorities)


# The proof.


def _proven(
    judge: Judge, parts: Sequence[Part], routes: list[Route], blocks: Sequence[Prefix]
) -> tuple[list[Route], list[Change]]:
    """Judge everything again (all `blocks`) with these routes added. Return the useful routes, and
    how each range is judged without and with them. If they would make anything worse, return no
    routes, and each part as unchanged (`Change(part, part)`).
    """
    changes = _changes(judge, parts, judge.fib.with_routes(routes), blocks)
    useful = _useful_routes(routes, changes)
    if len(useful) < len(routes):
        changes = _changes(judge, parts, judge.fib.with_routes(useful), blocks)
    if _is_worse(changes):
        return [], [Change(part, part) for part in parts]
    return useful, changes


def _changes(
    judge: Judge, parts: Sequence[Part], proposed: Fib, blocks: Sequence[Prefix]
) -> list[Change]:
    """Judge the blocks again by the tables with the proposed routes or rule. Return each new part,
    together with the old part around it. A new part never reaches from one old part into another,
    because a proposal only adds borders between parts.
    """
    after = Judge(proposed, judge.config)
    changes: list[Change] = []
    for block in blocks:
        new_parts = find_parts(after, block.first, block.last)
        changes += [Change(_part_around(parts, new.first), new) for new in new_parts]
    return changes


def _part_around(parts: Sequence[Part], address: int) -> Part:
    """The part that contains the address."""
    return parts[bisect_right(parts, address, key=attrgetter("first")) - 1]


def _is_worse(changes: Iterable[Change]) -> bool:
    """Whether the proposal makes any range worse: the opinion on its plain packets, or the worst
    of all opinions on it.
    """
    for before, after in changes:
        if after.opinion.grade > before.opinion.grade or after.worst_grade > before.worst_grade:
            return True
    return False


def _is_repaired(change: Change) -> bool:
    """Whether nothing in the range escapes any more, and nothing in it is newly in doubt."""
    doubts = [each for each in change.after.opinions if each.grade is Grade.DOUBT]
    return change.after.escape is None and set(change.before.opinions).issuperset(doubts)


def _useful_routes(routes: Sequence[Route], changes: Iterable[Change]) -> list[Route]:
    """The routes that decide for a range that escaped before and does not now. The others are not
    needed: an earlier rule decides in their place, or they decide only for ranges that were fine.
    """
    # Compare by `id`, because to hash a route takes long. The decisions hold these very routes.
    deciding = {
        id(after.decision.route)
        for before, after in changes
        if after.escape is None and before.escape is not None
    }
    return [route for route in routes if id(route) in deciding]


def _why_no_route_helps(part: Part, why_not_made: Why | None = None) -> Why:
    """Why no route in table main repairs this part. There are three reasons: an earlier rule
    decides, so Linux does not look up table main; a route could not be made (`why_not_made`); or
    Linux would not use a new route, or packets would still be lost with it (`_NOT_PROVEN`).
    """
    # If nothing escapes with the routes, but something is newly in doubt, the decision for plain
    # packets gives the reason.
    _, decision = part.escape or (part.opinion, part.decision)
    if decision.rule is not None and decision.rule.table == TABLE_LOCAL:
        return Why("earlier-rule", f"[{decision.route}] comes before table main")
    if decision.rule is not None and decision.rule.table != TABLE_MAIN:
        return Why("earlier-rule", f"[rule {decision.rule}] comes before table main")
    return why_not_made or _NOT_PROVEN
