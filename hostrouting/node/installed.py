"""The pass of a node: with the configuration that is in force, which is config.json as it is now,
and under the lock of the host.

What may still come after a boot, such as a default route, is awaited without the lock, so that
others can work meanwhile. Where no verdict is reached, the markers go, because none is better than
an old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostrouting.check.marker import remove_markers
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, HostError
from hostrouting.host.layout import HostLayout
from hostrouting.node.journal import INFO, say
from hostrouting.upkeep.passes import PARTS, Part, PassOutcome, run_pass

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.node.clock import NodeClock

_PATH = HostLayout.config_path
WAIT = 60.0
"""Seconds for what may still come: of the 75 that a process has, the rest is for its work."""
_LOOK_AGAIN = 1.0
"""Seconds to the next attempt: Linux does not report every change."""
GATHER = 0.02
"""So long after a change, others belong to it."""


def read_config(files: Files) -> HostRoutingConfig:
    """The configuration that is in force. HostError if it cannot be read, ConfigError if it is none
    of ours.
    """
    text = files.read(_PATH)
    if text is None:
        sentence = (
            f"{_PATH} is missing: hostrouting has just been removed, or somebody has deleted the "
            f"file; to see which, as root: {HostLayout.node_command} status"
        )
        raise HostError(sentence, what="file")
    try:
        return HostRoutingConfig.from_json(text)
    except ConfigError as error:
        raise ConfigError(error.faults, _PATH) from error


@contextmanager
def verdict_gone_after_failure(files: Files) -> Iterator[None]:
    """Remove the markers if the block fails, or is ended: they are about another state."""
    try:
        yield
    except BaseException:
        remove_markers(files)
        raise


def run_installed_pass(
    host: Host, backend: RouteBackend, parts: Collection[Part] = PARTS
) -> tuple[HostRoutingConfig, PassOutcome]:
    """Make these parts of a pass with the configuration that is in force."""
    with verdict_gone_after_failure(host.files):
        config = read_config(host.files)
        return config, run_pass(host, backend, config, parts=parts)


def await_pass(
    host: Host,
    parts: Collection[Part] = PARTS,
    *,
    clock: NodeClock,
) -> tuple[HostRoutingConfig, PassOutcome]:
    """Make these parts of a pass, and again after each change, until nothing may come any more, or
    the time for that is over. What is awaited is said each time that it changes.
    """
    until = clock.now() + WAIT
    with verdict_gone_after_failure(host.files), host.open_kernel() as backend:
        config, outcome = _locked_pass(host, backend, parts, clock)
        if not outcome.waits:
            return config, outcome
        said = ""
        changes = outcome.changes
        with backend.watch() as watch:
            while True:
                # The first one again: the change may have come before the watch.
                config, outcome = _locked_pass(host, backend, parts, clock)
                changes += outcome.changes
                seconds_left = until - clock.now()
                if not outcome.waits or seconds_left <= 0:
                    return config, outcome._replace(changes=changes)
                if outcome.waits != said:
                    said = outcome.waits
                    say(INFO, f"waiting for up to {seconds_left:.0f} s: {said}")
                watch.wait(min(_LOOK_AGAIN, seconds_left), clock=clock.for_watch)
                clock.sleep(GATHER)


def _locked_pass(
    host: Host,
    backend: RouteBackend,
    parts: Collection[Part],
    clock: NodeClock,
) -> tuple[HostRoutingConfig, PassOutcome]:
    with clock.locked():
        return run_installed_pass(host, backend, parts)
