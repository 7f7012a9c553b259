"""The pass of a node: with the configuration that is in force, which is config.json as it is now,
and under the lock of the host.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from hostrouting.config.settings import PARTS, HostRoutingConfig, PassPart
from hostrouting.errors import ConfigError, HostError
from hostrouting.host.layout import HostLayout
from hostrouting.node.journal import INFO, lines_of, say
from hostrouting.upkeep.passes import (
    Done,
    PassOutcome,
    await_pass,
    markers_removed_on_failure,
    run_pass,
)

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.node.clock import NodeClock

_PATH = HostLayout.config_path
WAIT = 60.0
"""Seconds for what may still come: of the 75 that a process has, the rest is for its work."""


def read_config(files: Files) -> HostRoutingConfig:
    """The configuration that is in force, for a caller that has the lock of the host. HostError if
    it cannot be read, or asks for nothing; ConfigError if it is none of ours. Then the markers go.

    An absent one is not taken for an empty one, as a run takes it where nothing of ours is left
    (`install.installed`), and an empty one asks for nothing: the guard would delete all routes.
    """
    with markers_removed_on_failure(files):
        text = files.read(_PATH) or "{}"
        try:
            config = HostRoutingConfig.from_json(text)
        except ConfigError as error:
            raise ConfigError(error.faults, _PATH) from error
        if config.asks_for_nothing:
            sentence = (
                f"{_PATH} is missing, or configures nothing: hostrouting has just been removed, or "
                f"somebody has changed the file; to see which, as root: {HostLayout.node_command} "
                "status"
            )
            raise HostError(sentence, what="file")
        return config


def await_installed_pass(
    host: Host, parts: Collection[PassPart] = PARTS, *, clock: NodeClock
) -> PassOutcome:
    """Make these parts of a pass until nothing is awaited any more (`await_pass`); log what they
    have found and done.
    """
    done = Done()

    def make_pass(backend: RouteBackend) -> PassOutcome:
        with clock.locked():
            config = read_config(host.files)
            return run_pass(host, backend, config, done=done, parts=parts)

    outcome = await_pass(host, make_pass, clock=clock, wait=WAIT, say=partial(say, INFO))
    for level, words in lines_of(outcome, done):
        say(level, words)
    return outcome
