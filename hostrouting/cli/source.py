"""What is looked at: this host's kernel or a saved snapshot, and the configuration by which it is judged.

Here: arguments become values, and their faults ConfigError or SnapshotError. Not here: anything that is concluded.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, TypeVar

import attrs

import phases
from hostrouting.backends.saved import SavedBackend
from hostrouting.cli.page import SHOWN, spoken
from hostrouting.config import HostRoutingConfig, ProbeRewriteConfig, RouteOverlapConfig
from hostrouting.errors import ConfigError, Fault, NetlinkUnavailable, SnapshotError
from hostrouting.model import Snapshot
from hostrouting.nearest import nearest
from hostrouting.opening import NotAFile, open_file
from hostrouting.render import DEFAULT_WAIT, parse_check_script, parse_probe_script, parse_static_routes_script

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Network

    from hostrouting.backends.base import RouteBackend
    from hostrouting.host import Host
    from hostrouting.model import IP
    from hostrouting.render import ProbeScript

__all__ = [
    "address_of",
    "config_of",
    "expected_of",
    "installed_config",
    "known_devices",
    "looked_at",
    "quiet_context",
    "start_command",
    "wait_of",
]

T = TypeVar("T")

_WRITER = 10.0  # seconds in which whoever writes into a fifo has to have opened it
_LIMIT = 1 << 30  # bytes of a snapshot; that of 100,000 routes has some 10 MiB


def config_of(arguments: argparse.Namespace) -> HostRoutingConfig:
    """The configuration that was named, or one that asks for nothing; with the devices that were."""
    config = HostRoutingConfig() if arguments.config is None else HostRoutingConfig.load(arguments.config)
    return _with_devs(config, arguments)


def _with_devs(config: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    devs = getattr(arguments, "devs", None)
    if not devs:
        return config
    try:
        return attrs.evolve(config, route_overlap=attrs.evolve(config.route_overlap, expected_devs=devs))
    except ConfigError as error:
        raise ConfigError(attrs.evolve(fault, path="--dev") for fault in error.faults) from error


def installed_config(host: Host) -> HostRoutingConfig | None:
    """What the boot scripts of this host were told; None where there are none, or none of ours."""
    routes = _script(host, host.layout.routes_script_path, parse_static_routes_script)
    check = _script(host, host.layout.check_script_path, parse_check_script)
    probe = _script(host, host.layout.probe_script_path, parse_probe_script)
    found = routes or check or probe
    if found is None:
        return None
    return HostRoutingConfig(
        None if routes is None else routes.config,
        None if check is None else check.config,
        found.protocol,
        probe_rewrite=None if probe is None else _rewrite_of(probe),
    )


def wait_of(arguments: argparse.Namespace, host: Host) -> float:
    """The seconds that were given; else those that the boot scripts of this host were told, else the usual ones."""
    if arguments.wait is not None:
        return float(arguments.wait)
    routes = _script(host, host.layout.routes_script_path, parse_static_routes_script)
    check = _script(host, host.layout.check_script_path, parse_check_script)
    probe = _script(host, host.layout.probe_script_path, parse_probe_script)
    return next((float(it.wait) for it in (routes, check, probe) if it is not None), float(DEFAULT_WAIT))


def _rewrite_of(script: ProbeScript) -> ProbeRewriteConfig:
    """The configuration that such a script is made from. It is told `never` where the instance metadata said so."""
    return ProbeRewriteConfig(
        enabled=True,
        interfaces=script.interfaces,
        link_local=script.link_local,
        global_address=script.global_address,
        table=script.table,
        priority=script.priority,
        ensure_route=script.ensure_route,
        condition="imds" if script.condition == "never" else script.condition,
    )


def _script(host: Host, path: str, parse: Callable[[str], T]) -> T | None:
    text = host.files.read(path)
    with suppress(ValueError, LookupError):
        return None if text is None else parse(text)
    return None


def expected_of(arguments: argparse.Namespace, installed: HostRoutingConfig | None = None) -> HostRoutingConfig:
    """What is asked: the configuration that was named, else what is installed; ConfigError when it expects nothing.

    CIDRs that are given take the place of a configuration's own. Of what is installed they take the whole check's
    place, so that the answer is the one that a snapshot of this host gives; its routes stay known.
    """
    config = installed or config_of(arguments)
    if arguments.cidrs:
        settings = config.route_overlap if installed is None else RouteOverlapConfig()
        config = attrs.evolve(config, route_overlap=attrs.evolve(settings, expected_cidrs=_cidrs(arguments.cidrs)))
    config = _with_devs(config, arguments)
    if not config.route_overlap.expected_cidrs:
        where = arguments.config or "CIDR"
        rule = "no expected CIDR is given, so there is nothing to check"
        raise ConfigError([Fault(where, "", rule, "name one, such as 172.16.0.0/16, or a --config that has some")])
    return config


def _cidrs(given: Sequence[str]) -> tuple[IPv4Network, ...]:
    """The CIDRs from the command line, by the configuration's rules."""
    found: dict[IPv4Network, None] = {}
    faults: list[Fault] = []
    for text in given:
        try:
            found |= dict.fromkeys(RouteOverlapConfig(expected_cidrs=[text]).expected_cidrs)
        except ConfigError as error:
            faults += [attrs.evolve(fault, path="CIDR") for fault in error.faults]
    if faults:
        raise ConfigError(faults, "the command line" if len(faults) > 1 else None)
    return tuple(found)


