"""Looking for what can mark packets: which programs are run, and the report if one of them fails."""

import pytest

from hostrouting.kernel.marking import IpsecPolicy, ipsec_policies, marking_of
from hostrouting.kernel.programs import Ended
from hostrouting.model.prefix import Prefix
from tests.support.stand_ins import Answer, Programs

RULES = '{"nftables": [%s]}'
CHAIN = '{"chain": {"family": "ip", "table": "mangle", "name": "PREROUTING", "type": "filter", "hook": "prerouting", "prio": 0}}'
FOREIGN = (
    '{"rule": {"family": "ip", "table": "mangle", "chain": "PREROUTING", "handle": 2, "expr":'
    ' [{"xt": {"type": "target", "name": "MARK"}}]}}'
)
SAVED = "*mangle\n-A PREROUTING -j MARK --set-xmark 0x10/0x10\nCOMMIT\n"
POLICIES = """\
src 10.0.0.0/24 dst 172.16.0.0/16 uid 0
\tdir out priority 0 ptype main
\ttmpl src 10.0.0.1 dst 10.9.9.9
\t\tproto esp reqid 0 mode tunnel
src 172.16.0.0/16 dst 10.0.0.0/24
\tdir in priority 0 ptype main
src 10.0.0.0/24 dst 172.17.0.0/16 proto udp dport 4500
\tdir out action block priority 0 ptype main
\tmark 0xe00/0xf00
src 10.0.0.0/24 dst 172.18.0.0/16
\tdir out priority 0 ptype main
\ttmpl src 0.0.0.0 dst 0.0.0.0
\t\tproto esp reqid 0 mode transport
\tif_id 0x5
src 10.0.0.0/24 dst 172.19.0.0/16
\tdir out priority 0 ptype main
src fd00::/64 dst fd16::/48
\tdir out priority 0 ptype main
"""


NOTHING: dict[str, Answer] = {"nft": RULES % "", "test": Ended(1), "ip": ""}


def test_a_host_without_rules() -> None:
    """Everything was examined and nothing found; programs of iptables are not run."""
    run = Programs(**NOTHING)
    found = marking_of(4, run=run)
    assert (found.setters, found.policies, found.unseen) == ((), (), ())
    assert not any("iptables" in words for words in [" ".join(words) for words, _ in run.asked])


def test_each_way() -> None:
    """nftables, both kinds of iptables, and IPsec policies of the family."""
    run = Programs(
        nft=RULES % f"{CHAIN}, {FOREIGN}",
        iptables_nft_save=SAVED,
        iptables_legacy_save=SAVED,
        cat="mangle\n",
        test="",
        ip=POLICIES,
    )
    found = marking_of(4, run=run)
    assert [setter.place for setter in found.setters] == ["iptables-nft, table mangle", "iptables-legacy, table mangle"]
    assert "iptables-legacy-save -t mangle" in [" ".join(words) for words, _ in run.asked]
    assert found.policies == (
        IpsecPolicy(Prefix.parse("10.0.0.0/24"), Prefix.parse("172.16.0.0/16"), "tunnel", "10.9.9.9", "uid 0"),
        IpsecPolicy(
            Prefix.parse("10.0.0.0/24"),
            Prefix.parse("172.17.0.0/16"),
            "drop",
            only="proto udp dport 4500 mark 0xe00/0xf00",
        ),
        IpsecPolicy(Prefix.parse("10.0.0.0/24"), Prefix.parse("172.18.0.0/16"), "transport", only="if_id 0x5"),
        IpsecPolicy(Prefix.parse("10.0.0.0/24"), Prefix.parse("172.19.0.0/16"), "pass"),
    )
    assert [str(policy.destination) for policy in ipsec_policies(POLICIES, family=6)] == ["fd16::/48"]


def test_without_nft() -> None:
    """The rules of iptables are still read; if that fails, the report names them."""
    alone = {**NOTHING, "nft": FileNotFoundError()}
    found = marking_of(4, run=Programs(**alone, iptables_nft_save=SAVED))
    assert [setter.place for setter in found.setters] == ["iptables-nft, table mangle"]
    assert marking_of(4, run=Programs(**alone)).unseen == (
        "nftables (the program nft is not installed)",
        "iptables-nft (the program iptables-nft-save is not installed)",
    )


def test_ebtables() -> None:
    """The rules of ebtables are not read, and the answer says so."""
    listed = FOREIGN.replace('"ip"', '"bridge"').replace('"MARK"', '"mark"')
    found = marking_of(4, run=Programs(**{**NOTHING, "nft": RULES % listed}, iptables_nft_save=""))
    assert found.unseen == ("rules of ebtables that mark packets (hostrouting does not read them)",)


def test_of_ipv6() -> None:
    """The programs and files are those of IPv6."""
    run = Programs(nft=RULES % FOREIGN.replace('"ip"', '"ip6"'), cat="mangle", test="", ip="")
    found = marking_of(6, run=run)
    assert found.unseen == (
        "ip6tables-nft (the program ip6tables-nft-save is not installed)",
        "ip6tables-legacy (the program ip6tables-legacy-save is not installed)",
    )
    assert "cat /proc/net/ip6_tables_names" in [" ".join(words) for words, _ in run.asked]


DENIED = "Operation not permitted (you must be root)\nmore"
FAILURES: dict[str, tuple[dict[str, Answer], str]] = {
    "not installed": ({"nft": FileNotFoundError()}, "nftables (the program nft is not installed)"),
    "not permitted": ({"nft": Ended(1, "", DENIED)}, "nftables (Operation not permitted (you must be root))"),
    "silent": ({"nft": Ended(1)}, "nftables (nft failed)"),
    "slow": ({"nft": TimeoutError()}, "nftables (nft did not answer within 10 s)"),
    "broken": ({"nft": "{"}, "nftables (Expecting property name"),
    "policies": (
        {"ip": Ended(2, "", "RTNETLINK answers: Operation not permitted")},
        "IPsec policies (RTNETLINK answers:",
    ),
    "other policies": ({"ip": "what is this"}, "IPsec policies (ip printed something unexpected: what is this)"),
    "tables": (
        {"test": "", "cat": Ended(1, "", "cat: /proc/net/ip_tables_names: Permission denied")},
        "iptables-legacy (cat: /proc",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_could_not_be_looked_at(name: str) -> None:
    """A source that cannot be read is named, with the reason; the others are still read."""
    printed, words = FAILURES[name]
    found = marking_of(4, run=Programs(**{**NOTHING, **printed}, iptables_nft_save=""))
    [unseen] = found.unseen
    assert unseen.startswith(words)
