"""Parses the output of ebtables-save, and finds the rules that azure-vnet adds for a pod.

How it works. azure-vnet adds three kinds of rules for a pod, and each has exactly one set of options:

    R1  -p ARP --arp-op Request --arp-ip-dst IP -j arpreply --arpreply-mac MAC --arpreply-target DROP
    R2  -p IPv4 -i UPLINK --ip-dst IP -j dnat --to-dst MAC --dnat-target ACCEPT
    R3  -p IPv6 -i UPLINK --ip6-dst IP -j dnat --to-dst MAC --dnat-target ACCEPT

all in the chain PREROUTING of the table nat. ebtables prints the same rule in several ways: it omits a target that is
the default, and may print a protocol as a number, a host address with its mask, and a MAC address without leading
zeros. So a rule is first parsed into options with values, then compared with the three shapes. A rule that is not
exactly one of them (one option more or less, a negation, a network instead of an address) is not a pod rule, and the
difference is reported.

Here: from text to values. Not here: which of the rules are stale (`cleanup`).
"""

from __future__ import annotations

import re
import shlex
from ipaddress import ip_address, ip_interface
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.kernel.neighbours import canonical_mac
from hostrouting.model import as_ip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.model import IP

__all__ = ["NotAPodRule", "PodRule", "SavedRule", "SavedRules", "pod_rule", "read_saved"]

RuleKind: TypeAlias = Literal["R1", "R2", "R3"]

_ADDRESS, _MAC, _DEVICE = "IP", "MAC", "UPLINK"


def _rewriting(protocol: str, option: str) -> dict[str, str]:
    return {
        "-p": protocol,
        "-i": _DEVICE,
        option: _ADDRESS,
        "-j": "dnat",
        "--to-dst": _MAC,
        "--dnat-target": "ACCEPT",
    }


_ANSWERING = {
    "-p": "ARP",
    "--arp-op": "Request",
    "--arp-ip-dst": _ADDRESS,
    "-j": "arpreply",
    "--arpreply-mac": _MAC,
    "--arpreply-target": "DROP",
}
_SHAPES: dict[str, tuple[RuleKind, dict[str, str]]] = {
    "--arp-ip-dst": ("R1", _ANSWERING),
    "--ip-dst": ("R2", _rewriting("IPv4", "--ip-dst")),
    "--ip6-dst": ("R3", _rewriting("IPv6", "--ip6-dst")),
}
"""Keyed by the option that holds the pod's address: the kind of rule, and every option with its value."""

_DEFAULTS = {"arpreply": ("--arpreply-target", "DROP"), "dnat": ("--dnat-target", "ACCEPT")}
"""Keyed by target: the option that ebtables omits, and the default that it then has."""
_OTHER_NAMES = {"--to-destination": "--to-dst"}
_NUMBERS = {
    "-p": {0x0806: "ARP", 0x0800: "IPv4", 0x86DD: "IPv6"},
    "--arp-op": {1: "Request"},
}
_MAC_TEXT = re.compile(r"[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){5}")


@attrs.frozen
class SavedRule:
    """A rule as ebtables-save prints it."""

    table: str
    line: str
    """The text without the leading -A: the chain, then the options."""
    options: tuple[tuple[str, str], ...] = attrs.field(eq=False, repr=False)
    """Each option with its values, in order; a negated value begins with `!`."""

    @property
    def chain(self) -> str:
        """The chain that contains the rule."""
        return self.line.partition(" ")[0]

    @property
    def address(self) -> IP | None:
        """The IP address that the rule matches, or the address of the network; None if it does not match one."""
        for option, value in self.options:
            if option in _SHAPES:
                try:
                    return as_ip(value.removeprefix("! ").partition("/")[0])
                except ValueError:
                    return None
        return None


@attrs.frozen
class PodRule:
    """A rule that is exactly one of the three that azure-vnet adds for a pod."""

    line: str
    kind: RuleKind
    ip: IP
    mac: str
    uplink: str | None = None
    """The device that frames arrive on; None in R1, which matches any device."""


class NotAPodRule(ValueError):  # noqa: N818  reads as what is wrong
    """A rule is not exactly one of the three; the message names the difference."""


@attrs.frozen
class SavedRules:
    """All rules of a host, and the lines that could not be parsed."""

    rules: tuple[SavedRule, ...] = ()
    unreadable: tuple[str, ...] = ()


