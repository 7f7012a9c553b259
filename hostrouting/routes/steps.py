"""The values that a plan of routes consists of, and their sentences: its steps, and the configured
routes that wait or stay.

`plan` makes these values, and `apply` carries out the steps. A plan can be printed, joined with
others, and asked for the host as it would be afterwards.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.config.settings import StaticRoute
from hostrouting.errors import RouteConflict
from hostrouting.finding import Finding, Remedy
from hostrouting.model.route import Route, entries_of_route, routes_of_entries
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.uplink import Need
from hostrouting.text import grouped

Action: TypeAlias = Literal["conflict", "keep", "delete", "add"]

_SIGNS: dict[Action, str] = {"conflict": "!", "keep": " ", "delete": "-", "add": "+"}


class RouteStep(NamedTuple):
    """What is done with one route; or, in a conflict, why it cannot be installed."""

    action: Action
    route: Route
    reason: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.action]} {self.route}    # {self.action}: {self.reason}"

    @property
    def remedy(self) -> Remedy | None:
        """What an operator can do about a conflict, for which `reason` names the other program's
        route; None for any other step.
        """
        if self.action != "conflict":
            return None
        return Remedy(
            "if that route is right, such as a CNI's to the pods of this node, configure a higher "
            "metric than it has; otherwise delete it, or configure the halves of "
            f"{self.route.prefix} or a lower metric"
        )

    @property
    def finding(self) -> Finding:
        """The finding about this step, which is a conflict."""
        prefix = str(self.route.prefix)
        sentence = f"{prefix} cannot be installed: {self.reason}"
        return Finding("route-conflict", "error", sentence, prefix, self.remedy)


Incomplete: TypeAlias = tuple[Need, StaticRoute]
"""A configured route that waits, with what it needs; or one that stays as it is for now, with what
it will do after a reboot.
"""


class RoutePlan(NamedTuple):
    """The steps in their order, and the configured routes that wait, or stay as they are."""

    steps: tuple[RouteStep, ...] = ()
    waiting: tuple[Incomplete, ...] = ()
    staying: tuple[Incomplete, ...] = ()
    reply_findings: tuple[Finding, ...] = ()
    """Warnings that say why the route for replies to probes cannot be installed now: nothing fails
    because of it.
    """

    @classmethod
    def joined(cls, plans: Sequence["RoutePlan"]) -> "RoutePlan":
        """Make one plan of several: the steps of all, then what waits in all, and so on."""
        return cls(*(tuple(chain.from_iterable(each)) for each in zip(*plans, strict=True)))

    @property
    def changes(self) -> tuple[RouteStep, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self.steps if step.action in {"add", "delete"})

    @property
    def conflicts(self) -> tuple[RouteStep, ...]:
        """The steps of routes that cannot be installed, because another program's has their key."""
        return tuple(step for step in self.steps if step.action == "conflict")

    def require_no_conflict(self) -> None:
        """Raise RouteConflict if there is a conflict. The error also lists the routes that wait,
        with what they need.
        """
        if self.conflicts:
            findings = [step.finding for step in self.conflicts]
            raise RouteConflict(findings=[*findings, *self.wait_warnings])

    @property
    def wait_warnings(self) -> tuple[Finding, ...]:
        """Warnings that say what the waiting routes need: one for all routes with the same need."""
        waits: list[Finding] = []
        for need, routes in grouped(self.waiting).items():
            verb = "needs" if len(routes) == 1 else "need"
            sentence = f"{_subject(routes)} {verb} {need}"
            waits.append(
                Finding(
                    "route-waits",
                    "warning",
                    sentence,
                    str(routes[0].destination),
                    need.remedy,
                    can_retry=True,
                )
            )
        return tuple(waits)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that do not make a run fail: what the staying routes will do after a reboot, and
        why there is no route for replies to probes.
        """
        warnings = [*self.reply_findings]
        # `need` of a staying route is a phrase for what it will do: "wait for …" or "lead …".
        for need, routes in grouped(self.staying).items():
            sentence = (
                f"after the next boot, {_subject(routes)} will {need}; what is there now stays"
            )
            warnings.append(
                Finding("route-stays", "warning", sentence, str(routes[0].destination), need.remedy)
            )
        return tuple(warnings)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings: conflicts, routes that wait, and warnings."""
        for step in self.conflicts:
            yield step.finding
        yield from self.wait_warnings
        yield from self.warnings

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host as the plan would leave it. Conflicts and waiting routes change nothing."""
        deleted = {step.route for step in self.steps if step.action == "delete"}
        routes: list[Route] = []
        for route in snapshot.routes:
            # In IPv6, a plan may delete some next hops of a route and leave the others.
            routes += routes_of_entries(
                [entry for entry in entries_of_route(route) if entry not in deleted]
            )
        routes += [step.route for step in self.steps if step.action == "add"]
        return snapshot._replace(routes=tuple(routes))


def _subject(routes: list[StaticRoute]) -> str:
    """The subject of a sentence: the only route, or "2 routes, such as 172.16.0.0/17,"."""
    if len(routes) == 1:
        return str(routes[0])
    return f"{len(routes):,} routes, such as {routes[0]},"
