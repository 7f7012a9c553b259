"""The settings of check-route-overlap.sh: what to check on this host, and what Python knows and the
script needs.

The script judges with the tables and limits of `check`, `fib` and `config`, and has their sentences
for doubts. What it says of an escape or of a refusal stands in the script itself. Each setting is a
line: a word that says what it is, and its values. The script's `read_setting` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.check.parts import EVERYWHERE
from hostrouting.check.sentences import DOUBTS, OWN_PODS
from hostrouting.config.cni import CNIS, POD_NETWORKS, Cni, Refusal
from hostrouting.fib.not_judged import BY_DEVICE, ENCAPSULATED, NOT_LISTED
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.base import KIND_OF_ERRNO
from hostrouting.model.prefix import IPV4, Prefix, ip_at
from hostrouting.model.route import ROUTE_TYPES, protocol_name, scope_name, table_name
from hostrouting.model.rule import SELECTORS
from hostrouting.routes.uplink import DEAD_ENDS, LIKE_ETHERNET, LINES

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig

_UNCLEAR = {
    "tos": "only for packets with that tos",
    "from": "only for packets from there",
    "encap": ENCAPSULATED,
    "no-hops": NOT_LISTED,
    "object": "several routes use its nexthop object",
}
"""Why the script does not judge a route: its word for that, and the words for the operator."""


def check_settings(config: HostRoutingConfig) -> list[str]:
    """All settings, those of the host first."""
    return [
        *_of_the_host(config.route_overlap),
        *_names(),
        *_rules_and_routes(),
        *_classes_of_devices(),
        *_cnis(),
        *_sentences(),
    ]


def _of_the_host(check: RouteOverlapConfig) -> Iterator[str]:
    cidrs = [Prefix.of(cidr) for cidr in check.cidrs]
    families = sorted({str(cidr.family) for cidr in cidrs})
    yield f"mode {check.mode}"
    yield f"state {HostLayout.state_directory}"
    yield f"families {' '.join(families)}"
    for cidr in cidrs:
        yield f"cidr {cidr} {_range(cidr)}"
    for services in check.service_cidrs:
        yield f"service {_range(Prefix.of(services))}"
    for dev in check.expected_devs:
        yield f"device {dev}"
    for pattern in check.allowed_devs:
        yield f"allowed {pattern}"


def _range(prefix: Prefix) -> str:
    """The first and the last address. Linux takes 0.0.0.0 for this host, and cannot be asked about
    it.
    """
    first = prefix.first
    if prefix.family == IPV4:
        first = max(first, 1)
    return f"{ip_at(prefix.family, first)} {ip_at(prefix.family, prefix.last)}"


def _names() -> Iterator[str]:
    """The names of numbers, as `ip` prints them, and what its errors mean."""
    for number, name in enumerate(ROUTE_TYPES):
        yield f"name type {number} {name}"
    for word, name_of in (("table", table_name), ("proto", protocol_name), ("scope", scope_name)):
        for number in range(256):
            if name_of(number) != str(number):
                yield f"name {word} {number} {name_of(number)}"
    for number, kind in KIND_OF_ERRNO.items():
        yield f"error {kind} {os.strerror(number)}"


def _rules_and_routes() -> Iterator[str]:
    """The selectors of rules, encapsulations that keep the destination, and addresses that each
    host has.
    """
    for word in SELECTORS:
        if word not in {
            "to",
            "ipproto",
        }:  # the script reads the first as a prefix, and asks about UDP only
            yield f"selector {word}"
    yield from sorted(BY_DEVICE)
    for prefixes in EVERYWHERE.values():
        for prefix in prefixes:
            if prefix.last:
                yield f"own {_range(prefix)}"


def _classes_of_devices() -> Iterator[str]:
    """What a device is, by its link type, its kind, or the kind of one that looks like Ethernet.

    Link types are numbers, or as newer versions of `ip` print them. Otherwise, what looks like
    Ethernet or has no kind is a card, and all else a tunnel.
    """
    for word in ("32", "infiniband", "772", "loopback"):
        yield f"class type {word} dead-end"
    for kind in sorted(DEAD_ENDS):
        yield f"class kind {kind} {'dummy' if kind == 'dummy' else 'dead-end'}"
    for kind in sorted(LINES):
        yield f"class kind {kind} dial-up"
    yield "class kind wwan card"
    yield "class kind bridge bridge"
    for kind in sorted(LIKE_ETHERNET):
        yield f"class ethernet {kind} {'tap' if kind == 'tun' else 'tunnel'}"


def _cnis() -> Iterator[str]:
    """The table of CNIs: their devices, whose pods these lead to, and the routes with which they
    refuse packets.
    """
    for cni in CNIS:
        for device in cni.devices:
            for kind in device.kinds:
                yield f"cni {_word(cni.name)} {device.use} {kind} {device.pattern}"
        for other in ("any",) if cni.serves is None else ("bridge", *cni.serves):
            yield f"serves {_word(cni.name)} {_word(other)}"
    for dev in POD_NETWORKS:
        yield f"pods {dev}"
    for cni in CNIS:
        for refusal in cni.refusals:
            yield from _refusal_settings(cni, refusal)


def _refusal_settings(cni: Cni, refusal: Refusal) -> Iterator[str]:
    """By family and type: the protocol, the CNI, what proves that it is the CNI's, and the lengths
    of its prefixes.
    """
    proof = "inside"
    if refusal.is_exclusive:
        proof = "device"
    if refusal.is_node_subnet:
        proof = "first"
    for family, (shortest, longest) in refusal.lengths.items():
        for kind in refusal.types:
            words = (
                f"{kind} {protocol_name(refusal.protocol)} {_word(cni.name)} {proof} {shortest} "
                f"{longest}"
            )
            yield f"refuses {family} {words}"


def _word(name: str) -> str:
    """The name of a CNI as one word."""
    return name.replace(" ", "_")


def _sentences() -> Iterator[str]:
    for name in ("default-routes", "two-cnis", "doubtful-route"):
        sentence, remedy = DOUBTS[name]
        yield f"sentence {name} {sentence}"
        yield f"remedy {name} {remedy}"
    yield f"own-pods {OWN_PODS}"
    for word, reason in _UNCLEAR.items():
        yield f"unclear {word} {reason}"
