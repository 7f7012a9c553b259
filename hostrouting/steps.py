"""The steps of a plan: what is to be done with one route, and why; and all of them in order.

Here: values. Not here: which steps lead to what is wanted (`plan`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, TypeAlias, overload

import attrs

from hostrouting.model import Route, RouteTable

__all__ = ["Action", "Place", "Step", "Steps", "in_order"]

Action: TypeAlias = Literal["keep", "add", "replace", "delete", "conflict"]
Place: TypeAlias = Literal["only", "first", "last"]

# Conflicts first, for they forbid the rest; then what is made, before what is broken.
_ORDER: dict[Action, int] = {"conflict": 0, "keep": 1, "add": 2, "replace": 3, "delete": 4}
_SIGNS: dict[Action, str] = {"keep": " ", "add": "+", "replace": "~", "delete": "-", "conflict": "!"}


@attrs.frozen
class Step:
    """One step: for `replace` and `conflict`, `held` is the route that stands where `route` is to be.

    `place` is where among the routes of its key an added or new route stands, or a deleted one stood: the only one that
    stays, before all others that stay, or behind one of them. (The kernel takes the first; it can put no route between
    two others.)
    """

    action: Action
    route: Route
    reason: str
    held: Route | None = None
    place: Place = "only"
    remedy: str = ""
    """What else can be done about a conflict; the boot script, which says the reason too, does not know of it."""

    @property
    def why(self) -> str:
        """The reason, and what else can be done."""
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason

    def __str__(self) -> str:
        sign = _SIGNS[self.action]
        before = f"- {self.held}\n" if self.action == "replace" else ""
        sign = "+" if self.action == "replace" else sign
        return f"{before}{sign} {self.route}    # {self.action}: {self.why}"


class Steps(Sequence[Step]):
    """Steps in order, of which those that keep a route are made when somebody looks at them.

    Why: where ten thousand routes are as they are wanted, usually nobody does. Otherwise it behaves like a tuple.
    """

    def __init__(self, others: tuple[Step, ...], routes: RouteTable, kept: Sequence[int], reason: str) -> None:
        """Take the other steps, where the routes stand that are kept, and why they are."""
        self.others, self._routes, self._kept, self._reason = others, routes, kept, reason

    @cached_property
    def _all(self) -> tuple[Step, ...]:
        return in_order((*(Step("keep", self._routes[place], self._reason) for place in self._kept), *self.others))

    def __len__(self) -> int:
        return len(self.others) + len(self._kept)

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Step, ...]: ...

    def __getitem__(self, place: int | slice) -> Step | tuple[Step, ...]:
        return self._all[place]

    def __iter__(self) -> Iterator[Step]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return self._all == tuple(other) if isinstance(other, tuple | Steps) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> tuple[type, tuple[tuple[Step, ...]]]:
        """Copied, or sent to another process, it is the tuple."""
        return tuple, (self._all,)


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The order in which they are to be taken."""
    return tuple(sorted(steps, key=_place))


def _place(step: Step) -> tuple[object, ...]:
    """Where a step belongs: what needs no gateway is made first, and broken last."""
    route, prefix = step.route, step.route.prefix
    through = any(leg.gateway for leg in route.legs)
    late = not through if step.action == "delete" else through
    return (_ORDER[step.action], late, prefix.family, prefix.network, prefix.length, route.table, route.metric)
