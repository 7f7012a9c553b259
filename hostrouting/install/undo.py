"""What the undo of a task needs to know of the runs that it undoes.

The undo is a run that installs the former configuration again. That says all that is needed, except
for routes of hostrouting that it does not have either: a run deletes them, and its undo adds them
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, recorded_in_errors
from hostrouting.install.installed import configured_keys
from hostrouting.kernel.base import RouteRequest

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.model.route import Route, RouteKey


@attrs.define
class Before:
    """What there was before the first change of a run."""

    config: HostRoutingConfig | None
    """What was installed; None if it could not be read."""
    changes: list[RouteRequest] = attrs.field(factory=list)
    """What the run has done with routes, or is about to do, in order."""

    @property
    def deleted(self) -> list[Route]:
        """The routes that were there before the run and that it deletes, in that order.

        A route that a rollback has added again counts, too: before undo adds these routes, it
        installs `config`, which deletes every route that is not configured.
        """
        first_verbs: dict[Route, str] = {}
        for change in self.changes:
            first_verbs.setdefault(change.route, change.verb)
        return [route for route, verb in first_verbs.items() if verb == "delete"]


def require_readable(runs: Sequence[Before]) -> HostRoutingConfig:
    """What was installed before the first of these runs; HostError if it could not be read."""
    former = runs[0].config
    if former is None:
        sentence = "what was installed before could not be read, so it cannot be installed again"
        raise HostError(f"{sentence}; to remove everything, run Remove", what="file")
    return former


def routes_to_add_again(runs: Sequence[Before]) -> list[Route]:
    """The routes that these runs have deleted and that no configuration has, of each run the last
    one first.
    """
    configured: set[RouteKey] = set()
    for before in runs:
        configured |= configured_keys(before.config)
    routes: list[Route] = []
    for before in runs:
        routes += [route for route in reversed(before.deleted) if route.key not in configured]
    return routes


def add_routes(host: Host, routes: Iterable[Route]) -> Effects:
    """Add these routes to the host, which is locked."""
    with host.open_kernel() as kernel:
        outcomes = kernel.change(RouteRequest("append", route) for route in routes)
    added = tuple(outcome.change for outcome in outcomes if outcome.ok)
    with recorded_in_errors(added):
        for outcome in outcomes:
            if outcome.error is not None and not outcome.is_done:
                raise outcome.error
    return Effects(added)
