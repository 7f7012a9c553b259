"""The laws of a node: what has to hold after a run of its pipeline, and at rest.

Here: what should be so, from the kernel's answers, the texts of files and what was applied: by other means than the
product's, because a fault of its own engine or readers should be seen. Not here: when a law is asserted (`machine`).
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.installed import installed_config
from hostrouting.check.exceptions import is_like
from hostrouting.errors import HostRoutingError, NotReady, RouteConflict
from hostrouting.model.prefix import IPV4, IPV6, Prefix, ip_at
from hostrouting.model.route import TABLE_MAIN, NextHop, Route
from hostrouting.testing.host import UNIT_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.testing.node.machine import Node

PASSING = "/run/"
"""What a reboot and a full disk do not concern."""
_NAMES = ("hostrouting", "host-routing", "static-routes", "route-overlap", "kernel-rules")
_NOBODY = {IPV4: "198.51.100.1", IPV6: "2001:db8:ffff::1"}
_HERE = {"local", "broadcast", "multicast", "anycast"}
_BAD = {"overlap", "no-default-route"}


@attrs.frozen
class Seen:
    """The host before or after a run."""

    disturbed: tuple[int, ...]
    """What others have done so far."""
    routes: list[Route]
    """Our routes."""
    files: dict[str, str]
    """The files that a reboot keeps."""
    marks: list[str | None]
    """The markers."""
    installed: list[str]
    """The routes in the installed script."""
    is_strict: bool
    """Whether the installed check holds units back."""
    has_room: bool
    """Whether systemd has room for a daemon-reload."""

    @classmethod
    def on(cls, node: Node) -> Seen:
        """The host now."""
        texts, layout = {**node.files.texts, **node.files.links}, node.host.layout
        return cls(
            node.disturbed,
            ours(node),
            {path: text for path, text in texts.items() if not path.startswith(PASSING)},
            [texts.get(path) for path in (layout.ok_path, layout.detected_path)],
            re.findall("^  'route .*", texts.get(layout.routes_script_path, ""), re.MULTILINE),
            "\n  'mode STRICT'\n" in texts.get(layout.check_script_path, ""),
            node.manager.room > 1 << 24,
        )


def after_run(node: Node, before: Seen, failure: HostRoutingError | None, *, is_routes: bool, is_removal: bool) -> None:
    """Require what a run has promised that nobody disturbed."""
    now, config, require = Seen.on(node), node.wanted, node.require
    if node.is_applied:
        require("systemd has read what is installed", not node.manager.has_read_all and "a unit or a drop-in differs")
    if failure is None and node.is_applied:
        require("nothing of ours is left over", left_over(node, config))
        require("what is installed is what was applied", _differences(node, config))
    if failure is None:
        return
    _after_failure(node, before, now, failure, is_removal=is_removal)
    if is_routes:
        _after_routes(node, before, now, failure)


def _after_failure(node: Node, before: Seen, now: Seen, failure: HostRoutingError, *, is_removal: bool) -> None:
    """Require that what is said of a failure is so.

    A removal goes on after a failure, with what an earlier run has left of a part whose units are gone.
    """
    if isinstance(failure, tuple(_REASONS)):
        _require_reason(node, failure)
    if "every change was rolled back" in str(failure):
        changed = f"{failure}; {before.routes} became {now.routes}"
        node.require("what was rolled back is as before", now.routes != before.routes and changed)
    if "/run/systemd" in str(failure) and not before.has_room:
        differing = {*now.files.items()} ^ {*before.files.items()}
        wrong = [path for path, _ in differing if not is_removal or path.startswith(UNIT_FOLDERS)]
        node.require("a run that systemd has no room for changes nothing", wrong)


def _after_routes(node: Node, before: Seen, now: Seen, failure: HostRoutingError) -> None:
    """Require what stays when the routes have failed: the last good script, all protection, and perhaps the verdict."""
    require = node.require
    check = node.host.layout.check_script_path
    if isinstance(failure, RouteConflict) and now.files.get(check) == before.files.get(check):
        changed = f"{before.marks} became {now.marks}"
        require("a conflict leaves the last verdict", now.marks != before.marks and changed)
    if node.good is not None:
        require("a run whose routes fail leaves the last good script", now.installed != before.installed and failure)
    if before.is_strict:
        require("a run whose routes fail takes no protection away", not now.is_strict and failure)


def at_rest(node: Node) -> None:
    """Require what holds for a node that was undisturbed for the promised time."""
    if node.is_locked:
        node.after(1.0, partial(at_rest, node))
        return
    config, layout, require = node.wanted, node.host.layout, node.require
    if not node.is_applied:
        if node.failure is not None:
            _after_long(node, node.failure)
        return
    lost, escaped = lost_routes(node, config), escapes(node, config)
    if node.is_guarded:
        _require_named(node, lost)
        _require_verdict(node, config, escaped)
    enabled = config.guard.enabled
    require("the guard runs if it is enabled", enabled is not node.is_guarded and f"enabled: {enabled}")
    require("nothing of ours is left over", left_over(node, config))
    is_started = node.start()
    if not lost and not (escaped and is_strict(config)):
        require("a unit starts if the routing is right", not is_started and node.unit)
    if config.route_overlap.expected_cidrs and (node.is_guarded or is_started):
        marked = [path for path in (layout.detected_path, layout.ok_path) if node.files.is_there(path)]
        right = [layout.detected_path if (escaped := escapes(node, config)) else layout.ok_path]
        require("the markers are true", marked != right and f"{marked}, but: {escaped or 'no escape'}")


def _after_long(node: Node, failure: HostRoutingError) -> None:
    """Require that the reason of a run that has failed is still so, and that the unit starts as before it."""
    _require_reason(node, failure)
    if (good := node.good) is None:
        return
    lost = lost_routes(node, good)
    if node.is_guarded:
        _require_named(node, lost)
    if not (lost or held(node, good) or escapes(node, node.wanted) or escapes(node, good)):
        node.require("what was right before a run that has failed starts", not node.start() and failure)


def _require_reason(node: Node, failure: HostRoutingError) -> None:
    """Require that a run had to fail, and says what to do."""
    has_remedy = any(finding.remedy for finding in failure.findings)
    node.require("a run that fails says what to do", not has_remedy and failure)
    reason = next((find(node, node.wanted) for kind, find in _REASONS.items() if isinstance(failure, kind)), ())
    node.require("a run fails only for a reason", not reason and f"{type(failure).__name__}: {failure}")


def _require_named(node: Node, lost: list[Prefix]) -> None:
    """Require that the guard names the routes that it cannot repair."""
    text = node.files.texts.get(node.host.layout.guard_path, "{}")
    counted, there = sum(map(int, re.findall("([0-9]+) routes, such as ", text))), {one.prefix for one in ours(node)}
    for prefix in lost:
        has_default = bool(legs(node, prefix.family))
        is_waiting = "route-waits" in text and (len(lost) <= counted or not has_default)
        is_right = not has_default and prefix in there  # by the next hop of a default route that no packet uses now
        is_named = str(prefix) in text or is_waiting or is_right or json.loads(text).get("failure")
        node.require("what the guard cannot repair is named", not is_named and f"there is no route to {prefix}: {text}")


def _require_verdict(node: Node, config: HostRoutingConfig, escaped: str) -> None:
    """Require that the guard's verdict is true."""
    verdict = json.loads(node.files.texts.get(node.host.layout.guard_path, "{}")).get("verdict")
    if config.route_overlap.expected_cidrs and verdict != "undecided":
        wrong = bool(escaped) is not (verdict in _BAD) and f"{verdict}, but: {escaped or 'no escape'}"
        node.require("the guard's verdict is true", wrong)


