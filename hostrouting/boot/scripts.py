"""The boot scripts for the routes and for their check, and the data block that holds the settings of every script.

Here: the texts of the scripts, and the settings parsed from them. Not here: the script for probes (`probe`), and
running any of them.

The body of a script is an asset, and every asset is read here. What is installed has no comments except its head and
its headings. The operator's settings are put into its data block. A setting is one line: a key and its words. It is in
single quotes, and may contain only characters that are safe in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.config.cni import CNI_ROUTES
from hostrouting.config.settings import (
    HostRoutingConfig,
    IntendedRule,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.host.layout import PLACES, HostLayout
from hostrouting.model.route import DEFAULT_METRIC, OURS, ROUTE_TYPES, protocol_name

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP

_OPENING, _CLOSING = "configuration=(", ")"
_INCLUDE = "#include "
_HEADING = "# ---"
_LETTERS = frozenset('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/*?=@:;,!{}" ')

DEFAULT_WAIT = 30
"""The default timeout in seconds for whatever a task or a boot script waits for."""

MOST_WAIT = 60
"""The longest timeout in seconds of a boot script: by default the start of a gated unit may take 90 s."""


class RoutesScript(NamedTuple):
    """The settings of static-routes.sh."""

    config: StaticRoutesConfig
    wait: int = DEFAULT_WAIT


class CheckScript(NamedTuple):
    """The settings of check-route-overlap.sh."""

    config: RouteOverlapConfig
    wait: int = DEFAULT_WAIT


def render_static_routes_script(config: HostRoutingConfig, *, wait: int = DEFAULT_WAIT) -> str:
    """The script that installs the static routes of the configuration, and deletes our other routes."""
    routes = config.static_routes.routes
    devs = sorted({route.dev for route in routes if route.dev})
    # The script finds the wait and the devices by their places.
    settings = [f"protocol {OURS}", f"wait {wait}", f"devs {' '.join(devs)}", *map(_route_setting, routes)]
    if config.probe_rewrite.enabled:
        settings.append(f"spare {_as_listed(config.probe_rewrite.global_address)}/128")
    settings += [*_metrics(), *_several("protocols", _protocols())]
    return filled("static-routes.sh", settings)


@lru_cache(maxsize=1)
def parse_static_routes_script(text: str) -> RoutesScript:
    """The settings that were rendered; ValueError if the text is not such a script.

    The last answer is kept, because the guard reads the script twice in each look, and the script rarely changes. With
    300 routes, this halves the time of a look, from 40 ms.
    """
    settings = settings_in(text)
    routes = [_route(words) for key, words in settings if key == "route"]
    known = KnownSettings(settings)
    return RoutesScript(StaticRoutesConfig(bool(routes), routes), int(known["wait"]))


def render_check_script(config: HostRoutingConfig, *, layout: HostLayout = PLACES, wait: int = DEFAULT_WAIT) -> str:
    """The script that checks the expected CIDRs of the configuration."""
    check = config.route_overlap
    families = sorted({str(cidr.version) for cidr in check.expected_cidrs})
    # The script finds the first four by their places.
    settings = [
        f"mode {check.mode}",
        f"wait {wait}",
        f"state {layout.state_directory}",
        f"families {' '.join(families)}",
    ]
    settings += [f"cidr {cidr}" for cidr in check.expected_cidrs]
    settings += [f"device {dev}" for dev in check.expected_devs]
    # Of several words, such as a pattern and the kind of a device, a slash makes one.
    settings += _several("allow", [pattern.replace(" ", "/") for pattern in check.allowed_devs])
    # The script checks only plain packets of the host itself; `hostrouting check` reads these here.
    settings += [f"pod-cidr {cidr}" for cidr in check.pod_cidrs]
    settings += [f"pod-device {pattern}" for pattern in check.pod_devs]
    settings += [f"intended-rule {_as_word(it.reason)} {it.rule}" for it in check.intended_rules]
    settings += _several("pods", _pod_blocks())
    settings += _several("protocols", _protocols())
    return filled("check-route-overlap.sh", settings)


def _several(key: str, words: Sequence[str]) -> list[str]:
    """The words as lines of settings with this key, eight words on a line."""
    return [f"{key} {' '.join(words[at : at + 8])}" for at in range(0, len(words), 8)]


def parse_check_script(text: str) -> CheckScript:
    """The settings that were rendered; ValueError if the text is not such a script."""
    settings = settings_in(text)
    known = KnownSettings(settings)

    def each(wanted: str) -> tuple[str, ...]:
        return tuple(value for key, value in settings if key == wanted)

    config = RouteOverlapConfig(
        each("cidr"),
        known["mode"],
        each("device"),
        [word.replace("/", " ") for words in each("allow") for word in words.split()],
        pod_cidrs=each("pod-cidr"),
        pod_devs=each("pod-device"),
        intended_rules=map(_intended_rule, each("intended-rule")),
    )
    return CheckScript(config, int(known["wait"]))


def _as_word(text: str) -> str:
    """Any text as one word of a setting: each byte that is not allowed there becomes "=" and its number."""
    return "".join(chr(byte) if chr(byte) in _LETTERS - set('=:;,!{}" ') else f"={byte:02X}" for byte in text.encode())


def _intended_rule(words: str) -> IntendedRule:
    from binascii import a2b_qp  # noqa: PLC0415  few configurations have such a rule

    reason, _, rule = words.partition(" ")
    return IntendedRule(rule, a2b_qp(reason).decode())


def _metrics() -> list[str]:
    return [f"metric {family} {metric}" for family, metric in DEFAULT_METRIC.items()]


@cache
def _protocols() -> tuple[str, ...]:
    """The numbers and names of route protocols: the scripts print the same names as the library."""
    names = ((number, protocol_name(number)) for number in range(256))
    return tuple(f"{number}/{name}" for number, name in names if name != str(number))


def _pod_blocks() -> list[str]:
    """The routes with which CNIs refuse packets: type, protocol, perhaps a device, perhaps only single addresses."""
    return [
        f"{ROUTE_TYPES.index(kind)}/{protocol}/{route.dev}{'/single' * route.single}"
        for route in CNI_ROUTES
        for kind in sorted(route.types)
        for protocol in sorted(route.protocols)
    ]


def _route_setting(route: StaticRoute) -> str:
    # Pairs of words as in `ip route`, after the destination; what is omitted is taken from the default route.
    gateway = None if route.gateway is None else _as_listed(route.gateway)
    given = {"via": gateway, "dev": route.dev, "metric": route.metric}
    destination = f"{_as_listed(route.destination.network_address)}/{route.destination.prefixlen}"
    return " ".join([f"route {destination}", *(f"{name} {value}" for name, value in given.items() if value)])


def _as_listed(address: IP) -> str:
    """The address as `ip` prints it, for comparison as text: Python writes ::1.2.3.4 as ::102:304."""
    if address.version == 4:
        return str(address)
    import socket  # noqa: PLC0415  loaded only if a script is rendered

    return socket.inet_ntop(socket.AF_INET6, address.packed)


def _route(words: str) -> StaticRoute:
    destination, *rest = words.split(" ")
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    return StaticRoute(destination, given.get("via"), given.get("dev"), int(given.get("metric", 0)))


def filled(asset: str, settings: Iterable[str]) -> str:
    """The asset with the settings in its data block."""
    head, tail = _body(asset)
    return head + "".join(f"  '{_plain(line)}'\n" for line in settings) + tail


def _plain(line: str) -> str:
    if not _LETTERS.issuperset(line):
        raise ValueError(f"{line!r} has characters that are not allowed in a setting of a boot script")
    return line


@cache
def _body(asset: str) -> tuple[str, str]:
    """An asset with the files that it includes, in two parts: up to the content of its data block, and after it."""
    lines = list(asset_lines(asset))
    opening = lines.index(_OPENING)
    closing = lines.index(_CLOSING, opening)
    told = f"# Why it does what it does is said in hostrouting/boot/assets/{asset}, in the source of hostrouting."
    head = [line for line in lines[:opening] if line]
    head[-1:-1] = [told]
    return "\n".join([*head, _OPENING]) + "\n", "\n".join(_without_comments(lines[closing:])) + "\n"


def _without_comments(lines: Iterable[str]) -> Iterator[str]:
    """The lines that a program needs, and the headings. Other comments are for readers of the source.

    In all that our scripts contain (bash, awk, nft), a line that begins with # is a comment. The line after a backslash
    is a part of the one before it.
    """
    before = ""
    for line in lines:
        words = line.lstrip()
        if before.endswith("\\") or words.startswith(_HEADING) or (words and not words.startswith("#")):
            yield line
        before = line


def asset_lines(asset: str) -> Iterator[str]:
    """The lines of an asset, with those of the files that it includes."""
    loader: Any = __spec__.loader  # which reads from a folder or, for hostrouting.pyz, from an archive
    for line in loader.get_data(os.path.join(os.path.dirname(__file__), "assets", asset)).decode().splitlines():
        if line.startswith(_INCLUDE):
            yield from asset_lines(line.removeprefix(_INCLUDE))
        else:
            yield line


class KnownSettings(dict[str, str]):
    """Settings by key; ValueError for an absent key."""

    def __missing__(self, key: str) -> str:
        raise ValueError(f"the script has no setting {key!r}")


def settings_in(text: str) -> list[tuple[str, str]]:
    """The settings in the data block, each as key and words; ValueError if the text has no such block."""
    lines = text.splitlines()
    try:
        opening = lines.index(_OPENING) + 1
        block = lines[opening : lines.index(_CLOSING, opening)]
    except ValueError as error:
        raise ValueError("the script has no data block") from error
    found = []
    for line in block:
        key, gap, words = line.removeprefix("  '").removesuffix("'").partition(" ")
        if not gap or line != f"  '{key} {words}'":
            raise ValueError(f"{line!r} is not a setting")
        found.append((key, words))
    return found
