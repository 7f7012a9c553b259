"""The contract suite of Ebtables, for any implementation: the real one, the fake, or your own.

Here: the promises of `hostrouting.ebtables.base` that its own methods can check, one test for each sentence. Not here:
a host with two backends, and an ebtables that is missing or refuses.

Subclass it in a module that pytest collects, and override `make` to create an object::

    class TestMine(EbtablesContract):
        @contextmanager
        def make(self) -> Iterator[Ebtables]:
            yield MyEbtables()

Each test gets a new object, for a host without rules.
"""

# These are tests, so they use assert.
# ruff: noqa: S101
from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from hostrouting.ebtables.saved import nat_rules
from hostrouting.errors import AmbiguousRule, BadRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from hostrouting.ebtables.base import Ebtables

__all__ = ["CONTRACT_RULES", "EbtablesContract"]

CONTRACT_RULES = (
    "PREROUTING -p ARP --arp-op Request --arp-ip-dst 10.1.0.5 -j arpreply --arpreply-mac 0a:0b:0c:0d:0e:05",
    "PREROUTING -p IPv4 -i eth0 --ip-dst 10.1.0.5 -j dnat --to-dst 0a:0b:0c:0d:0e:05 --dnat-target ACCEPT",
    "PREROUTING -p IPv6 -i eth0 --ip6-dst fd00::5 -j dnat --to-dst 0a:0b:0c:0d:0e:05 --dnat-target ACCEPT",
    "POSTROUTING -s Unicast -o eth0 -j snat --to-src 0a:0b:0c:0d:0e:0f --snat-arp --snat-target ACCEPT",
)
"""Rules of the table nat as ebtables-save prints them."""

_ARP, _IPV4, _IPV6, _SNAT = CONTRACT_RULES


@contextmanager
def _refuses() -> Iterator[None]:
    try:
        yield
    except ValueError:
        return
    raise AssertionError("ValueError was not raised")


@contextmanager
def _lacks(*lines: str) -> Iterator[None]:
    found: tuple[str, ...] = ()
    try:
        yield
    except BadRule as error:
        found = error.lines
    assert sorted(found) == sorted(lines)


@contextmanager
def _ambiguous() -> Iterator[None]:
    try:
        yield
    except AmbiguousRule:
        return
    raise AssertionError("AmbiguousRule was not raised")


class EbtablesContract:
    """Subclass it, and override `make`."""

    def make(self) -> AbstractContextManager[Ebtables]:
        """Create an Ebtables for a host without rules, and clean up at the end of the `with` block."""
        raise NotImplementedError("override make() so that it yields your Ebtables")

    # reading

    def test_there_are_no_rules(self) -> None:
        """On a host without rules, the text contains no rules."""
        with self.make() as ebtables:
            assert nat_rules(ebtables.save()) == ()

    def test_what_was_added_is_read_back(self) -> None:
        """Rules are read back as they were added: in order, with duplicates, chain by chain."""
        with self.make() as ebtables:
            ebtables.add([_SNAT, _ARP, _IPV4, _IPV6, _ARP])
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4, _IPV6, _ARP, _SNAT)

    def test_a_backend_by_its_name(self) -> None:
        """`of("auto")` finds the backend that has the rules, whichever backend was named before."""
        with self.make() as ebtables:
            ebtables.add([_ARP])
            assert nat_rules(ebtables.of("auto").save()) == (_ARP,)
            assert nat_rules(ebtables.of("legacy").of("auto").save()) == (_ARP,)

    # add

    def test_added_rules_come_last(self) -> None:
        """Rules are added at the end of their chain, even if the same rule exists."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV4])
            ebtables.add([_ARP])
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4, _ARP)

    # delete

    def test_delete(self) -> None:
        """Each given rule is deleted as often as it is given; the others stay in order."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV6, _ARP, _IPV4, _ARP])
            ebtables.delete([_IPV4, _ARP, _ARP])
            assert nat_rules(ebtables.save()) == (_IPV6, _ARP)
            ebtables.delete([_ARP, _IPV6])
            assert nat_rules(ebtables.save()) == ()

    def test_all_or_nothing(self) -> None:
        """If a rule does not exist, or not as often as given, nothing is deleted, and the error names that rule."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV4])
            with _lacks(_IPV6):
                ebtables.delete([_ARP, _IPV6, _IPV4])
            with _lacks(_ARP):
                ebtables.delete([_ARP, _ARP])
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4)

    def test_delete_one(self) -> None:
        """`delete_one` deletes one rule and leaves its duplicates; it returns False if the rule does not exist."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV4, _ARP])
            assert ebtables.delete_one(_ARP) is True
            assert nat_rules(ebtables.save()) == (_IPV4, _ARP)
            assert ebtables.delete_one(_ARP) is True
            assert ebtables.delete_one(_ARP) is False
            assert nat_rules(ebtables.save()) == (_IPV4,)

    def test_rules_that_ebtables_does_not_tell_apart(self) -> None:
        """If ebtables cannot distinguish two rules, because only their source differs, neither is deleted."""
        twin = _IPV4.replace(" -i ", " -s Unicast -i ")
        with self.make() as ebtables:
            ebtables.add([twin, _IPV4, _IPV6])
            verbs: list[Callable[[], object]] = [
                partial(ebtables.delete, [_IPV6, _IPV4]),
                partial(ebtables.delete, [twin, _IPV4]),
            ]
            for verb in verbs:
                with _ambiguous():
                    verb()
            assert ebtables.delete_one(_IPV4) is False
            assert ebtables.delete_one(twin) is False
            assert nat_rules(ebtables.save()) == (twin, _IPV4, _IPV6)
            assert ebtables.delete_one(_IPV6) is True

    def test_nothing_to_do(self) -> None:
        """Empty lists are allowed in `add` and `delete`."""
        with self.make() as ebtables:
            ebtables.add([_ARP])
            ebtables.add([])
            ebtables.delete([])
            assert nat_rules(ebtables.save()) == (_ARP,)

    # what is not a rule

    def test_lines_that_are_no_rules(self) -> None:
        """A line that ebtables-restore would not parse as a rule raises ValueError, and nothing is changed."""
        with self.make() as ebtables:
            ebtables.add([_ARP])
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
                verbs: list[Callable[[], object]] = [
                    partial(ebtables.delete, [_ARP, line]),
                    partial(ebtables.delete_one, line),
                    partial(ebtables.add, [_IPV4, line]),
                ]
                for verb in verbs:
                    with _refuses():
                        verb()
            assert nat_rules(ebtables.save()) == (_ARP,)
