"""The rules that azure-vnet makes, as ebtables-save spells them, and look-alikes."""

from collections.abc import Iterable

from tests.support.namespace import Namespace


def addition(rules: Iterable[str]) -> str:
    """The input with which ebtables-restore adds these rules to table nat."""
    return "\n".join(["*nat", *(f"-A {rule}" for rule in rules), ""])


def add_rules(namespace: Namespace, rules: Iterable[str]) -> None:
    """Add rules without reading the existing ones, as azure-vnet does."""
    done = namespace.run("ebtables-nft-restore", "--noflush", text=addition(rules))
    assert done.returncode == 0, done.stderr


def pod_rules(ip: str, mac: str) -> tuple[str, ...]:
    """The rules that azure-vnet adds for one address of a pod."""
    if ":" in ip:
        packets = f"PREROUTING -p IPv6 -i eth0 --ip6-dst {ip}"
        return (f"{packets} -j dnat --to-dst {mac} --dnat-target ACCEPT",)
    return (
        f"PREROUTING -p ARP --arp-op Request --arp-ip-dst {ip} -j arpreply --arpreply-mac {mac}",
        f"PREROUTING -p IPv4 -i eth0 --ip-dst {ip} -j dnat --to-dst {mac} --dnat-target ACCEPT",
    )


_MAC, _DST = "0a:0b:0c:0d:0e:05", "--arp-ip-dst 10.1.0.5 "
(R1, R2), (R3,) = pod_rules("10.1.0.5", _MAC), pod_rules("fd00::5", _MAC)

_TO_ALL = "-j dnat --to-dst ff:ff:ff:ff:ff:ff --dnat-target ACCEPT"
_FROM_NODE = "-j snat --to-src 0a:00:00:00:00:01 --snat-arp --snat-target ACCEPT"
NODE_RULES = (
    f"PREROUTING -p ARP -i eth0 --arp-op Reply {_TO_ALL}",
    f"POSTROUTING -s Unicast -o eth0 {_FROM_NODE}",
)
"""The rules that it adds once on a node, beside an R1 with the node's own address."""


def _without(rule: str, words: str, *others: str) -> list[str]:
    return [rule.replace(words, other) for other in others]


LOOK_ALIKES = (
    *NODE_RULES,
    *_without(R1, _DST, "--arp-ip-dst 10.1.0.4/31 ", "--arp-ip-dst ! 10.1.0.5 ", ""),
    *_without(R1, "--arp-op Request ", "--arp-op Reply ", ""),
    *_without(R1, _DST, f"{_DST}--limit 5/sec --limit-burst 5 "),
    *_without(R1, f"-j arpreply --arpreply-mac {_MAC}", "-j DROP"),
    *_without(R1, "PREROUTING -p ARP", "PREROUTING -p ARP -i eth0"),
    f"{R1} --arpreply-target ACCEPT",
    *_without(R2, "-i eth0", "-i eth1", "-i ! eth0", "-i eth+"),
    *_without(R2, "-i eth0 ", ""),
    *_without(R2, "--ip-dst 10.1.0.5", "--ip-dst 10.1.0.4/31", "--ip-src 10.1.0.5"),
    *_without(R2, "--ip-dst 10.1.0.5", "--ip-dst 10.1.0.5 --ip-proto tcp"),
    *_without(R2, "--dnat-target ACCEPT", "--dnat-target DROP"),
    *_without(R2, f"-j dnat --to-dst {_MAC} --dnat-target ACCEPT", "-j ACCEPT", "-j redirect"),
    *_without(R3, "--ip6-dst fd00::5", "--ip6-dst fd00::4/127", "--ip6-dst ! fd00::5"),
    R2.replace("PREROUTING -p IPv4 -i eth0", "OUTPUT -p IPv4"),
)
"""Rules for the addresses of R1, R2 and R3 that azure-vnet does not add for a pod."""