def known_devices(arguments: argparse.Namespace, snapshot: Snapshot) -> None:
    """ConfigError for devices that were named and are not there, with those that are."""
    typed = [("--dev", dev) for dev in arguments.devs]
    typed += [(f"--{name}", dev) for name in ("iif", "oif") if (dev := getattr(arguments, name, None)) is not None]
    names = [link.name for link in snapshot.links]
    there = f"t has {spoken(names, most=SHOWN) or 'none'}"
    host = "this host" if arguments.snapshot is None else "the host of this snapshot"
    faults = [
        Fault(
            option,
            repr(dev),
            f"is not a device of {host}",
            f"did you mean {near}? I{there}" if (near := nearest(dev, names)) else f"i{there}",
        )
        for option, dev in typed
        if dev not in names
    ]
    if faults:
        raise ConfigError(faults, "the command line" if len(faults) > 1 else None)


def address_of(text: str, name: str) -> IP:
    """The one address that was typed; `name` is what it was typed as."""
    try:
        address = ip_address(text)
    except ValueError as error:
        fault = Fault(name, repr(text), "is no address", "write one address, such as 172.16.5.9")
        raise ConfigError([fault]) from error
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        bare = text.partition("%")[0]
        fault = Fault(name, repr(text), "has a zone", f"write {bare}, and --oif {address.scope_id}")
        raise ConfigError([fault])
    return address


def looked_at(arguments: argparse.Namespace, host: Callable[[], Host]) -> RouteBackend:
    """The kernel of this host, or the saved snapshot in its place."""
    if getattr(arguments, "snapshot", None) is not None:
        return SavedBackend(_saved(arguments.snapshot))
    backend = host().backend
    if backend is None:
        raise NetlinkUnavailable("an image has no kernel to ask; look at a snapshot of its host with --snapshot")
    return backend()


def _saved(path: str) -> Snapshot:
    """The snapshot in a file; what is wrong in it is told with the file's name."""
    text = _read(path)
    try:
        return Snapshot.from_json(text)
    except SnapshotError as error:
        name = "standard input" if path == "-" else path
        place = f"{name}: {error.path}" if error.path else name
        # Faulty within, it was one and was changed; faulty as a whole, it is likely to be another file.
        remedy = "; save one with: hostrouting snapshot > FILE" if error.path in {"", "schema"} else ""
        raise SnapshotError(path=place, problem=error.problem + remedy) from error


def _read(path: str) -> str:
    """A snapshot's text; whatever keeps it from being read is a SnapshotError that names the file."""
    if path == "-" and sys.stdin is None:
        raise SnapshotError(path="standard input", problem="this is closed; pipe a snapshot into it, or name a file")
    try:
        data = sys.stdin.buffer.read(_LIMIT + 1) if path == "-" else _bytes_of(path)
    except SnapshotError:
        raise
    except OSError as error:
        raise SnapshotError(path=path, problem=f"this cannot be read: {error.strerror}; check the path") from error
    except ValueError as error:
        raise SnapshotError(path=ascii(path), problem="this is no path") from error
    if len(data) > _LIMIT:
        raise SnapshotError(path=path, problem=f"this is larger than {_LIMIT >> 30} GiB, and no snapshot")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"this is not UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})"
        raise SnapshotError(path=path, problem=problem) from error


def _bytes_of(path: str) -> bytes:
    """What is in a regular file, or comes out of a pipe, as a shell makes it of <(...): not a folder, nor a device."""
    try:
        descriptor = open_file(path, fifo=True)
    except NotAFile as error:
        if error.kind == "a folder":
            raise SnapshotError(path=path, problem="this is a directory; name the file in it") from error
        problem = f"this is {error.kind}, not a regular file; save one with: hostrouting snapshot"
        raise SnapshotError(path=path, problem=problem) from error
    with os.fdopen(descriptor, "rb") as stream:
        first = _first_of(descriptor, path)
        # Whoever writes into a pipe may take his time; to wait for him ends with Ctrl-C and SIGTERM.
        os.set_blocking(descriptor, True)
        return first + stream.read(_LIMIT + 1)


def _first_of(descriptor: int, path: str) -> bytes:
    """What had to be read to see that a fifo has a writer; without one there is nothing to wait for."""
    import select  # noqa: PLC0415  only a snapshot needs it

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(_WRITER * 1000):  # a regular file always is ready
        return b""
    with suppress(BlockingIOError):  # a writer is there, and has not written yet
        if first := os.read(descriptor, 1):
            return first
        problem = f"this is a fifo that no program has opened for writing within {_WRITER:g} s; start that one first"
        raise SnapshotError(path=path, problem=problem)
    return b""


def start_command(host: Host) -> str:
    """The command by which the installed static routes are installed now, as root."""
    if host.manager is not None and host.manager.is_running():
        return f"systemctl start {host.layout.routes_unit}"
    return f"/bin/bash {host.layout.routes_script}"


def quiet_context() -> phases.Context:
    """What a question runs in: it logs what it waits for, and is no task whose start and end anyone wants to read."""
    return phases.Context(observers=[])
