"""What a plan of routes consists of, and how it is said: its steps, and the routes that wait.

`plan` makes these values, and `apply` carries out the steps. A plan can be printed, joined with
others, and asked for the host as it would be afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.config.settings import StaticRoute
from hostrouting.errors import RouteConflict
from hostrouting.finding import Finding, Remedy, with_severity
from hostrouting.model.route import Route, as_stored, deletion_command
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.uplink import Need
from hostrouting.text import grouped

Action: TypeAlias = Literal["conflict", "keep", "delete", "add"]

# Conflicts first, because they prevent the rest; then deletions before additions, because a new
# route may have the key of an old one.
_SIGNS: dict[Action, str] = {"conflict": "!", "keep": " ", "delete": "-", "add": "+"}


class RouteStep(NamedTuple):
    """What becomes of one route, or why it cannot be installed."""

    action: Action
    route: Route
    reason: str
    rival: Route | None = None
    """For a conflict: the route of another program with the key that Linux uses."""

    def __str__(self) -> str:
        return f"{_SIGNS[self.action]} {self.route}    # {self.action}: {self.reason}"

    @property
    def remedy(self) -> Remedy | None:
        """How to have a route to this prefix although another one has its key."""
        if self.rival is None:
            return None
        words = (
            f"configure another metric, or the halves of {self.route.prefix}; or if nothing needs "
            "that route, delete it (a program may add it again)"
        )
        return Remedy(words, deletion_command(self.rival))

    @property
    def finding(self) -> Finding:
        """The conflict as a finding."""
        prefix = str(self.route.prefix)
        sentence = f"{prefix} cannot be installed: {self.reason}"
        return Finding("route-conflict", "error", sentence, prefix, self.remedy)


Incomplete: TypeAlias = tuple[Need, StaticRoute]
"""What is missing for a configured route to be completed; for one that stays, what it will do after
a reboot.
"""


class RoutePlan(NamedTuple):
    """The steps in their order, and the configured routes that wait, or stay as they are."""

    steps: tuple[RouteStep, ...] = ()
    waiting: tuple[Incomplete, ...] = ()
    staying: tuple[Incomplete, ...] = ()
    reply_findings: tuple[Finding, ...] = ()
    """Why the route for replies to probes cannot be installed now; a warning, because nothing waits
    for it.
    """

    @classmethod
    def joined(cls, plans: Sequence["RoutePlan"]) -> "RoutePlan":
        """A plan with everything that is in these, and its steps in the order of their signs."""
        plan = cls(*(tuple(chain.from_iterable(each)) for each in zip(*plans, strict=True)))
        steps = sorted(plan.steps, key=lambda step: [*_SIGNS].index(step.action))
        return plan._replace(steps=tuple(steps))

    def of_replies(self) -> "RoutePlan":
        """The plan for the route for replies to probes: a conflict or what is missing is a warning,
        and nothing else.
        """
        obstacles = [*self.findings()]
        return RoutePlan().with_reply_warnings(obstacles) if obstacles else self

    def with_reply_warnings(self, obstacles: Iterable[Finding]) -> "RoutePlan":
        """Add these findings about the route for replies to probes, as warnings."""
        return self._replace(reply_findings=with_severity("warning", obstacles))

    @property
    def changes(self) -> tuple[RouteStep, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self.steps if step.action in {"add", "delete"})

    @property
    def conflicts(self) -> tuple[RouteStep, ...]:
        """The steps for routes that cannot be installed, because each has a rival."""
        return tuple(step for step in self.steps if step.action == "conflict")

    def require_no_conflict(self) -> None:
        """Raise RouteConflict if a wanted route cannot be installed; it also says what others wait
        for.
        """
        if self.conflicts:
            findings = [step.finding for step in self.conflicts]
            raise RouteConflict(findings=[*findings, *self.route_waits])

    @property
    def route_waits(self) -> tuple[Finding, ...]:
        """What the waiting routes need; those that need the same thing share a finding."""
        waits: list[Finding] = []
        for need, routes in grouped(self.waiting).items():
            verb = "needs" if len(routes) == 1 else "need"
            sentence = f"{_named(routes)} {verb} {need}"
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
    def failed_waits(self) -> tuple[Finding, ...]:
        """These findings as errors: for a run that waits no longer."""
        return with_severity("error", self.route_waits)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What a run succeeds in spite of: what becomes of the staying routes after a reboot, and
        why there is no route for replies to probes.
        """
        warnings = [*self.reply_findings]
        for need, routes in grouped(self.staying).items():
            sentence = f"after the next boot, {_named(routes)} will {need}; what is there now stays"
            warnings.append(
                Finding("route-stays", "warning", sentence, str(routes[0].destination), need.remedy)
            )
        return tuple(warnings)

    def findings(self) -> Iterator[Finding]:
        """What keeps the wanted routes from being installed, now or after a reboot."""
        for step in self.conflicts:
            yield step.finding
        yield from self.route_waits
        yield from self.warnings

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and waiting routes change nothing."""
        deleted = {step.route for step in self.steps if step.action == "delete"}
        routes: list[Route] = []
        for route in snapshot.routes:
            if deleted.isdisjoint(as_stored(route)):
                routes.append(route)
            else:
                routes += [entry for entry in as_stored(route) if entry not in deleted]
        routes += [step.route for step in self.steps if step.action == "add"]
        return snapshot._replace(routes=tuple(routes))


def _named(routes: list[StaticRoute]) -> str:
    """The route, or their number and the first of them."""
    if len(routes) == 1:
        return str(routes[0])
    return f"{len(routes):,} routes, such as {routes[0]},"
