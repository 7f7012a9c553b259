"""What a plan of routes consists of, and how it is said: its steps, and the routes that wait.

`plan` makes these values, and `apply` carries out the steps. A plan can be printed, joined with
others, and asked for the host as it would be afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.config.settings import StaticRoute
from hostrouting.errors import RouteConflict
from hostrouting.finding import Finding, Remedy, Severity
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import (
    PROTOCOL_KERNEL,
    Route,
    RouteKey,
    as_listed,
    as_stored,
    bare,
    deletion_command,
)
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.uplink import REMEDY, TO_PIN, Need
from hostrouting.text import agreeing, spoken

Action: TypeAlias = Literal["conflict", "keep", "add", "delete"]

# Conflicts first, because they prevent the rest; then additions before deletions.
_SIGNS: dict[Action, str] = {"conflict": "!", "keep": " ", "add": "+", "delete": "-"}

_TO_DELETE = "if nothing needs that route, delete it (a program may add it again)"
_LOWEST_METRIC = {IPV4: 0, IPV6: 1}
"""By family; in IPv6, Linux takes 0 for 1024."""


class Step(NamedTuple):
    """What becomes of one route, or why it cannot be installed."""

    action: Action
    route: Route
    reason: str
    rivals: tuple[Route, ...] = ()
    """For a conflict: the routes of other programs with the key, of which Linux uses the first."""
    free_halves: tuple[Prefix, ...] = ()
    """For a conflict, both halves of the prefix if there is a route to neither."""

    @property
    def remedy(self) -> Remedy | None:
        """How to have a route to this prefix although rivals have its key: to configure something
        else, if that is possible, or to delete the rivals. None without a conflict.
        """
        if not self.rivals:
            return None
        prefix = self.route.prefix
        words: list[str] = []
        devs = _devs_of_addresses(self.rivals)
        if devs:
            by = ", ".join(devs)
            words.append(
                f"Linux has this route from an address of {by}: override or delete it only if this "
                f"host needs nothing in {prefix} through {by}"
            )
        delete = _deletion_of(self.rivals)
        instead = self._configure_instead()
        if instead:
            words += [instead, "then apply the configuration"]
            return Remedy("; ".join(words), otherwise=delete)
        if prefix.is_single:
            words.append("no route can be more specific")
        words.append(delete.words)
        return Remedy("; ".join(words), delete.command)

    def _configure_instead(self) -> str:
        """What to configure instead of a route that has rivals; empty if nothing would do."""
        prefix = self.route.prefix
        if self.route.metric > _LOWEST_METRIC[prefix.family]:
            return (
                f'write another "metric" for {prefix} into staticRoutes.routes: the lowest takes '
                "precedence"
            )
        if not self.free_halves:
            return ""
        left, right = self.free_halves
        return (
            f"write {left} and {right} instead of {prefix} into staticRoutes.routes: these two are "
            "more specific, so that route is no longer used"
        )

    @property
    def reason_with_remedy(self) -> str:
        """The reason; of a conflict, also the remedy."""
        return f"{self.reason}; {self.remedy}" if self.rivals else self.reason

    @property
    def line(self) -> str:
        """The step with its reason."""
        return self._line(self.reason)

    @property
    def finding(self) -> Finding:
        """The conflict as a finding."""
        prefix = str(self.route.prefix)
        facts = {"held": str(self.rivals[0]), "metric": self.route.metric}
        sentence = f"{prefix} cannot be installed: {self.reason}"
        return Finding("route-conflict", "error", sentence, prefix, self.remedy, facts)

    def __str__(self) -> str:
        return self._line(self.reason_with_remedy)

    def _line(self, reason: str) -> str:
        return f"{_SIGNS[self.action]} {self.route}    # {self.action}: {reason}"


def conflict_with(rivals: Sequence[Route], route: Route) -> Step:
    """The step for a route that cannot be installed: each of the rivals has its key, and Linux uses
    the first of them.
    """
    held = "], [".join(map(str, rivals))
    reason = f"a route that is not hostrouting's has the same destination and metric: [{held}]"
    return Step("conflict", route, reason, tuple(rivals))


def conflict_with_next_hop(entry: Route, route: Route) -> Step:
    """The step for an IPv6 route that cannot be installed: this entry with its key is another
    program's, whose protocol Linux does not list.
    """
    reason = (
        f"its next hop {entry.way} is another program's, though Linux lists it with the protocol "
        "of the first one"
    )
    return Step("conflict", route, reason, (entry._replace(protocol=0),))


def _deletion_of(rivals: Iterable[Route]) -> Remedy:
    """To delete the routes of other programs."""
    return Remedy(_TO_DELETE, " && ".join(map(deletion_command, rivals)))


def _devs_of_addresses(routes: Iterable[Route]) -> list[str]:
    """The devices with whose addresses Linux seems to have added routes; other programs, too, write
    `proto kernel`.
    """
    devs: list[str] = []
    for route in routes:
        is_of_kernel = route.protocol == PROTOCOL_KERNEL
        if is_of_kernel and route.type == "unicast" and len(route.next_hops) == 1:
            devs += route.devs
    return devs


class Incomplete(NamedTuple):
    """A configured route that cannot be completed, and what is missing."""

    route: StaticRoute
    missing: Need

    def __str__(self) -> str:
        return f"{self.route} needs {self.missing}"


class RoutePlan(NamedTuple):
    """The steps in their order, and the configured routes that cannot be completed: they wait, or
    stay as they are if one of ours is there.
    """

    steps: tuple[Step, ...] = ()
    waiting: tuple[Incomplete, ...] = ()
    staying: tuple[Incomplete, ...] = ()
    reply_findings: tuple[Finding, ...] = ()
    """Why the route for replies to probes cannot be installed now; a warning, because nothing waits
    for it.
    """

    @classmethod
    def joined(cls, plans: Iterable["RoutePlan"]) -> "RoutePlan":
        """One plan with everything that is in these, and its steps in the order of their signs."""
        steps: list[Step] = []
        waiting: list[Incomplete] = []
        staying: list[Incomplete] = []
        reply_findings: list[Finding] = []
        for plan in plans:
            steps += plan.steps
            waiting += plan.waiting
            staying += plan.staying
            reply_findings += plan.reply_findings
        order = [*_SIGNS]
        steps.sort(key=lambda step: order.index(step.action))
        return cls(tuple(steps), tuple(waiting), tuple(staying), tuple(reply_findings))

    def of_replies(self) -> "RoutePlan":
        """The plan for the route for replies to probes: a conflict or what is missing is a warning,
        and nothing else.
        """
        if self.conflicts:
            return RoutePlan(reply_findings=tuple(map(_reply_finding, self.conflicts)))
        if self.waiting:
            waits = [finding._replace(severity="warning") for finding in self.route_waits]
            return RoutePlan(reply_findings=tuple(waits))
        return self

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self.steps if step.action in {"add", "delete"})

    @property
    def deleted(self) -> tuple[Route, ...]:
        """The routes that go."""
        return tuple(step.route for step in self.steps if step.action == "delete")

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The steps for routes that cannot be installed, because each has a rival."""
        return tuple(step for step in self.steps if step.action == "conflict")

    @property
    def deletions(self) -> "RoutePlan":
        """The deletions for keys without another step: nothing takes the place of these routes."""
        wanted = {step.route.key for step in self.steps if step.action != "delete"}
        return RoutePlan(tuple(step for step in self.steps if step.route.key not in wanted))

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
        return tuple(map(_waiting_finding, _by_what_is_missing(self.waiting)))

    @property
    def failed_waits(self) -> tuple[Finding, ...]:
        """The same where nobody waits any longer: errors."""
        return tuple(finding._replace(severity="error") for finding in self.route_waits)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What a run succeeds in spite of: what the staying routes would wait for after a reboot,
        and why there is no route for replies to probes.
        """
        staying = map(_staying_finding, _by_what_is_missing(self.staying))
        return (*staying, *self.reply_findings)

    def findings(self) -> Iterator[Finding]:
        """What keeps the wanted routes from being installed, now or after a reboot."""
        for step in self.conflicts:
            yield step.finding
        yield from self.route_waits
        yield from self.warnings

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and waiting routes change nothing."""
        deleted = set(self.deleted)
        # Only keys that change.
        entries_after: dict[RouteKey, list[Route]] = {step.route.key: [] for step in self.changes}
        routes: list[Route] = []
        for route in snapshot.routes:
            if route.key not in entries_after:
                routes.append(route)
                continue
            for entry in as_stored(route):
                if bare(entry) not in deleted:
                    entries_after[route.key].append(entry)
        for step in self.changes:
            if step.action == "add":
                entries_after[step.route.key].append(step.route)
        for entries in entries_after.values():
            routes += as_listed(entries)
        return snapshot._replace(routes=tuple(routes))


