"""The steps of the gate: the boot scripts with an operator's settings in them, as text.

The functions here make the text of each script from a configuration. The body of a script is an
asset, the same on each host. The settings are lines of data in one array of the script, and no line
of the array is executed. A setting is a key and its words in single quotes, with only characters
that are safe there. `units` and gate.sh say when a script runs, and `files` says which scripts a
configuration needs.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from hostrouting.boot.check_settings import check_sentences, check_settings
from hostrouting.boot.listed import class_settings, name_settings
from hostrouting.boot.probe_table import render_probe_table
from hostrouting.errors import HostError
from hostrouting.model.link_kinds import OF_GUESTS
from hostrouting.model.route import OURS, REFUSING
from hostrouting.routes.plan import reply_routes
from hostrouting.routes.steps import SENTENCES
from hostrouting.routes.uplink import NEEDS, REMEDIES

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig, StaticRoute
    from hostrouting.model.prefix import IP

HEAD = "#!/bin/bash\n# Written by hostrouting; changes are overwritten.\n"
_BLOCK = "configuration=(\n)\n"
_HERE = re.compile(r"^# Here comes (\S+)\.\n", re.MULTILINE)
_GET_IT_BACK = (
    "install hostrouting with pip, which copies all of it, and if this is a frozen program, "
    "freeze it again then: "
    "PyInstaller includes the scripts of an installed hostrouting"
)
_LETTERS = frozenset(
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/*?#=@:;,!{}" '
)


def render_gate_script(*, required: Sequence[str], wanted: Sequence[str]) -> str:
    """gate.sh, with the steps that must succeed before a unit starts, and the steps whose failure
    is only logged. These are words of bash, and not data: names of `HostLayout`, never a setting.
    """
    steps = f"required=({' '.join(required)}) wanted=({' '.join(wanted)})\n"
    head, tail = asset("gate.sh").split("required=() wanted=()\n")
    return HEAD + head + steps + tail


def render_static_routes_script(config: HostRoutingConfig) -> str:
    """The step that sets the routes of the configuration, and deletes our other routes."""
    settings = [f"protocol {OURS}"]
    settings += [_route_setting(route) for route in config.static_routes.routes]
    settings += [_route_setting(route, is_for_replies=True) for route in reply_routes(config)]
    settings += [f"expected {dev}" for dev in config.route_overlap.expected_devs]
    settings += class_settings()
    settings += [f"guest {kind}" for kind in sorted(OF_GUESTS)]
    settings += [f"refusing-type {kind}" for kind in REFUSING]
    settings += name_settings()
    return filled("static-routes.sh", settings, NEEDS | REMEDIES | SENTENCES)


def _route_setting(route: StaticRoute, *, is_for_replies: bool = False) -> str:
    """A route, with the halves of its destination. If it is for replies to probes, its destination
    is on the link, and it holds nothing back.
    """
    destination = route.destination
    words = [f"route {as_listed(destination.network_address)}/{destination.prefixlen}"]
    if route.gateway is not None:
        words.append(f"via {as_listed(route.gateway)}")
    if route.dev is not None:
        words.append(f"dev {route.dev}")
    words.append(f"metric {route.key.metric}")
    if is_for_replies:
        words.append("optional link")
    if destination.prefixlen < destination.max_prefixlen:
        left, right = destination.subnets()
        words.append(f"left {left} right {right}")
    return " ".join(words)


def render_check_script(config: HostRoutingConfig) -> str:
    """The step that checks the expected CIDRs of the configuration."""
    return filled("check-route-overlap.sh", check_settings(config), check_sentences())


def render_probe_script(config: HostRoutingConfig) -> str:
    """The step that loads the table for probes, if it is not in force."""
    text = render_probe_table(config.probe_rewrite)
    return filled("probe-rewrite.sh", [f"nft {line}" for line in text.splitlines()], {})


def as_listed(address: IP) -> str:
    """The address as `ip` prints it, to compare texts: Python writes ::1.2.3.4 as ::102:304."""
    family = socket.AF_INET
    if address.version == 6:
        family = socket.AF_INET6
    return socket.inet_ntop(family, address.packed)


def filled(name: str, settings: Sequence[str], sentences: Mapping[str, str]) -> str:
    """The asset with the settings in its data block, and the sentences that Python says, too."""
    for line in settings:
        if not _LETTERS.issuperset(line):
            raise ValueError(
                f"{line!r} has characters that are not allowed in a setting of a boot script"
            )
    lines = [*settings]
    lines += [f"sentence {key} {text}" for key, text in sentences.items()]
    block = "".join(f"  {_quoted(line)}\n" for line in lines)
    head, tail = asset(name).split(_BLOCK)
    return f"{HEAD}{head}configuration=(\n{block})\n{tail}"


def _quoted(line: str) -> str:
    """The line as one word of bash."""
    return "'" + line.replace("'", "'\\''") + "'"


@cache
def asset(name: str) -> str:
    """The text of an asset below its first line, with what all have in common, from a folder or,
    for hostrouting.pyz, from an archive.
    """
    loader: Any = __spec__.loader
    path = os.path.join(os.path.dirname(__file__), "assets", name)
    try:
        data: bytes = loader.get_data(path)
    except OSError as error:
        reason = error.strerror or "it is not in the archive"  # zipimport gives no reason
        message = f"cannot read {path}, a part of hostrouting: {reason}; {_GET_IT_BACK}"
        raise HostError(message, what="file", target=path, errno=error.errno) from error
    text = data.decode().removeprefix("#!/bin/bash\n")
    return _HERE.sub(lambda shared: asset(shared[1]), text)
