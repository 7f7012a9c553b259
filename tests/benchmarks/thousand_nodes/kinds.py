"""The nodes of the fleet: how each is furnished, the ways in which one can be broken, and what has to be said about each.

Here: the table `KINDS`, and commands of `ip`. Not here: namespaces (`nodes`), and what is done about it (`story`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["CIDR", "HALVES", "KINDS", "Kind", "Plan", "Wrong", "plan_fleet"]

CIDR = "172.16.0.0/16"
HALVES = ("172.16.0.0/17", "172.16.128.0/17")
"""The routes that win against InfiniBand's own route without touching it."""

_FABRIC = tuple(f"ib{number}" for number in range(8))
_PAIRS = (("eth0", "far"), *(_FABRIC[at : at + 2] for at in range(0, 8, 2)))


@attrs.frozen
class Wrong:
    """What is wrong on one node."""

    escapes: tuple[tuple[str, str, str], ...] = ()
    """What has to be found: the kind of each escape, the device instead, and the range."""
    lines: tuple[str, ...] = ()
    """Commands of `ip` that break a sound node."""
    captured: tuple[str, ...] = ()
    """The devices of the fabric whose addresses are in the CIDR; the first of them gets its address first."""


@attrs.frozen
class Kind:
    """One way to be broken."""

    name: str
    make: Callable[[random.Random], Wrong]
    problem: str
    """The words of the table for a group of such nodes, as a regular expression."""
    verdict: str | None = "overlap"
    """None for a node whose snapshot cannot be checked."""
    repair: tuple[str, ...] = ()
    """The destinations of the one repair for all such nodes; empty if it depends on the node."""
    unsafe: tuple[str, ...] = ()
    """Why no static route can repair it."""
    is_repairable: bool = True
    installed: tuple[str, ...] = ()
    """The routes that `hostrouting apply` has installed before it breaks."""
    answers: bool = True
    """Whether commands can be run on the node."""


@attrs.frozen
class Plan:
    """A node that is wanted: the commands of `ip` that make it, and what is wrong on it, if anything is."""

    name: str
    lines: tuple[str, ...]
    gateway: str
    kind: Kind | None = None
    wrong: Wrong = Wrong()


def _all_devices(rng: random.Random) -> Wrong:
    first = rng.randrange(8)
    devs = _FABRIC[first:] + _FABRIC[:first]  # of equal routes, Linux uses the one that was added first
    return Wrong((("overlap", devs[0], CIDR),), captured=devs)


def _one_device(rng: random.Random) -> Wrong:
    dev = rng.choice(_FABRIC)
    return Wrong((("overlap", dev, CIDR),), captured=(dev,))


def _specific(rng: random.Random) -> Wrong:
    dev, block = rng.choice(_FABRIC), f"172.16.{rng.randrange(0, 256, 8)}.0/21"
    return Wrong((("overlap", dev, block),), (f"route add {block} dev {dev} proto static",))


def _tunnel(_: random.Random) -> Wrong:
    halves = ("0.0.0.0/1", "128.0.0.0/1")
    lines = ("link add wg0 type veth peer name elsewhere", *_up("wg0", "elsewhere"))
    return Wrong((("overlap", "wg0", CIDR),), (*lines, *(f"route add {it} dev wg0 proto static" for it in halves)))


def _refused(kind: str, rng: random.Random) -> Wrong:
    block = f"172.16.{rng.randrange(0, 256, 16)}.0/20"
    return Wrong(((kind, "", block),), (f"route add {kind} {block} proto static",))


def _swallowed(_: random.Random) -> Wrong:
    return Wrong((("blackhole", "", CIDR),), (f"route add blackhole {CIDR} proto static",))


def _late(rng: random.Random) -> Wrong:
    dev, third = rng.choice(_FABRIC), rng.randrange(100, 250)
    lines = (f"address add 172.16.{third}.1/24 dev {dev}",)
    return Wrong((("overlap", dev, f"172.16.{third}.0/24"),), lines, captured=_FABRIC)


def _rule(rng: random.Random) -> Wrong:
    dev, block = rng.choice(_FABRIC), f"172.16.{rng.randrange(256)}.0/24"
    lines = (f"route add default dev {dev} table 100", f"rule add to {block} lookup 100 priority 1000")
    return Wrong((("overlap", dev, block),), lines)


