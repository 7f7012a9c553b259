"""The steps of the gate: the boot scripts with an operator's settings in them, as text.

Here: pure functions from a configuration to the text of each script. The body of a script is an asset, the same on each
host; the settings are lines of data in one array in it, and no line of it is executed. A setting is a key and its words
in single quotes, with only characters that are safe there. Not here: when a script is run (`units`, gate.sh), and which
of them a configuration needs (`files`).
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from hostrouting.boot.probe_table import render_probe_table
from hostrouting.config.cni import CNI_ROUTES
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import ROUTE_TYPES
from hostrouting.routes.uplink import wanted_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.prefix import IP

HEAD = "#!/bin/bash\n# Written by hostrouting; changes are overwritten.\n"
_BLOCK = "configuration=(\n)\n"
_LETTERS = frozenset('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/*?=@:;,!{}" ')


def render_gate_script(required: Sequence[str], wanted: Sequence[str]) -> str:
    """gate.sh, with the steps that must succeed before a unit starts, and those that are only logged if they fail."""
    return HEAD + asset("gate.sh").replace(
        "required=() wanted=()\n", f"required=({' '.join(required)}) wanted=({' '.join(wanted)})\n", 1
    )


def render_guard_script() -> str:
    """guard.sh, which is the same on each host."""
    return HEAD + asset("guard.sh")


def render_static_routes_script(config: HostRoutingConfig) -> str:
    """The step that sets the static routes of the configuration, and deletes our other routes."""
    settings = []
    for wish in wanted_routes(config):
        words = [f"route {as_listed(wish.destination.ip)}/{wish.destination.length}"]
        words += [f"via {as_listed(wish.gateway)}"] if wish.gateway else []
        words += [f"dev {wish.dev}"] if wish.dev else []
        words += [f"metric {wish.key.metric}"]
        words += ["optional"] if wish.is_optional else []
        settings.append(" ".join(words))
    return filled("static-routes.sh", settings)


def render_check_script(config: HostRoutingConfig) -> str:
    """The step that checks the expected CIDRs of the configuration."""
    check = config.route_overlap
    cidrs = [Prefix.of(cidr) for cidr in check.expected_cidrs]
    settings = [f"mode {check.mode}", f"families {' '.join(sorted({str(cidr.family) for cidr in cidrs}))}"]
    settings += [
        f"cidr {cidr} {as_listed(ip_at(cidr.family, cidr.first))} {as_listed(ip_at(cidr.family, cidr.last))}"
        for cidr in cidrs
    ]
    settings += [f"device {dev}" for dev in check.expected_devs]
    # Of a pattern and the kind of a device, a slash makes one word.
    settings += [f"allow {pattern.replace(' ', '/')}" for pattern in check.allowed_devs]
    settings += [f"refuse {row}" for row in _refusing_rows()]
    return filled("check-route-overlap.sh", settings)


def render_probe_script(config: HostRoutingConfig) -> str:
    """The step that loads the table for probes, if it is not in force."""
    text = render_probe_table(config.probe_rewrite)
    return filled("probe-rewrite.sh", [f"nft {line}" for line in text.splitlines()])


def digest_of(text: str) -> str:
    """A short digest, by which a text is recognised where only a comment of it can be read back."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def as_listed(address: IP) -> str:
    """The address as `ip` prints it, for comparison as text: Python writes ::1.2.3.4 as ::102:304."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return socket.inet_ntop(family, address.packed)


def filled(name: str, settings: Iterable[str]) -> str:
    """The asset with the settings in its data block."""
    block = "".join(f"  '{_plain(line)}'\n" for line in settings)
    head, opening, tail = asset(name).partition(_BLOCK)
    if not opening:
        raise ValueError(f"the asset {name} has no data block")
    return f"{HEAD}{head}configuration=(\n{block})\n{tail}"


def _plain(line: str) -> str:
    if not _LETTERS.issuperset(line):
        raise ValueError(f"{line!r} has characters that are not allowed in a setting of a boot script")
    return line


@cache
def asset(name: str) -> str:
    """The text of an asset, from a folder or, for hostrouting.pyz, from an archive."""
    loader: Any = __spec__.loader
    data: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), "assets", name))
    return data.decode()


def _refusing_rows() -> list[str]:
    """The routes with which CNIs refuse packets: type, protocol, perhaps a device, perhaps only single addresses."""
    return [
        f"{ROUTE_TYPES.index(kind)}/{protocol}/{route.dev}{'/single' * route.single}"
        for route in CNI_ROUTES
        for kind in sorted(route.types)
        for protocol in sorted(route.protocols)
    ]
