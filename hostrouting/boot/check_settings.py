"""The settings of check-route-overlap.sh: what to check on this host, and what Python knows and the
script needs.

The script judges with the tables and limits of `check`, `fib` and `config`, and says what it finds
in the sentences that are here: those of `check.doubts` for doubts that both have, and its own.

A setting is a line: a word that says what it is, and its values, each at its place. For example:

    mode STRICT
    families 4
    cidr 172.16.0.0/16 172.16.0.0 172.16.255.255
    intended fwmark 0x1 iif eth0
    no-route Network is unreachable
    cni kube-router network ipip tun-* ip6tnl tun-*
    refuses 4 blackhole bird Calico inside protocol 20 32
    sentence OWN-RANGE does not leave this host: [{route}]

The head of the script explains each kind. The script splits a line at its spaces, so only the last
value of a line has spaces: the selectors of `intended`, errors of `ip`, and sentences. All others
are single words, by the rules of the configuration or by `_one_word`. `scripts.filled` quotes the
lines for bash, and the script has `set -f`, so `tun-*` stays a pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from hostrouting.boot.listed import class_settings, name_settings
from hostrouting.check.doubts import DOUBTS, NAME_DEVICES
from hostrouting.check.flaws import NO_IPV6
from hostrouting.check.judge import NO_GATEWAY
from hostrouting.check.parts import OF_EVERY_HOST
from hostrouting.check.refusals import SHORTEST_POD_BLOCK
from hostrouting.config.cni import BRIDGE_PLUGIN, CNIS, POD_NETWORKS, Cni, Refusal
from hostrouting.fib.not_judged import ENCAPSULATED, KEEPS_DESTINATION, NOT_LISTED
from hostrouting.host.layout import HostLayout
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import ANSWER_TO_RULE, REFUSING, protocol_name
from hostrouting.model.rule import IP_PROTOCOLS, SELECTORS

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig

_NOT_ASKED = Prefix.parse("0.0.0.0/32")
"""Linux takes this address for the host itself, and cannot be asked about it."""
NO_KIND = "-"
"""How a setting writes the kind of hardware, which has none."""

_WHY_NOT_JUDGED = {
    # words of a route, as `ip` prints them
    "tos": "only for packets with that tos",
    "from": "only for packets from there",
    "encap": ENCAPSULATED,
    # words of the script for what a route has or lacks
    "no-hops": NOT_LISTED,
    "object": "several routes use its nexthop object",
    "lo": "by lo, so Linux may pass over it",
}
"""Why the script does not judge a route, in words for the operator. For another word of `ip`, a row
is enough, as a test shows.
"""

_SENTENCES = {
    # verdicts
    "OVERLAP": "routes via {devices} [{route}], expected {expected}",
    "REFUSED": "is refused ({type}) by {refusals}; expected via {expected}",
    "NO-ROUTE": "has no route; expected via {expected}",
    "OWN-RANGE": "does not leave this host: [{route}]",
    "NO-DEFAULT-ROUTE": (
        "no IPv{family} default route leads packets from this host to the network; add one, or "
        + NAME_DEVICES.words
    ),
    # doubts, and reasons for them
    "default-route-hidden": (
        "rules or routes hide the IPv{family} default route; " + NAME_DEVICES.words
    ),
    "not-judged": "this check does not judge {reason}; run: hostrouting check",
    "perhaps-for-pods": "{refusals} refuses them, perhaps for pods",
    "no-gateway": NO_GATEWAY,
    "no-local-rule": (
        "no IPv{family} rule looks up table local first, so this host may not answer on its own "
        "addresses; run: hostrouting check"
    ),
    "changing": "routes that change while Linux is asked about them",
}
"""What only the script says, by the name under which it does. It fills the {holes}: `words_for` in
the script has a word for each, which a test compares with those in all sentences.
"""
_SHARED_DOUBTS = ("default-routes", "two-cnis", "doubtful-route", "other-packets")


def check_settings(config: HostRoutingConfig) -> list[str]:
    """All settings but the sentences. Those of the host come first: bash reads no further than the
    first `names`. The rest is for awk alone, in any order.
    """
    families = sorted({Prefix.of(cidr).family for cidr in config.route_overlap.cidrs})
    return [
        *_of_the_host(config.route_overlap, families),
        *name_settings(),
        *_words_of_ip(),
        *_own_addresses(families),
        *class_settings(),
        *_cnis(families),
    ]


def check_sentences() -> dict[str, str]:
    """All that the script says of routes, rules and devices, by name."""
    sentences = dict(_SENTENCES)
    for name in _SHARED_DOUBTS:
        wording = DOUBTS[name]
        sentences[name] = f"{wording.sentence}; {wording.remedy}"
    for word, reason in _WHY_NOT_JUDGED.items():
        sentences[f"unclear-{word}"] = reason
    return sentences


def _of_the_host(check: RouteOverlapConfig, families: Collection[int]) -> Iterator[str]:
    yield f"mode {check.mode}"
    yield f"state {HostLayout.state_directory}"
    yield f"families {' '.join(map(str, families))}"
    yield f"no-ipv6 {NO_IPV6.sentence}"
    for cidr in map(Prefix.of, check.cidrs):
        yield f"cidr {cidr} {_range(cidr)}"
    for cidr in map(Prefix.of, check.service_cidrs):
        yield f"service {cidr} {_range(cidr)}"
    for dev in check.expected_devs:
        yield f"device {dev}"
    for pattern in check.allowed_devs:
        yield f"allowed {pattern}"
    for selectors in check.intended_rules:
        yield f"intended {selectors}"


def _range(prefix: Prefix) -> str:
    """The first and the last address that Linux can be asked about. The range of 0.0.0.0/32 is
    empty, from 0.0.0.1 to 0.0.0.0: the script asks nothing for it.
    """
    first = prefix.first
    if _NOT_ASKED in prefix:
        first += 1
    return f"{ip_at(prefix.family, first)} {ip_at(prefix.family, prefix.last)}"


def _words_of_ip() -> Iterator[str]:
    """What `ip` prints: errors, actions and selectors of rules, and encapsulations that keep the
    destination.
    """
    protocols = [f"{number} {name}" for number, name in IP_PROTOCOLS.items()]
    yield f"names ipproto {' '.join(protocols)}"
    yield "no-route Network is unreachable"  # in English: the script sets LC_ALL=C
    for kind, refused in REFUSING.items():
        yield f"refusing-type {kind} {ANSWER_TO_RULE.get(kind, kind)} {refused.words}"
    yield f"selectors {' '.join(SELECTORS)}"
    encapsulations = [words.removeprefix("encap ") for words in sorted(KEEPS_DESTINATION)]
    yield f"keep-destination {' '.join(encapsulations)}"


def _own_addresses(families: Collection[int]) -> Iterator[str]:
    """The addresses that every host has."""
    for family in families:
        for prefix in OF_EVERY_HOST[family]:
            if prefix != _NOT_ASKED:
                yield f"own {_range(prefix)}"


def _cnis(families: Collection[int]) -> Iterator[str]:
    """The table of CNIs: their devices, whose pods these lead to, and the routes with which they
    refuse packets.
    """
    for cni in CNIS:
        for use, devices in _devices_by_use(cni).items():
            yield f"cni {_one_word(cni.name)} {use} {' '.join(devices)}"
        served: tuple[str, ...] = ("any",)
        if cni.serves is not None:
            served = (BRIDGE_PLUGIN, *cni.serves)
        yield f"serves {_one_word(cni.name)} {' '.join(map(_one_word, served))}"
        for refusal in cni.refusals:
            yield from _refusal_settings(cni, refusal, families)
    for family in families:
        yield f"pod-block {family} {SHORTEST_POD_BLOCK[family]}"


def _devices_by_use(cni: Cni) -> dict[str, list[str]]:
    """The kinds and patterns of its devices. Those of POD_NETWORKS have two uses, network and pod:
    like the device of a pod, each also shows that the CNI has pods here.
    """
    devices: dict[str, list[str]] = {}
    for device in cni.devices:
        for kind in device.kinds:
            words = f"{kind or NO_KIND} {device.pattern}"
            devices.setdefault(device.use, []).append(words)
            if device.pattern in POD_NETWORKS:
                devices.setdefault("pod", []).append(words)
    return devices


def _refusal_settings(cni: Cni, refusal: Refusal, families: Collection[int]) -> Iterator[str]:
    """A setting for each family and type: the protocol, the CNI, PROOF and TRACE, which the head of
    the script explains, and the lengths of the prefix.
    """
    trace = "device"
    if refusal.proof == "first":
        trace = "none"  # the route is another node's, or nobody's, whatever devices are here
    elif refusal.is_shown_by_protocol:
        trace = "protocol"  # or a device
    whose = f"{protocol_name(refusal.protocol)} {_one_word(cni.name)} {refusal.proof} {trace}"
    for family, (shortest, longest) in refusal.lengths.items():
        if family not in families:
            continue
        for kind in refusal.types:
            yield f"refuses {family} {kind} {whose} {shortest} {longest}"


def _one_word(name: str) -> str:
    """The name of a CNI as one word. `bridge`, which is also a kind and a use of devices, would be
    hard to read in a setting. No CNI can be called "any", which stands in the place of names.
    """
    if name == BRIDGE_PLUGIN:
        return "bridge-plugin"
    return name.replace(" ", "_")
