"""The output of ebtables-save, and the rules in it that azure-vnet adds for a pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.azure_vnet import NotAPodRule, PodRule, pod_rule, read_saved

MAC = "02:00:00:00:00:05"
R1 = f"PREROUTING -p ARP --arp-op Request --arp-ip-dst 10.240.0.5 -j arpreply --arpreply-mac {MAC}"
R2 = f"PREROUTING -p IPv4 -i eth0 --ip-dst 10.240.0.5 -j dnat --to-dst {MAC} --dnat-target ACCEPT"
R3 = f"PREROUTING -p IPv6 -i eth0 --ip6-dst fd00::5 -j dnat --to-dst {MAC} --dnat-target ACCEPT"


def read(line: str, table: str = "nat") -> PodRule:
    """The line as a pod rule."""
    (rule,) = read_saved(f"*{table}\n:PREROUTING ACCEPT\n-A {line}\n").rules
    return pod_rule(rule)


@pytest.mark.parametrize(
    ("line", "kind", "ip", "uplink"),
    [
        (R1, "R1", "10.240.0.5", None),
        (f"{R1} --arpreply-target DROP", "R1", "10.240.0.5", None),
        (R1.replace("ARP ", "0x0806 ").replace("Request", "1"), "R1", "10.240.0.5", None),
        (R2, "R2", "10.240.0.5", "eth0"),
        (R2.removesuffix(" --dnat-target ACCEPT"), "R2", "10.240.0.5", "eth0"),
        (R2.replace("10.240.0.5", "10.240.0.5/32"), "R2", "10.240.0.5", "eth0"),
        (R2.replace("10.240.0.5", "10.240.0.5/255.255.255.255"), "R2", "10.240.0.5", "eth0"),
        (R2.replace(MAC, "2:0:0:0:0:5"), "R2", "10.240.0.5", "eth0"),
        (R2.replace("--to-dst", "--to-destination"), "R2", "10.240.0.5", "eth0"),
        ("PREROUTING -i eth0 -p IPv4 -j dnat --to-dst 2:0:0:0:0:5 --ip-dst 10.240.0.5", "R2", "10.240.0.5", "eth0"),
        (R3, "R3", "fd00::5", "eth0"),
        (R3.replace("::5", "::5/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "R3", "fd00::5", "eth0"),
    ],
)
def test_the_three_rules(line: str, kind: str, ip: str, uplink: str | None) -> None:
    """Each of the three rules is recognised in every spelling that ebtables prints, and keeps its spelling."""
    found = read(line)
    assert (found.line, found.kind, str(found.ip), found.mac, found.uplink) == (line, kind, ip, MAC, uplink)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (R2.replace("10.240.0.5", "10.240.0.4/31"), "--ip-dst 10.240.0.4/31 is a network, not a single address"),
        (R3.replace("fd00::5", "fd00::/ffff::"), "--ip6-dst fd00::/ffff:: is a network, not a single address"),
        (R2.replace("-i eth0", "-i ! eth0"), "it has a negation: -i ! eth0"),
        (R2.replace("-i eth0", "! -i eth0"), "it has a negation: -i ! eth0"),
        (R2.replace("--ip-dst ", "--ip-dst ! "), "it has a negation: --ip-dst ! 10.240.0.5"),
        (R2.replace("-i eth0", "-i eth0 --ip-proto tcp"), "it also has --ip-proto"),
        (f"{R1} --arp-ip-src 10.0.0.1", "it also has --arp-ip-src"),
        (R1.replace("-p ARP", "-p ARP -i eth0"), "it also has -i"),
        (R2.replace("-i eth0 ", ""), "it has no -i"),
        (R2.replace("ACCEPT", "DROP"), "it has --dnat-target DROP, not ACCEPT"),
        (f"{R1} --arpreply-target ACCEPT", "it has --arpreply-target ACCEPT, not DROP"),
        (R2.replace("-j dnat --to-dst", "-j redirect --to-dst"), "it has -j redirect, not dnat"),
        (R1.replace("Request", "Reply"), "it has --arp-op Reply, not Request"),
        (R2.replace("IPv4", "IPv6"), "it has -p IPv6, not IPv4"),
        (R2.replace(MAC, "ff:ff:ff:ff:ff:ff"), "--to-dst ff:ff:ff:ff:ff:ff is not the MAC address of a single device"),
        (
            R2.replace(MAC, f"{MAC}/ff:ff:ff:0:0:0"),
            f"--to-dst {MAC}/ff:ff:ff:0:0:0 is not the MAC address of a single device",
        ),
        (R2.replace("PREROUTING", "AZURE"), "it is in the chain AZURE, not in PREROUTING"),
        (f"{R2} -p IPv4", "it has the same option more than once"),
        (
            "PREROUTING -p ARP -i eth0 --arp-op Reply -j dnat --to-dst ff:ff:ff:ff:ff:ff",
            "it does not match on an address",
        ),
    ],
)
def test_look_alikes(line: str, why: str) -> None:
    """A rule that differs in one thing is not a pod rule, and the message names the difference."""
    with pytest.raises(NotAPodRule) as caught:
        read(line)
    assert str(caught.value) == why


def test_another_table() -> None:
    """The same text in another table is not a pod rule."""
    with pytest.raises(NotAPodRule, match="it is in the table filter, not in nat"):
        read(R2, table="filter")


def test_the_whole_text() -> None:
    """Chains and comments are skipped, every rule has its table, and every other line is unreadable."""
    text = f"# made by\n*filter\n:INPUT ACCEPT\n-A INPUT -j ACCEPT\n*nat\n-A {R1}\n-A {R2}\nCOMMIT\n# done\n"
    saved = read_saved(text)
    assert [(it.table, it.line) for it in saved.rules] == [("filter", "INPUT -j ACCEPT"), ("nat", R1), ("nat", R2)]
    assert saved.unreadable == ()


@pytest.mark.parametrize(
    "line", ["-A PREROUTING what -p ARP", '-A PREROUTING --log-prefix "a', "-A -p ARP", "[0:0] -A OUTPUT", "nonsense"]
)
def test_a_line_that_is_not_understood(line: str) -> None:
    """An unreadable line is kept as it is and counted, and the rest is parsed."""
    saved = read_saved(f"*nat\n-A {R1}\n{line}\n-A {R2}\n")
    assert [it.line for it in saved.rules] == [R1, R2]
    assert saved.unreadable == (line,)


def test_rules_before_any_table() -> None:
    """A rule before the first table is unreadable."""
    assert read_saved(f"-A {R1}\n").unreadable == (f"-A {R1}",)


@given(st.lists(st.sampled_from([R1, R2, R3, "PREROUTING -j ACCEPT", "FORWARD -p ARP --log-prefix 'a b' -j DROP"])))
def test_there_and_back(lines: list[str]) -> None:
    """Rules in the format of ebtables-save are read back in order, including duplicates."""
    saved = read_saved("\n".join(["*nat", *(f"-A {line}" for line in lines)]))
    assert [it.line for it in saved.rules] == lines


@given(st.text())
def test_any_text(text: str) -> None:
    """Any text can be parsed without an error, and no line is lost."""
    saved = read_saved(text)
    passed_over = [it for it in map(str.strip, text.split("\n")) if not it or it[0] in "#:*" or it == "COMMIT"]
    assert len(saved.rules) + len(saved.unreadable) + len(passed_over) == len(text.split("\n"))