def _reply_finding(conflict: Step) -> Finding:
    """A conflict about the route for replies to probes, which is not in staticRoutes."""
    words = "if it leads replies to probes out rightly, set probeRewrite.ensureRoute to false"
    remedy = Remedy(words, otherwise=_deletion_of(conflict.rivals))
    return conflict.finding._replace(severity="warning", remedy=remedy)


def _by_what_is_missing(routes: Iterable[Incomplete]) -> Iterable[list[Incomplete]]:
    """The routes that lack the same thing, together."""
    groups: dict[Need, list[Incomplete]] = {}
    for route in routes:
        groups.setdefault(route.missing, []).append(route)
    return groups.values()


def _waiting_finding(routes: Sequence[Incomplete]) -> Finding:
    """What these routes need, which lack the same thing and wait; an error if that cannot come."""
    first, missing = routes[0]
    sentence = f"{_named(routes)} {agreeing('needs', len(routes))} {missing}"
    remedy = missing.remedy or REMEDY
    if missing.defaults:
        are = "route is" if len(missing.defaults) == 1 else "routes are"
        defaults = spoken([f"[{route}]" for route in missing.defaults])
        remedy = Remedy(f"{remedy.words}: the default {are} {defaults}")
    target = str(first.destination)
    severity: Severity = "warning" if missing.can_come else "error"
    return Finding("route-waits", severity, sentence, target, remedy, can_retry=missing.can_come)


def _staying_finding(routes: Sequence[Incomplete]) -> Finding:
    """What these routes, which are there, would wait for after a reboot."""
    first, missing = routes[0]
    sentence = (
        f"after the next boot, {_named(routes)} will wait for {missing}; what is there now works"
    )
    remedy = missing.remedy or TO_PIN
    return Finding("route-stays", "warning", sentence, str(first.destination), remedy)


def _named(routes: Sequence[Incomplete]) -> str:
    """The route, or their number and the first of them."""
    first = str(routes[0].route)
    return first if len(routes) == 1 else f"{len(routes):,} routes, such as {first},"
