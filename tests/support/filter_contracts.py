"""The contract suites of the packet filters and the link layer, for the real implementations and the fake ones.

Here: the promises of Ebtables, Nftables and LinkLayer (`hostrouting.kernel`) that their own methods can check, one
test for each sentence. Not here: a host with two ebtables backends, tables that another program owns, veths whose
other end cannot be read, and programs that are missing or refuse.

Subclass one in a module that pytest collects, and override `make`; each test gets a new object, for a host with
some rules, without tables, or for LinkLayer the host that `contract_view` describes::

    class TestMine(EbtablesContract):
        @contextmanager
        def make(self, *rules: str) -> Iterator[Ebtables]:
            yield MyEbtables(rules)
"""

# These are tests, so they use assert.
from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import HostError
from hostrouting.kernel.ebtables import Ebtables, nat_rules
from hostrouting.kernel.neighbours import EthernetLink, LinkLayer, LinkLayerView, Neighbour, PeerMac

if TYPE_CHECKING:
    from hostrouting.kernel.nftables import Nftables


@contextmanager
def _refuses() -> Iterator[None]:
    try:
        yield
    except ValueError:
        return
    raise AssertionError("ValueError was not raised")


# Ebtables.

CONTRACT_RULES = (
    "PREROUTING -p ARP --arp-op Request --arp-ip-dst 10.1.0.5 -j arpreply --arpreply-mac 0a:0b:0c:0d:0e:05",
    "PREROUTING -p IPv4 -i eth0 --ip-dst 10.1.0.5 -j dnat --to-dst 0a:0b:0c:0d:0e:05 --dnat-target ACCEPT",
    "PREROUTING -p IPv6 -i eth0 --ip6-dst fd00::5 -j dnat --to-dst 0a:0b:0c:0d:0e:05 --dnat-target ACCEPT",
    "POSTROUTING -s Unicast -o eth0 -j snat --to-src 0a:0b:0c:0d:0e:0f --snat-arp --snat-target ACCEPT",
)
"""Rules of the table nat as ebtables-save prints them."""

_ARP, _IPV4, _IPV6, _SNAT = CONTRACT_RULES


@contextmanager
def _lacks(*lines: str) -> Iterator[None]:
    found: tuple[str, ...] = ()
    try:
        yield
    except HostError as error:
        if error.kind != "no-such-rule":
            raise
        found = error.lines
    assert sorted(found) == sorted(lines)


@contextmanager
def _ambiguous() -> Iterator[None]:
    try:
        yield
    except HostError as error:
        if error.kind == "ambiguous-rule":
            return
        raise
    raise AssertionError("no error was raised")


class EbtablesContract:
    """The suite as a base class: subclass it, and override `make`."""

    def make(self, *rules: str) -> AbstractContextManager[Ebtables]:
        """Create an Ebtables for a host with these rules, and clean up at the end of the `with` block."""
        raise NotImplementedError("override make() so that it yields your Ebtables")

    # reading

    def test_there_are_no_rules(self) -> None:
        """On a host without rules, the text contains no rules."""
        with self.make() as ebtables:
            assert nat_rules(ebtables.save()) == ()

    def test_rules_are_read(self) -> None:
        """Rules are read in order, with duplicates, chain by chain."""
        with self.make(_SNAT, _ARP, _IPV4, _IPV6, _ARP) as ebtables:
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4, _IPV6, _ARP, _SNAT)

    # delete

    def test_delete(self) -> None:
        """Each given rule is deleted as often as it is given; the others stay in order."""
        with self.make(_ARP, _IPV6, _ARP, _IPV4, _ARP) as ebtables:
            ebtables.delete([_IPV4, _ARP, _ARP])
            assert nat_rules(ebtables.save()) == (_IPV6, _ARP)
            ebtables.delete([_ARP, _IPV6])
            assert nat_rules(ebtables.save()) == ()

    def test_all_or_nothing(self) -> None:
        """If a rule does not exist, or not as often as given, nothing is deleted, and the error names that rule."""
        with self.make(_ARP, _IPV4) as ebtables:
            with _lacks(_IPV6):
                ebtables.delete([_ARP, _IPV6, _IPV4])
            with _lacks(_ARP):
                ebtables.delete([_ARP, _ARP])
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4)

    def test_rules_that_ebtables_does_not_tell_apart(self) -> None:
        """If ebtables cannot distinguish two rules, because only their source differs, neither is deleted."""
        twin = _IPV4.replace(" -i ", " -s Unicast -i ")
        with self.make(twin, _IPV4, _IPV6) as ebtables:
            for lines in ([_IPV6, _IPV4], [twin, _IPV4], [twin]):
                with _ambiguous():
                    ebtables.delete(lines)
            assert nat_rules(ebtables.save()) == (twin, _IPV4, _IPV6)
            ebtables.delete([_IPV6])

    def test_nothing_to_do(self) -> None:
        """An empty list is allowed in `delete`."""
        with self.make(_ARP) as ebtables:
            ebtables.delete([])
            assert nat_rules(ebtables.save()) == (_ARP,)

    # what is not a rule

    def test_lines_that_are_no_rules(self) -> None:
        """A line that ebtables-restore would not parse as a rule raises ValueError, and nothing is changed."""
        with self.make(_ARP) as ebtables:
            strange = (
                "",
                " ",
                "-A PREROUTING",
                "*filter",
                ":PREROUTING DROP",
                "# a",
                f"{_IPV4}\n-F",
                f"{_IPV4}\r",
                "\x00",
            )
            for line in strange:
                with _refuses():
                    ebtables.delete([_ARP, line])
            assert nat_rules(ebtables.save()) == (_ARP,)


