"""The promises of Ebtables as tests, for any way to ebtables: real, fake, or your own.

Here: what `hostrouting.ebtables.base` promises, one test for each sentence that its own verbs can check. Not here: a
host with two backends, and an ebtables that is missing or refuses.

Subclass it where pytest finds it, and say how one is made::

    class TestMine(EbtablesContract):
        @contextmanager
        def make(self) -> Iterator[Ebtables]:
            yield MyEbtables()

Each test gets a new one, of a host without any rule.
"""

# Here as in any test, assert is how a promise is checked.
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
"""Rules of the table nat in the spelling of ebtables-save."""

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
        """A new way to the ebtables of a host without rules, and its end."""
        raise NotImplementedError("say how yours is made")

    # reading

    def test_there_are_no_rules(self) -> None:
        """A host without rules has none in the text."""
        with self.make() as ebtables:
            assert nat_rules(ebtables.save()) == ()

    def test_what_was_added_is_read_back(self) -> None:
        """Rules are read as they were added: in their order, with duplicates, chain by chain."""
        with self.make() as ebtables:
            ebtables.add([_SNAT, _ARP, _IPV4, _IPV6, _ARP])
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4, _IPV6, _ARP, _SNAT)

    def test_a_backend_by_its_name(self) -> None:
        """The backend that has the rules is found without its name, whatever was named before."""
        with self.make() as ebtables:
            ebtables.add([_ARP])
            assert nat_rules(ebtables.of("auto").save()) == (_ARP,)
            assert nat_rules(ebtables.of("legacy").of("auto").save()) == (_ARP,)

    # add

    def test_added_rules_come_last(self) -> None:
        """What is added stands at the end of its chain, also where the same rule is there."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV4])
            ebtables.add([_ARP])
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4, _ARP)

    # delete

    def test_delete(self) -> None:
        """Those rules are gone, each once for each time it is given, and others stay in their order."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV6, _ARP, _IPV4, _ARP])
            ebtables.delete([_IPV4, _ARP, _ARP])
            assert nat_rules(ebtables.save()) == (_IPV6, _ARP)
            ebtables.delete([_ARP, _IPV6])
            assert nat_rules(ebtables.save()) == ()

    def test_all_or_nothing(self) -> None:
        """Where one rule is not there, or not as often, nothing is deleted, and the error names what is missing."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV4])
            with _lacks(_IPV6):
                ebtables.delete([_ARP, _IPV6, _IPV4])
            with _lacks(_ARP):
                ebtables.delete([_ARP, _ARP])
            assert nat_rules(ebtables.save()) == (_ARP, _IPV4)

    def test_delete_one(self) -> None:
        """One rule is deleted, one of its duplicates stays, and a rule that is not there is False."""
        with self.make() as ebtables:
            ebtables.add([_ARP, _IPV4, _ARP])
            assert ebtables.delete_one(_ARP) is True
            assert nat_rules(ebtables.save()) == (_IPV4, _ARP)
            assert ebtables.delete_one(_ARP) is True
            assert ebtables.delete_one(_ARP) is False
            assert nat_rules(ebtables.save()) == (_IPV4,)

    def test_rules_that_ebtables_does_not_tell_apart(self) -> None:
        """A rule stays where ebtables might take one with another source for it, and so does the other."""
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
        """To add or to delete nothing is fine."""
        with self.make() as ebtables:
            ebtables.add([_ARP])
            ebtables.add([])
            ebtables.delete([])
            assert nat_rules(ebtables.save()) == (_ARP,)

    # what is not a rule

    def test_lines_that_are_no_rules(self) -> None:
        """What ebtables-restore would read as something else than a rule is a ValueError, and nothing has been done."""
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
