"""The steps of a plan: what to do with one route, and why; and the sequence of all steps.

Here: values. Not here: choosing the steps (`plan`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, TypeAlias, overload

import attrs

from hostrouting.model import Route, RouteTable

__all__ = ["Action", "Place", "Step", "Steps", "in_order"]

Action: TypeAlias = Literal["keep", "add", "replace", "delete", "conflict"]
Place: TypeAlias = Literal["only", "first", "last"]

# Conflicts first, because they prevent the rest; then additions before deletions (make before break).
_ORDER: dict[Action, int] = {"conflict": 0, "keep": 1, "add": 2, "replace": 3, "delete": 4}
_SIGNS: dict[Action, str] = {"keep": " ", "add": "+", "replace": "~", "delete": "-", "conflict": "!"}


@attrs.frozen
class Step:
    """One step: for `replace` and `conflict`, `held` is the existing route with the key of `route`.

    `place` is the position of an added or replaced route, or of a deleted one, among the routes with its key that
    stay: the only one, before all others, or after one of them. (The kernel uses the first; it cannot insert a route
    between two others.)
    """

    action: Action
    route: Route
    reason: str
    held: Route | None = None
    place: Place = "only"
    remedy: str = ""
    """Another way to resolve a conflict. The boot script prints the reason only, not this."""

    @property
    def why(self) -> str:
        """The reason and the remedy."""
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason

    def __str__(self) -> str:
        sign = _SIGNS[self.action]
        before = f"- {self.held}\n" if self.action == "replace" else ""
        sign = "+" if self.action == "replace" else sign
        return f"{before}{sign} {self.route}    # {self.action}: {self.why}"


class Steps(Sequence[Step]):
    """The steps in order. It behaves like a tuple, but creates the `keep` steps on first access.

    Why: if ten thousand routes are already right, their steps are rarely read.
    """

    def __init__(self, others: tuple[Step, ...], routes: RouteTable, kept: Sequence[int], reason: str) -> None:
        """Use the other steps, the positions of the kept routes in `routes`, and the reason for keeping them."""
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
        """Copy and pickle as a plain tuple of steps."""
        return tuple, (self._all,)


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps in the order in which they must be done."""
    return tuple(sorted(steps, key=_place))


def _place(step: Step) -> tuple[object, ...]:
    """The sort key of a step: routes without a gateway are added first and deleted last."""
    route, prefix = step.route, step.route.prefix
    through = any(leg.gateway for leg in route.legs)
    late = not through if step.action == "delete" else through
    return (_ORDER[step.action], late, prefix.family, prefix.network, prefix.length, route.table, route.metric)
