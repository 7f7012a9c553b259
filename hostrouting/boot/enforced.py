"""What the installed boot scripts hold a host to, read from the scripts themselves.

config.json is what the next `apply` reads, and somebody may have edited or broken it since. The
gate and the guard do not read it: they do what their own files say.

What cannot be read here counts as not configured, so whoever looks for losses compares config.json,
too. A release that gives a setting another word would find nothing in the scripts of this one.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hostrouting.boot.on_disk import gated_on_disk, text_at
from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.errors import ConfigError
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.files import Files

_SETTINGS = re.compile(r"(?ms)^configuration=\(\n(.*?)^\)$")
"""The data block of a script: see `scripts`."""
_PROBES = re.compile(r"(?s)ip6 saddr != (\S+) .* iifname != \{ (.*?) \} .* ip6 saddr set (\S+) ")
"""What the rules of the table for probes contain of its settings, in this order: `probe_table`."""
_FOR_REPLIES = " optional link"
"""What only the route for replies to probes has: see `scripts`."""


def read_enforced(files: Files) -> HostRoutingConfig:
    """The routes, the check, the rewrite of probes, the gated units and the guard that are in
    force.

    A section is left out if its script is not there, or was edited so that it cannot be read; in a
    script of another release, what this one does not know is passed over. A guard with nothing to
    guard is left out, too. HostError if a file cannot be read at all.
    """
    enforced = HostRoutingConfig()
    # Each of these is valid alone, but for the guard, which has to have something to guard.
    for section_of in (_routes_of, _check_of, _probes_of, _gate_of, _guard_of):
        with suppress(ValueError):  # also a ConfigError, for what no configuration can have
            sections = {**enforced.to_mapping(), **section_of(files)}
            enforced = HostRoutingConfig.from_mapping(sections)
    return enforced


def _routes_of(files: Files) -> dict[str, Any]:
    """The section staticRoutes, without the route for replies to probes."""
    settings = _settings_of(files, HostLayout.routes_step)
    routes = [_route_of(rest) for rest in settings["route"] if _FOR_REPLIES not in rest]
    return {"staticRoutes": {"enabled": bool(routes), "routes": routes}}


def _route_of(rest: str) -> dict[str, object]:
    """The route of a line such as `10.0.0.0/8 via 10.1.0.1 dev eth0 metric 0 left … right …`: a
    destination, and pairs of a word and its value. ValueError for any other line.
    """
    destination, *words = rest.split()
    value_of = dict(zip(words[::2], words[1::2], strict=True))
    return {
        "destination": destination,
        "gateway": value_of.get("via"),
        "dev": value_of.get("dev"),
        "metric": int(value_of.get("metric", "")),
    }


def _check_of(files: Files) -> dict[str, Any]:
    """The section routeOverlap of the check, without the networks of pods, which the script does
    not check. Behind a CIDR, a line has its ends. Without a script, all is as in an empty section.
    """
    settings = _settings_of(files, HostLayout.check_step)
    [mode] = settings["mode"] or ["WARN"]
    check = {
        "expectedCidrs": [_first_word(rest) for rest in settings["cidr"]],
        "mode": mode,
        "expectedDevs": settings["device"],
        "allowedDevs": settings["allowed"],
        "serviceCidrs": [_first_word(rest) for rest in settings["service"]],
        "intendedRules": settings["intended"],
    }
    return {"routeOverlap": check}


def _probes_of(files: Files) -> dict[str, Any]:
    """The section probeRewrite of the table for probes."""
    table = _PROBES.search(text_at(files, HostLayout.step_path(HostLayout.probe_step)))
    if table is None:
        return {}
    probe, uplinks, known = table.groups()
    routes = _settings_of(files, HostLayout.routes_step)["route"]
    probes = {
        "enabled": True,
        "interfaces": re.findall('"(.*?)"', uplinks),
        "linkLocal": probe,
        "globalAddress": known,
        "ensureRoute": any(_FOR_REPLIES in route for route in routes),
    }
    return {"probeRewrite": probes}


def _gate_of(files: Files) -> dict[str, Any]:
    """The section gate. Without a unit, its reading fails, so it is left out."""
    return {"gate": {"units": nameable_gated_units(files)}}


def nameable_gated_units(files: Files) -> list[str]:
    """The units that have a drop-in, and that a configuration can name. Another release may have
    gated others, too.
    """
    units: list[str] = []
    for unit in gated_on_disk(files):
        with suppress(ConfigError):
            units += GateConfig((unit,)).units  # ConfigError if it cannot be named
    return units


def _guard_of(files: Files) -> dict[str, Any]:
    """The section guard. With nothing to guard, its reading fails, so it is left out."""
    return {"guard": {"enabled": files.look(HostLayout.guard_path) is not None}}


def _first_word(rest: str) -> str:
    return rest.partition(" ")[0]


def _settings_of(files: Files, step: str) -> Mapping[str, list[str]]:
    """The settings of a script: by the first word of each, what follows it. No settings if there is
    no script. The quotes are read as bash reads them, but for `$'…'`; ValueError if one is not
    closed.
    """
    settings: dict[str, list[str]] = defaultdict(list)
    block = _SETTINGS.search(text_at(files, HostLayout.step_path(step)))
    if block is not None:
        for setting in shlex.split(block[1], comments=True):
            word, _, rest = setting.partition(" ")
            settings[word].append(rest)
    return settings
