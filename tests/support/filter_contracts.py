"""The contract suites of ebtables and the link layer, for the real implementations and the fake ones.

Here: the promises of Ebtables and LinkLayer (`hostrouting.kernel`) that their own methods can check, one
test for each sentence. Not here: a host with two ebtables backends, veths whose
other end cannot be read, and programs that are missing or refuse.

Subclass one in a module that pytest collects, and override `make`; each test gets a new object, for a host with
some rules, or for LinkLayer the host that `contract_view` describes::

    class TestMine(EbtablesContract):
        @contextmanager
        def make(self, *rules: str) -> Iterator[Ebtables]:
            yield MyEbtables(rules)
"""

# These are tests, so they use assert.
from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import attrs

from hostrouting.errors import HostError
from hostrouting.kernel.ebtables import Ebtables, nat_rules
from hostrouting.kernel.neighbours import EthernetLink, LinkLayer, LinkLayerView, Neighbour, PeerMac


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
