"""What is looked at: this host's kernel or a saved snapshot, and the configuration by which it is judged.

Here: arguments become values, and their faults ConfigError or SnapshotError. Not here: anything that is concluded.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, TypeVar

import attrs

import phases
from hostrouting.backends.saved import SavedBackend
from hostrouting.cli.page import SHOWN, spoken
from hostrouting.cli.reading import STANDARD_INPUT, Unreadable, is_piped, name_of, read_bytes
from hostrouting.config import HostRoutingConfig, ProbeRewriteConfig, RouteOverlapConfig
from hostrouting.config.jsontext import SIZE_LIMIT
from hostrouting.config.objects import Faulty, Spot
from hostrouting.config.values import gateway
from hostrouting.errors import ConfigError, Fault, NetlinkUnavailable, SnapshotError
from hostrouting.model import Snapshot
from hostrouting.nearest import nearest
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
    "gateway_of",
    "installed_config",
    "known_devices",
    "looked_at",
    "quiet_context",
    "start_command",
    "wait_of",
]

T = TypeVar("T")

_PLACEHOLDER = "FILE"
_LIMIT = 1 << 30  # bytes of a snapshot; that of 100,000 routes has some 10 MiB


def config_of(arguments: argparse.Namespace) -> HostRoutingConfig:
    """The configuration that was named, or one that asks for nothing; with the devices that were."""
    if not hasattr(arguments, "loaded"):  # what is piped in can be read once
        arguments.loaded = _loaded(arguments)
    return _with_devs(arguments.loaded, arguments)


def _loaded(arguments: argparse.Namespace) -> HostRoutingConfig:
    path = arguments.config
    if path is None:
        return HostRoutingConfig()
    if not is_piped(path):
        return HostRoutingConfig.load(path)
    name = name_of(path)
    if path == STANDARD_INPUT == getattr(arguments, "snapshot", None):
        fault = Fault("--config", "'-'", "is standard input, and so is --snapshot", "name a file for one of the two")
        raise ConfigError([fault])
    try:
        data = read_bytes(path, what="a configuration", limit=SIZE_LIMIT)
    except Unreadable as error:
        raise ConfigError([Fault(name, "", error.rule, error.remedy)], name) from error
    # It has no name that could be typed again. In what is printed the word for a file stands for it.
    arguments.config, arguments.piped = _PLACEHOLDER, name
    return HostRoutingConfig.from_json(data, source=name)


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
        where = getattr(arguments, "piped", arguments.config) or "CIDR"
        rule = "no expected CIDR is given, so there is nothing to check"
        raise ConfigError([Fault(where, "", rule, "name one, such as 172.16.0.0/16, or a --config that has some")])
    return config


def gateway_of(arguments: argparse.Namespace, config: HostRoutingConfig) -> IP | None:
    """The router that was named for the repair; ConfigError where it cannot be one, or nobody knows on which device."""
    text, devs, at = arguments.gateway, config.route_overlap.expected_devs, Spot()
    if text is None:
        return None
    if len(devs) != 1:
        rule = f"is a router on one device, and {spoken(devs, most=SHOWN) or 'none'} {'are' if devs else 'is'} expected"
        raise ConfigError([Fault("--gateway", repr(text), rule, "name that one alone, with --dev DEV")])
    with suppress(Faulty):
        return gateway(text, at)
    raise ConfigError(attrs.evolve(fault, path="--gateway") for fault in at.faults)


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
        name = name_of(path)
        place = f"{name}: {error.path}" if error.path else name
        # Faulty within, it was one and was changed; faulty as a whole, it is likely to be another file.
        remedy = "; save one with: hostrouting snapshot > FILE" if error.path in {"", "schema"} else ""
        raise SnapshotError(path=place, problem=error.problem + remedy) from error


def _read(path: str) -> str:
    """A snapshot's text; whatever keeps it from being read is a SnapshotError that names the file."""
    name = name_of(path) if path.isprintable() else ascii(path)
    try:
        data = read_bytes(path, what="a snapshot", limit=_LIMIT)
    except Unreadable as error:
        remedy = error.remedy or "save one with: hostrouting snapshot > FILE"
        raise SnapshotError(path=name, problem=f"this {error.rule}; {remedy}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"this is not UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})"
        raise SnapshotError(path=name, problem=problem) from error


def start_command(host: Host) -> str:
    """The command by which the installed static routes are installed now, as root."""
    if host.manager is not None and host.manager.is_running():
        return f"systemctl start {host.layout.routes_unit}"
    return f"/bin/bash {host.layout.routes_script}"


def quiet_context() -> phases.Context:
    """What a question runs in: it logs what it waits for, and is no task whose start and end anyone wants to read."""
    return phases.Context(observers=[])