def read_saved(text: str) -> SavedRules:
    """Every rule in the text, in order; a line that is not a rule, chain, table or comment is unreadable."""
    rules, unreadable, table = [], [], ""
    for line in map(str.strip, text.split("\n")):
        if not line or line.startswith(("#", ":")) or line == "COMMIT":
            continue
        if line.startswith("*"):
            table = line[1:]
            continue
        found = _rule(table, line)
        if found is None:
            unreadable.append(line)
        else:
            rules.append(found)
    return SavedRules(tuple(rules), tuple(unreadable))


def pod_rule(rule: SavedRule) -> PodRule:
    """The rule as a pod rule; raises NotAPodRule, with the reason, if it is not one."""
    if rule.table != "nat":
        raise NotAPodRule(f"it is in the table {rule.table}, not in nat")
    if rule.chain != "PREROUTING":
        raise NotAPodRule(f"it is in the chain {rule.chain}, not in PREROUTING")
    found = dict(rule.options)
    if len(found) < len(rule.options):
        raise NotAPodRule("it has the same option more than once")
    kind, shape = next((_SHAPES[option] for option in found if option in _SHAPES), (None, {}))
    if kind is None:
        raise NotAPodRule("it does not match on an address")
    option, value = _DEFAULTS.get(found.get("-j", ""), ("", ""))
    if option:
        found.setdefault(option, value)
    read: dict[str, str] = {}
    for option, wanted in shape.items():
        if option not in found:
            raise NotAPodRule(f"it has no {option}")
        read[wanted] = _value(option, found[option], wanted)
    for option in found:
        if option not in shape:
            raise NotAPodRule(f"it also has {option}")
    return PodRule(rule.line, kind, ip_address(read[_ADDRESS]), read[_MAC], read.get(_DEVICE))


def _rule(table: str, line: str) -> SavedRule | None:
    if not (table and line.startswith("-A ")):
        return None
    try:
        # Quotes are rare, and parsing them takes ten times as long.
        words = shlex.split(line) if {'"', "'", "\\"} & set(line) else line.split()
    except ValueError:
        return None
    chain, options = words[1], words[2:]
    if chain.startswith("-") or (options and not options[0].startswith(("-", "!"))):
        return None
    return SavedRule(table, line.removeprefix("-A ").strip(), tuple(_options(options)))


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its values; a `!` before the option is treated like one after it."""
    at = 0
    while at < len(words):
        values = []
        if words[at] == "!":
            values.append("!")
            at += 1
        option = words[at] if at < len(words) else ""
        at += 1
        while at < len(words) and not _begins(words, at):
            values.append(words[at])
            at += 1
        yield _OTHER_NAMES.get(option, option), " ".join(values)


def _begins(words: Sequence[str], at: int) -> bool:
    """Whether an option begins at this word."""
    if words[at] == "!":
        return at + 1 < len(words) and words[at + 1].startswith("-")
    return words[at].startswith("-")


def _value(option: str, value: str, wanted: str) -> str:
    """The value in its canonical spelling; raises NotAPodRule if it is not the one that the shape requires."""
    if value.startswith("!"):
        raise NotAPodRule(f"it has a negation: {option} {value}")
    if wanted == _ADDRESS:
        return str(_host(option, value))
    if wanted == _MAC:
        mac = canonical_mac(value) if _MAC_TEXT.fullmatch(value) else ""
        if not mac or int(mac[:2], 16) & 1:
            raise NotAPodRule(f"{option} {value} is not the MAC address of a single device")
        return mac
    if wanted == _DEVICE:
        return value
    if _named(option, value).lower() != wanted.lower():
        raise NotAPodRule(f"it has {option} {value}, not {wanted}")
    return wanted


def _host(option: str, value: str) -> IP:
    # Python does not parse an IPv6 mask in the form of an address.
    address, slash, mask = value.partition("/")
    try:
        if slash and ":" in mask:
            mask = str(128 if int(ip_address(mask)) == 2**128 - 1 else 0)
        found = ip_interface(f"{address}{slash}{mask}")
        ip = as_ip(ip_address(address))
    except ValueError:
        raise NotAPodRule(f"{option} {value} is not an address") from None
    if found.network.prefixlen != ip.max_prefixlen:
        raise NotAPodRule(f"{option} {value} is a network, not a single address")
    if ip.version != (6 if option == "--ip6-dst" else 4):
        raise NotAPodRule(f"{option} {value} is an address of the other IP version")
    return ip


def _named(option: str, value: str) -> str:
    """The name of a number, if it has one; otherwise the value as it is."""
    names = _NUMBERS.get(option, {})
    try:
        return names.get(int(value, 16 if option == "-p" else 10), value)
    except ValueError:
        return value
