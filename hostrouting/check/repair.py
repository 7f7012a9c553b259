"""The smallest repair: the fewest routes in table main that send all plain packets that escape out
as expected.

How it is made. `way_out` says by which device and gateway the routes lead, and `walk` finds their
prefixes. Then the proof: the routes are put into the tables, and everything is judged again. What
they do not make fine is named, with a reason (`unrepairable`), and so is what they cost (`costs`).
If anything is worse than before, no route is proposed at all.

Some escapes must not be led to the uplink: without the route that catches their packets, these
would leave by a CNI's device, or by another one that is allowed (`hiding`). A new route would
divert them, now or once that route is gone, so the walk treats such escapes as if they were fine.
What repairs them is a deletion, which the reason `below-a-cni` names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.costs import attributes_lost, find_costs
from hostrouting.check.hiding import HiddenParts, find_hidden
from hostrouting.check.parts import find_parts
from hostrouting.check.results import Grade, Part, Repair, Why
from hostrouting.check.unrepairable import Attempt, Change
from hostrouting.check.walk import Walk
from hostrouting.check.way_out import find_way_out
from hostrouting.model.prefix import Prefix, joined
from hostrouting.routes.uplink import Need

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.model.route import Route

_MOST = 512
"""More routes than this are not proposed: no operator would read them."""
_TOO_MANY = Why(
    "too-many",
    f"it would take more than {_MOST} routes; check smaller networks one by one, or remove what "
    "adds the routes there",
)
_WORSE = Why("not-proven", "with these routes, other packets would be lost or in doubt")


class Case(NamedTuple):
    """What is to be repaired."""

    judge: Judge
    blocks: Sequence[Prefix]
    """The outermost of the expected CIDRs."""
    parts: Sequence[Part]
    """All parts of the blocks, in order."""
    hidden: HiddenParts


def propose_repair(judge: Judge, blocks: Sequence[Prefix], parts: Sequence[Part]) -> Repair:
    """The repair for the plain packets that escape in these blocks, which have these parts. What it
    leaves of the escapes of other packets, `unrepairable.find_untaken` says.
    """
    escapes = [part for part in parts if part.plain_grade is Grade.ESCAPE]
    if not escapes:
        return Repair()
    case = Case(judge, blocks, parts, find_hidden(judge, escapes))
    way_out = find_way_out(judge)
    if isinstance(way_out, Need):
        return _without_routes(case, _no_gateway(way_out))
    walk = Walk(judge.fib, parts, way_out.default_route, case.hidden)
    prefixes = list(islice(walk.prefixes(joined(blocks)), _MOST + 1))
    if len(prefixes) > _MOST:
        return _without_routes(case, _TOO_MANY)
    routes: list[Route] = []
    unmade: dict[Prefix, Why] = {}
    for prefix in prefixes:
        route = way_out.route_to(prefix)
        if isinstance(route, Need):  # it would hide its own gateway
            unmade[prefix] = _no_gateway(route)
        else:
            routes.append(route)
    return prove(case, Repair(resolved=tuple(routes), dev=way_out.dev), unmade)


def _no_gateway(need: Need) -> Why:
    return Why("no-gateway", cause=f"a repair needs {need}", devs=need.devs)


def _without_routes(case: Case, why: Why) -> Repair:
    """A repair that has no route, for this reason; what it names as unrepairable may still say what
    to delete.
    """
    everywhere = Prefix(case.judge.fib.family, 0, 0)
    return prove(case, Repair(), {everywhere: why})


# The proof.


def prove(case: Case, repair: Repair, unmade: Mapping[Prefix, Why]) -> Repair:
    """The repair, with what it does not repair and what it costs; without any route if the routes
    make anything worse. `unmade` has the prefixes whose routes could not be made, each with the
    reason.
    """
    proposed = repair.resolved
    changes = list(_judge_again(case, proposed))
    if any(_is_worse(change) for change in changes):
        # This is proven in turn, and ends: without routes, nothing is worse.
        return _without_routes(case, _WORSE)
    taken = [before for before, after in changes if after.decision.route in proposed]
    attempt = Attempt(case.judge.fib, case.hidden, proposed, unmade)
    lacks = ""
    if proposed:
        # All have the same next hops, and so lack the same attributes of the default route.
        lacks = attributes_lost(case.judge, proposed[0])
    return repair._replace(
        unrepairable=tuple(attempt.find_unrepairable(changes)),
        costs=tuple(dict.fromkeys(find_costs(case.judge, case.blocks, taken))),
        lacks=lacks,
    )


def _judge_again(case: Case, proposed: Sequence[Route]) -> Iterator[Change]:
    """Each part with the routes, and the part without them in which it lies."""
    after = case.judge.with_routes(proposed)
    firsts = [part.first for part in case.parts]
    for block in case.blocks:
        for part in find_parts(after, block.first, block.last):
            # More routes only add borders, and `find_parts` joins no ranges: so each new part lies
            # in one old part.
            yield Change(case.parts[bisect_right(firsts, part.first) - 1], part)


def _is_worse(change: Change) -> bool:
    """Whether the grade of plain packets, or the worst grade of all, is worse than before.

    For example, a present route says with which source packets leave, and a new one cannot: then a
    rule for another source may capture them.
    """
    if change.after.plain_grade > change.before.plain_grade:
        return True
    return change.after.worst_grade > change.before.worst_grade