# LinkLayer.

_POD, _NODE = "0a:00:00:00:00:55", "0a:00:00:00:00:01"
_FIRST = Neighbour("10.1.0.5", "0a:00:00:00:00:05", "azure0")


def contract_view() -> LinkLayerView:
    """A bridge with a veth whose other end is in another namespace, a veth pair in this one, and two neighbours."""
    return LinkLayerView(
        links=[
            EthernetLink(name="lo", index=1, mac="00:00:00:00:00:00"),
            EthernetLink(name="azure0", index=2, kind="bridge", mac=_NODE),
            EthernetLink(
                name="pod0", index=3, kind="veth", mac="0a:00:00:00:00:02", master="azure0", peer=PeerMac(_POD)
            ),
            EthernetLink(name="one", index=4, kind="veth", mac="0a:00:00:00:00:03", peer=PeerMac("0a:00:00:00:00:04")),
            EthernetLink(
                name="two", index=5, kind="veth", mac="0a:00:00:00:00:04", up=False, peer=PeerMac("0a:00:00:00:00:03")
            ),
        ],
        neighbours=[_FIRST, Neighbour("fd00::5", "0a:00:00:00:00:05", "azure0", externally_learned=True)],
    )


class LinkLayerContract:
    """The suite as a base class: subclass it, and override `make`."""

    def make(self) -> AbstractContextManager[LinkLayer]:
        """Create a LinkLayer for the host in `contract_view`, and clean up at the end of the `with` block."""
        raise NotImplementedError("override make() so that it yields your LinkLayer")

    # look

    def test_devices(self) -> None:
        """Each device has a kind, a MAC address, a bridge, a state, and the MAC address of the other end."""
        with self.make() as link_layer:
            assert link_layer.look().links == contract_view().links

    def test_neighbours(self) -> None:
        """The neighbours of both families are listed, and whether another program has added them."""
        with self.make() as link_layer:
            assert _permanent(link_layer) == contract_view().neighbours

    # delete_neighbour

    def test_delete(self) -> None:
        """An entry is deleted, the others stay, and it may be deleted again."""
        with self.make() as link_layer:
            for _ in range(2):
                assert link_layer.delete_neighbour(_FIRST) is True
                assert _permanent(link_layer) == contract_view().neighbours[1:]
            assert link_layer.delete_neighbour(contract_view().neighbours[1]) is True
            assert _permanent(link_layer) == ()

    def test_another_entry_stays(self) -> None:
        """An entry that differs in any attribute from the given one is not deleted."""
        with self.make() as link_layer:
            for other in (
                attrs.evolve(_FIRST, mac="0a:00:00:00:00:06"),
                attrs.evolve(_FIRST, state="stale"),
                attrs.evolve(_FIRST, externally_learned=True),
            ):
                assert link_layer.delete_neighbour(other) is False
            assert _permanent(link_layer) == contract_view().neighbours

    def test_delete_what_is_not_there(self) -> None:
        """If the address or the device does not exist, the entry counts as deleted."""
        with self.make() as link_layer:
            assert link_layer.delete_neighbour(attrs.evolve(_FIRST, ip="10.1.0.6")) is True
            assert link_layer.delete_neighbour(attrs.evolve(_FIRST, dev="none")) is True
            assert link_layer.delete_neighbour(attrs.evolve(_FIRST, dev="one")) is True
            assert _permanent(link_layer) == contract_view().neighbours