# What is so.


def is_strict(config: HostRoutingConfig | None) -> bool:
    """Whether this configuration holds units back while an address escapes."""
    return config is not None and config.route_overlap.mode == "STRICT" and bool(config.route_overlap.expected_cidrs)


def escapes(node: Node, config: HostRoutingConfig) -> str:
    """An address of the expected CIDRs that leaves by another device, from the kernel's answers alone.

    The kernel is asked at each address at which the prefix of a route or a rule begins, or has just ended.
    """
    snapshot, check = node.kernel.snapshot(), config.route_overlap
    kinds = {link.name: link.kind for link in snapshot.links}
    prefixes = {*(route.prefix for route in snapshot.routes), *(rule.dst for rule in snapshot.rules)}
    for cidr in map(Prefix.of, check.expected_cidrs):
        expected = check.expected_devs or tuple(leg.dev for leg in legs(node, cidr.family) if leg.dev)
        if not expected:
            return f"{cidr}: there is no default route"
        ends = {cidr.first} | {
            end
            for prefix in prefixes
            if prefix is not None and prefix.family == cidr.family
            for end in (prefix.first, prefix.last + 1)
            if cidr.first <= end <= cidr.last
        }
        places = [ip_at(cidr.family, end) for end in sorted(ends)]
        for place, answer in zip(places, node.kernel.lookup(places), strict=True):
            devs = () if answer.route is None else answer.route.devs
            fine = answer.kind == "unicast" and all(
                dev in expected or is_like(dev, check.allowed_devs, kinds.get(dev, "")) for dev in devs
            )
            if not (fine or answer.kind in _HERE):
                return f"{place} of {cidr} is {answer.kind}, by {' and '.join(devs) or 'no device'}, not {expected}"
    return ""


