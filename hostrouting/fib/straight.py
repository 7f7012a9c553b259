"""The route that decides, where nothing has to be searched or asked: the fast path of cells.

Why: of a hundred thousand routes that a check meets, nearly each is met once, and what the walk through the rules makes
of it (`stretch`, `Table.best`, an `Entry`) takes three times as long as the answer itself. Most places are simple: all
packets take the same steps, the longest prefix in each table is known, and the first one has one route, which is in
use, for any tos, and not suppressed. For anything else the answer is None, and the walk is to be asked. A property test
has both give the same cells.
"""

from collections.abc import Mapping, Sequence

from hostrouting.fib.step import Step
from hostrouting.model import Route

__all__ = ["straight_route"]

_NO_PREFIX = -1


def straight_route(
    steps: Sequence[Step], longest: Sequence[int], numbers: Mapping[int, int]
) -> tuple[Step, int, Route] | None:
    """The step and the route that decide, and the route's position; None: the walk is to be asked.

    `longest` has the key of the longest prefix in each table, `numbers` says where, by the table's id.
    """
    for step in steps:
        table = step.table
        if table is None:
            return None
        key = longest[numbers[id(table)]]
        if key == _NO_PREFIX:
            continue
        if not step.simple or key in table.more:
            return None
        position = table.first[key]
        route = table.routes[position]
        if route.tos or route.type == "throw":
            return None
        for leg in route.legs:
            if leg.dead or leg.linkdown:
                return None
        return step, position, route
    return None
