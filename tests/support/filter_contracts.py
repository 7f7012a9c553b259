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

from hostrouting.errors import HostError
from hostrouting.kernel.ebtables import Ebtables, nat_rules


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