def _permanent(link_layer: LinkLayer) -> tuple[Neighbour, ...]:
    """The permanent entries; the kernel itself adds others, for multicast."""
    return tuple(neighbour for neighbour in link_layer.look().neighbours if neighbour.state == "permanent")


# Nftables.


def contract_table(name: str = "first") -> str:
    """A text that puts a table with two counters in the place of a former one."""
    return (
        f"add table ip6 {name}\n"
        f"delete table ip6 {name}\n"
        f"table ip6 {name} {{\n"
        '  comment "contract: a table"\n'
        "  chain incoming {\n"
        "    type filter hook prerouting priority -300; policy accept;\n"
        '    iifname != "eth0" return comment "contract: another device"\n'
        '    ip6 saddr fe80::5 counter ip6 saddr set 2001:db8::5 comment "contract: in"\n'
        '    ip6 daddr fe80::6 counter return comment "contract: out"\n'
        "  }\n"
        "}\n"
    )


class NftablesContract:
    """The suite as a base class: subclass it, and override `make`."""

    def make(self) -> AbstractContextManager[Nftables]:
        """Create an Nftables for a host without tables, and clean up at the end of the `with` block."""
        raise NotImplementedError("override make() so that it yields your Nftables")

    def test_there_is_no_table(self) -> None:
        """A table that does not exist is None, and has no name."""
        with self.make() as nft:
            assert nft.listing("first") is None
            assert nft.counts("first") == ()
            assert nft.names() == ()

    def test_what_is_loaded_is_listed(self) -> None:
        """Every table is listed with its family, in order; a listing has the comments and a number for each counter."""
        with self.make() as nft:
            nft.load(contract_table("second"))
            nft.load(contract_table())
            assert nft.names() == (("ip6", "first"), ("ip6", "second"))
            listing = nft.listing("first") or ""
            assert listing.count('comment "contract: ') == 4
            assert "packets" not in listing
            assert nft.counts("first") == (0, 0)

    def test_listed_alike(self) -> None:
        """The same text is listed alike, however often it is loaded, and another text is listed differently."""
        with self.make() as nft:
            nft.load(contract_table())
            before = nft.listing("first")
            nft.load(contract_table())
            assert nft.listing("first") == before
            nft.load(contract_table().replace("fe80::6", "fe80::7"))
            assert nft.listing("first") not in {before, None}

    def test_one_transaction(self) -> None:
        """If one command of a text fails, nothing of the text is done."""
        with self.make() as nft:
            nft.load(contract_table())
            before = nft.listing("first")
            for fault in ("delete table ip6 absent\n", "to be or not to be\n"):
                kind = ""
                try:
                    nft.load(f"delete table ip6 first\n{fault}")
                except HostError as error:
                    kind = error.kind
                assert kind == "refused"
            assert nft.listing("first") == before

    def test_delete(self) -> None:
        """A table is deleted whether it exists or not, if the text adds it first; others stay."""
        with self.make() as nft:
            nft.load(contract_table("second"))
            for name in ("first", "first"):
                nft.load(f"add table ip6 {name}\ndelete table ip6 {name}\n")
            assert nft.names() == (("ip6", "second"),)

    def test_names_with_other_characters(self) -> None:
        """A name that nft would not read as one word raises ValueError."""
        with self.make() as nft:
            for name in ("", "a b", "a;flush ruleset", 'a"', "1st", "\u00e4", "a\n", "x" * 65):
                with _refuses():
                    nft.listing(name)
