"""What the commands read: the configuration, the CIDRs and devices that are typed, this host or a saved snapshot.

Here: from arguments to values. Not here: any conclusion.
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.errors import BackendError, ConfigError, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model.snapshot import Snapshot

GetHost: TypeAlias = "Callable[[], Host]"
"""Makes the host when a command needs it."""


_OPTIONS: dict[str, dict[str, Any]] = {
    "cidrs": {"metavar": "CIDR", "nargs": "*", "help": "an expected CIDR, such as 172.16.0.0/16"},
    "--dev": {
        "dest": "devs",
        "metavar": "DEV",
        "action": "append",
        "default": [],
        "help": "an expected device, instead of those of the default route; may be repeated",
    },
    "--config": {"metavar": "FILE", "help": "the configuration, as JSON; - is standard input"},
    "--snapshot": {"metavar": "FILE", "help": "read this saved snapshot instead of this host; - is standard input"},
}


def add_options(parser: argparse.ArgumentParser, *names: str, **more: Any) -> None:
    """Add these arguments, which several commands have; `more` is for argparse."""
    for name in names:
        parser.add_argument(name, **_OPTIONS[name], **more)


def read_config(path: str | None) -> HostRoutingConfig:
    """The configuration in this file; an empty one without a file."""
    return HostRoutingConfig() if path is None else HostRoutingConfig.load(path, is_ours=True)


class Question(NamedTuple):
    """What a check is to be made of."""

    config: HostRoutingConfig
    """By what the host is checked."""
    base: HostRoutingConfig
    """The configuration in the file, or the installed one, without what was typed; a repair is added to it."""
    words: str
    """The arguments that ask the same on the host, for a shell."""


def read_question(arguments: argparse.Namespace, host: GetHost) -> Question:
    """The configuration to check by: that of --config, or the installed one. Raises ConfigError if nothing is expected.

    CIDRs that are typed replace those of the configuration, and the other settings of an installed check: the answer is
    the same for this host and for its snapshot.
    """
    is_here = not (arguments.config or arguments.snapshot or getattr(arguments, "snapshots", ()))
    base = _installed(host()) if is_here else read_config(arguments.config)
    config = base
    if arguments.cidrs:
        check = RouteOverlapConfig() if is_here else base.route_overlap
        config = _typed(attrs.evolve(base, route_overlap=check), "CIDR", expected_cidrs=arguments.cidrs)
    config = with_devs(config, arguments.devs)
    if not config.route_overlap.cidrs:
        remedy = "name one, such as 172.16.0.0/16, or a --config that has some"
        raise ConfigError([Fault("CIDR", "", "no expected CIDR is given, so there is nothing to check", remedy)])
    named = [("--dev", dev) for dev in arguments.devs]
    named += [("--config", arguments.config)] if arguments.config is not None else []
    return Question(config, base, shlex.join([*arguments.cidrs, *(word for pair in named for word in pair)]))


def with_devs(config: HostRoutingConfig, devs: list[str]) -> HostRoutingConfig:
    """The configuration with these expected devices, if there are any."""
    return _typed(config, "--dev", expected_devs=devs) if devs else config


def _typed(config: HostRoutingConfig, name: str, **settings: list[str]) -> HostRoutingConfig:
    """The configuration with other settings of the check; a fault names the argument in which they were typed."""
    try:
        return attrs.evolve(config, route_overlap=attrs.evolve(config.route_overlap, **settings))
    except ConfigError as error:
        raise ConfigError([attrs.evolve(fault, path=name) for fault in error.faults]) from error


def _installed(host: Host) -> HostRoutingConfig:
    if not host.may_have_ours:
        return HostRoutingConfig()
    from hostrouting.tasks.install import read_installed  # noqa: PLC0415  few hosts that are checked have it

    return read_installed(host) or HostRoutingConfig()


def read_saved(path: str) -> Snapshot:
    """The snapshot in this file."""
    from hostrouting.host.saved import read_snapshot  # noqa: PLC0415  for a snapshot only

    return read_snapshot(path)


def open_kernel(host: GetHost) -> RouteBackend:
    """The routing of this host's kernel."""
    if (backend := host().backend) is None:
        sentence = "an image has no kernel to ask; use a snapshot of its host with --snapshot"
        raise BackendError(sentence, kind="unavailable")
    return backend()