def _one_address(rng: random.Random) -> Wrong:
    dev, address = rng.choice(_FABRIC), f"172.16.{rng.randrange(256)}.{rng.randrange(1, 255)}/32"
    return Wrong((("overlap", dev, address),), (f"route add {address} dev {dev} proto static",))


def _no_default(_: random.Random) -> Wrong:
    return Wrong(lines=("route del default",))


def _silent(_: random.Random) -> Wrong:
    return Wrong()


_PART = r"a part of 172\.16\.0\.0/16 by ib\d.*"
KINDS = (
    Kind("captured by ib0…ib7", _all_devices, r"172\.16\.0\.0/16 by ib\d.*", repair=HALVES),
    Kind("captured by one device", _one_device, r"172\.16\.0\.0/16 by ib\d.*", repair=HALVES),
    Kind("captured by a tunnel", _tunnel, r"172\.16\.0\.0/16 by wg0", repair=(CIDR,)),
    Kind("a more specific foreign route", _specific, _PART),
    Kind("an address that came late", _late, _PART, installed=HALVES),
    Kind(
        "a part is unreachable",
        partial(_refused, "unreachable"),
        r"a part of 172\.16\.0\.0/16 by no device \(unreachable\)",
    ),
    Kind(
        "a part is prohibited",
        partial(_refused, "prohibit"),
        r"a part of 172\.16\.0\.0/16 by no device \(prohibit\)",
    ),
    Kind("a blackhole", _swallowed, r"172\.16\.0\.0/16 by no device \(blackhole\)", repair=HALVES),
    Kind("a rule leads a part elsewhere", _rule, _PART, is_repairable=False, unsafe=("earlier-rule",)),
    Kind("a foreign route to one address", _one_address, _PART, is_repairable=False, unsafe=("longest-prefix",)),
    Kind("no default route", _no_default, "no IPv4 default route", verdict="no-default-route", is_repairable=False),
    Kind("no answer", _silent, "this is empty: .*", verdict=None, is_repairable=False, answers=False),
)
"""Every way to be broken, the ones that static routes can repair first."""


def plan_fleet(count: int, *, broken: int, rng: random.Random) -> tuple[Plan, ...]:
    """Plan `count` nodes, of which `broken` are broken. The numbers of nodes of two kinds differ by one at most."""
    wrong = set(rng.sample(range(count), broken))
    kinds = iter([KINDS[at % len(KINDS)] for at in range(broken)])
    return tuple(_planned(number, next(kinds) if number in wrong else None, rng) for number in range(count))


def _planned(number: int, kind: Kind | None, rng: random.Random) -> Plan:
    network, gateway = f"10.{number // 250}.{number % 250}", rng.choice((1, 254))
    wrong = Wrong() if kind is None else kind.make(rng)
    metric = rng.choice(("", " metric 100"))
    lines = [
        "link set lo up",
        *(f"link add {one} type veth peer name {other}" for one, other in _PAIRS),
        *_up(*(dev for pair in _PAIRS for dev in pair)),
        f"address add {network}.4/24 dev eth0",
        f"route add default via {network}.{gateway} dev eth0 proto dhcp{metric}",
    ]
    # A sound node may have a fabric in the CIDR, too, if an earlier repair keeps it from capturing anything.
    repaired = kind is None and rng.random() < 0.5
    captured = _FABRIC if repaired else wrong.captured
    lines += _fabric(captured, number)
    if repaired:
        lines += [f"route add {it} via {network}.{gateway} dev eth0 proto 213" for it in HALVES]
    return Plan(f"gpu-{number:04}", tuple(lines), f"{network}.{gateway}", kind, wrong)


def _fabric(captured: Sequence[str], number: int) -> Iterable[str]:
    """An address for each device of the fabric, those in the CIDR first."""
    for dev in (*captured, *(it for it in _FABRIC if it not in captured)):
        block = "172.16" if dev in captured else "172.20"
        yield f"address add {block}.{int(dev[2:]) + 1}.{number % 250 + 2}/16 dev {dev}"


def _up(*devs: str) -> tuple[str, ...]:
    """Without IPv6 addresses, which a device gets only later: nothing may change while a node is looked at."""
    return tuple(f"link set {dev} addrgenmode none up" for dev in devs)
