"""A pass as the processes of a node make it: under the lock of the host, and with config.json as it
is then.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from hostrouting.config.settings import PARTS, HostRoutingConfig, PassPart
from hostrouting.errors import HostError
from hostrouting.host.layout import HostLayout
from hostrouting.install.installed import read_installed
from hostrouting.node.journal import INFO, lines_of, say
from hostrouting.upkeep.passes import (
    Done,
    PassOutcome,
    await_pass,
    markers_removed_on_failure,
    run_pass,
)

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.node.clock import NodeClock

WAIT = 60.0
"""Seconds for what may still come: of the 75 that a process has, the rest is for its work."""


def read_config(host: Host) -> HostRoutingConfig:
    """Return the installed configuration, with which a process of the node sets the routes and
    checks them. The caller holds the lock of the host. If the configuration cannot be read, or is
    empty, the markers, which tell other programs the verdict of the last check, are removed before
    the error is raised: the verdict may be wrong by now.

    HostError if nothing is configured: with an empty configuration, a guard would delete all our
    routes.
    """
    with markers_removed_on_failure(host.files):
        config = read_installed(host)
        if config.asks_for_nothing:
            raise HostError(
                f"{HostLayout.config_path} is missing, or configures nothing: hostrouting has just "
                "been removed, or somebody has changed the file; to see which, as root: "
                f"{HostLayout.node_command} status",
                what="file",
            )
        return config


def await_installed_pass(
    host: Host, parts: Collection[PassPart] = PARTS, *, clock: NodeClock
) -> PassOutcome:
    """Make a pass by the installed configuration, or only these `parts` of it: set the routes of
    the host, load its table for probes, check. Repeat the pass while something is missing that may
    still come (`await_pass`). Log what all passes have changed, and what the last pass has found.
    Return the outcome of the last pass.
    """
    done = Done()

    def make_pass(backend: RouteBackend) -> PassOutcome:
        with clock.locked():
            config = read_config(host)
            return run_pass(host, backend, config, done=done, parts=parts)

    outcome = await_pass(host, make_pass, clock=clock, wait=WAIT, say=partial(say, INFO))
    for line in lines_of(outcome, done):
        say(*line)
    return outcome
