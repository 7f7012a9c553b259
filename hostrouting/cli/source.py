"""What the commands read: the configuration, the CIDRs and devices that are typed, this host or a saved snapshot.

Here: from arguments to values. Not here: any conclusion.
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, ConfigError, Fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model.snapshot import Snapshot

GetHost: TypeAlias = "Callable[[], Host]"
"""Makes the host when a command needs it."""


def read_config(path: str | None) -> HostRoutingConfig:
    """The configuration in this file; an empty one without a file."""
    return HostRoutingConfig() if path is None else HostRoutingConfig.load(path, is_ours=True)


def typed_name(path: str) -> str:
    """The file as it is typed in a shell; standard input has no name."""
    return "FILE" if path == "-" else shlex.quote(path)


class Question(NamedTuple):
    """What a check is to be made of."""

    config: HostRoutingConfig
    """By what the host is checked."""
    base: HostRoutingConfig
    """The configuration in the file, or the installed one, without what was typed; a repair is added to it."""
    repair: str
    """The line of shell that repairs the host permanently. A file that it could not read is in it as text."""


def read_question(arguments: argparse.Namespace, host: GetHost) -> Question:
    """The configuration to check by: that of --config, or the installed one. Raises ConfigError if nothing is expected.

    CIDRs that are typed replace those of the configuration; what it says about devices, pods and services stays.
    """
    is_saved = bool(arguments.snapshot or getattr(arguments, "snapshots", ()))
    base = read_base(arguments, host)
    config = _typed(base, "CIDR", expected_cidrs=arguments.cidrs) if arguments.cidrs else base
    config = with_devs(config, arguments.dev)
    if not config.route_overlap.cidrs:
        remedy = "name one, such as 172.16.0.0/16, or a --config that has some"
        raise ConfigError([Fault("CIDR", "", "no expected CIDR is given, so there is nothing to check", remedy)])
    words, before = ["hostrouting", "repair", *arguments.cidrs], ""
    words += [word for dev in arguments.dev for word in ("--dev", dev)]
    if arguments.config is not None:
        is_gone = is_saved or arguments.config == "-"
        words += ["--config", "-" if is_gone else arguments.config]
        if is_gone:
            import json  # noqa: PLC0415  a check on the host needs none

            before = f"printf %s {shlex.quote(json.dumps(written(base)))} | "
    return Question(config, base, f"{before}{shlex.join(words)} | hostrouting apply --config -")


def read_base(arguments: argparse.Namespace, host: GetHost) -> HostRoutingConfig:
    """The configuration of --config; without it, the one that is installed, if this host is asked about."""
    is_saved = bool(arguments.snapshot or getattr(arguments, "snapshots", ()))
    return read_config(arguments.config) if arguments.config or is_saved else _installed(host())


def with_devs(config: HostRoutingConfig, devs: list[str]) -> HostRoutingConfig:
    """The configuration with these expected devices, if there are any."""
    return _typed(config, "--dev", expected_devs=devs) if devs else config


def written(config: HostRoutingConfig) -> dict[str, Any]:
    """The configuration as somebody would write it: without what is the default everywhere."""
    usual = HostRoutingConfig().to_mapping()
    return {name: _short(part) for name, part in config.to_mapping().items() if part != usual.get(name)}


def _short(part: Any) -> Any:
    """A part of the configuration without empty texts and lists, and without the number 0."""
    if isinstance(part, list):
        return [_short(member) for member in part]
    is_object = isinstance(part, dict)
    return (
        {key: _short(value) for key, value in part.items() if repr(value) not in {"''", "[]", "0"}}
        if is_object
        else part
    )


def _typed(config: HostRoutingConfig, name: str, **settings: list[str]) -> HostRoutingConfig:
    """The configuration with other settings of the check; a fault names the argument in which they were typed."""
    try:
        return config._replace(route_overlap=config.route_overlap._replace(**settings))
    except ConfigError as error:
        raise ConfigError([fault._replace(path=name) for fault in error.faults]) from error


def _installed(host: Host) -> HostRoutingConfig:
    if not host.may_have_ours:
        return HostRoutingConfig()
    from hostrouting.tasks.install import read_installed  # noqa: PLC0415  few hosts that are checked have it

    return read_installed(host) or HostRoutingConfig()


def read_host(arguments: argparse.Namespace, host: GetHost) -> Snapshot:
    """The saved snapshot that the arguments name, or that of this host."""
    if arguments.snapshot is None:
        with open_kernel(host) as kernel:
            return kernel.snapshot()
    from hostrouting.host.saved import read_snapshot  # noqa: PLC0415  for a saved one only

    return read_snapshot(arguments.snapshot)


def open_kernel(host: GetHost) -> AbstractContextManager[RouteBackend]:
    """Connect to the routing of this host's kernel for a `with` block."""
    if (backend := host().backend) is None:
        sentence = "an image has no kernel to ask; use a snapshot of its host with --snapshot"
        raise BackendError(sentence, kind="unavailable")
    return backend()