def legs(node: Node, family: int) -> tuple[NextHop, ...]:
    """The next hops of the deciding default route, from the kernel's answer for an unused address."""
    [answer] = node.kernel.lookup([_NOBODY[family]])
    is_default = answer.kind == "unicast" and answer.route is not None and answer.route.prefix.length == 0
    return answer.route.legs if is_default and answer.route is not None else ()


def _wanted(config: HostRoutingConfig) -> list[Prefix]:
    return [Prefix.of(route.destination) for route in config.static_routes.routes]


def ours(node: Node) -> list[Route]:
    """The routes with a protocol number of the configurations."""
    numbers = {known.protocol for known in node.configs}
    return [route for route in node.kernel.snapshot().routes if route.protocol in numbers]


def held(node: Node, config: HostRoutingConfig) -> list[Route]:
    """The routes of others in the places of the configured ones."""
    routes, own = node.kernel.snapshot(table=TABLE_MAIN).routes, ours(node)
    return [route for route in routes if route.prefix in _wanted(config) and route not in own]


def lacking(node: Node, config: HostRoutingConfig) -> list[int]:
    """The families of the configured routes that have no default route, apart from rules that a run adds."""
    main = node.kernel.snapshot(table=TABLE_MAIN).routes
    there = {route.prefix.family for route in main if not route.prefix.length}
    families = {prefix.family for prefix in _wanted(config)}
    keeps = config.kernel_rules == "keep"
    return [family for family in families if (family not in there if keeps else not legs(node, family))]


def lost_routes(node: Node, config: HostRoutingConfig) -> list[Prefix]:
    """The configured destinations for which there is no route by the next hop of the default route."""
    ways = {(family, leg.dev, leg.gateway) for family in (IPV4, IPV6) for leg in legs(node, family)}
    routes = node.kernel.snapshot(table=TABLE_MAIN).routes
    there = {
        route.prefix for route in routes if {(route.prefix.family, leg.dev, leg.gateway) for leg in route.legs} & ways
    }
    own = {route.prefix for route in ours(node)}
    there |= {Prefix.of(route.destination) for route in config.static_routes.routes if route.gateway or route.dev} & own
    return [prefix for prefix in _wanted(config) if prefix not in there]


def left_over(node: Node, config: HostRoutingConfig) -> list[str]:
    """The routes with our protocol numbers that are not configured, and, if nothing is configured, our files."""
    wanted = [(prefix, config.protocol) for prefix in _wanted(config)]
    left = [str(route) for route in ours(node) if (route.prefix, route.protocol) not in wanted]
    files = () if config != type(config)() else (*node.files.texts, *node.files.links)
    return left + [path for path in files if not path.startswith(PASSING) and any(map(path.__contains__, _NAMES))]


_REASONS: dict[type[HostRoutingError], Callable[[Node, HostRoutingConfig], object]] = {
    RouteConflict: held,
    NotReady: lacking,
}
"""What makes a run fail, as long as it is so."""


def _differences(node: Node, config: HostRoutingConfig) -> list[str]:
    """The sections of the configuration that are not read from the host as they were applied."""
    found = installed_config(node.host) or type(config)()
    sections = {name: getattr(config, name) for name in ("static_routes", "kernel_rules", "manage_foreign")}
    if config.route_overlap.expected_cidrs:
        sections["route_overlap"] = config.route_overlap
    return [f"{name}: {getattr(found, name)}" for name, section in sections.items() if getattr(found, name) != section]
