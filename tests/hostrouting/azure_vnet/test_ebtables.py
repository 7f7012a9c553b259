"""Ebtables: its promises, on Linux and on the fake; the words of the real programs."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.azure_vnet.ebtables import EbtablesProgram, read_listing
from hostrouting.errors import HostError
from hostrouting.kernel.programs import Ended
from hostrouting.testing import FakeEbtables
from tests.support.azure_rules import LOOK_ALIKES, NODE_RULES, R1, R2, R3, add_rules, addition
from tests.support.examples import scaled
from tests.support.kinds import kind_of, raises
from tests.support.namespace import Namespace, private_namespace
from tests.support.stand_ins import Programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.azure_vnet.ebtables import Ebtables

SNAT = NODE_RULES[1]


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """A namespace for tests that begin with `on_linux`."""
    with private_namespace() as namespace, namespace.inside():
        yield namespace


def on_linux(namespace: Namespace, rules: Sequence[str]) -> Ebtables:
    """The ebtables of the namespace, with these rules only."""
    assert namespace.run("nft", "flush", "ruleset").returncode == 0
    if rules:
        add_rules(namespace, rules)
    return EbtablesProgram()


def outcome(ebtables: Ebtables, deletion: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Delete these rules: the kind and the lines of the error, and what is left."""
    error: HostError | None = None
    try:
        ebtables.delete(deletion)
    except HostError as raised:
        error = raised
    return kind_of(error), sorted(error.lines if error else ()), [*ebtables.list_rules()]


ROWS: dict[str, tuple[list[str], list[str], tuple[str, list[str], list[str]]]] = {
    "as often as given, the first ones": ([R1, R3, R1, R2, R1], [R2, R1, R1], ("", [], [R3, R1])),
    "all": ([R1, R3], [R3, R1], ("", [], [])),
    "none": ([R1], [], ("", [], [R1])),
    "one does not exist": ([R1, R2], [R1, R3, R2], ("no-such-rule", [R3], [R1, R2])),
    "not as often": ([R1, R2], [R1, R1], ("no-such-rule", [R1], [R1, R2])),
    "what is not a rule": ([R1], [f"{R1}\n-F"], ("no-such-rule", [f"{R1}\n-F"], [R1])),
}


@pytest.mark.parametrize("row", ROWS)
def test_delete(row: str) -> None:
    """All given rules are deleted, each as often as it is given, or none;
    the others stay in order. The fake is compared with Linux below.
    """
    rules, deletion, wanted = ROWS[row]
    assert outcome(FakeEbtables(rules), deletion) == wanted


_RULES = st.sampled_from([R1, R2, R3, SNAT])


@pytest.mark.linux
@pytest.mark.needs("root", "ebtables")
class TestOnLinux:
    """The real programs, in a private network namespace."""

    @settings(max_examples=scaled(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(_RULES, max_size=8), st.lists(st.lists(_RULES, min_size=1, max_size=3), max_size=8)
    )
    def test_the_fake_is_equal(
        self, namespace: Namespace, rules: list[str], deletions: list[list[str]]
    ) -> None:
        """After any deletions, both give the same answers, and have the same rules."""
        real, fake = on_linux(namespace, rules), FakeEbtables(rules)
        for deletion in deletions:
            assert outcome(real, deletion) == outcome(fake, deletion)
        assert real.list_rules() == fake.list_rules()

    @settings(max_examples=scaled(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.sampled_from([*LOOK_ALIKES, R1, R2, R3]), min_size=1, max_size=12), st.data()
    )
    def test_any_rules(self, namespace: Namespace, rules: list[str], data: st.DataObject) -> None:
        """Any rules are those of ebtables-save; exactly the given ones are deleted."""
        ebtables = on_linux(namespace, rules)
        before = [*ebtables.list_rules()]
        saved = namespace.run("ebtables-save").stdout
        assert before == re.findall(r"^-A (.*?) ?$", saved, re.MULTILINE)

        deletion = data.draw(st.lists(st.sampled_from(before), max_size=3))
        kind, _, after = outcome(ebtables, deletion)
        if kind:
            assert after == before
        else:
            assert Counter(before) - Counter(after) == Counter(deletion)

    def test_rules_that_ebtables_cannot_read(self, namespace: Namespace) -> None:
        """With rules created by nft in the table nothing is changed, because ebtables may not show
        all rules.
        """
        ebtables = on_linux(namespace, [R1])
        namespace.run("nft", "add rule bridge nat PREROUTING meta mark 5 counter accept")
        before = namespace.run("nft", "list", "ruleset").stdout
        for verb in (ebtables.list_rules, lambda: ebtables.delete([R1])):
            with raises(HostError, "refused", match="Parsing nftables rule failed"):
                verb()
        assert namespace.run("nft", "list", "ruleset").stdout == before

    def test_nothing_is_made_by_reading(self, namespace: Namespace) -> None:
        """Listing the rules creates no table."""
        assert on_linux(namespace, []).list_rules() == ()
        assert namespace.run("nft", "list", "tables").stdout == ""


# What the programs say: real ones said it


class Said(Programs):
    """A stand-in for the programs of ebtables: "save" is ebtables-save, "list" is `ebtables -L`."""

    def key(self, *words: str) -> str:
        """The key of an answer: what the command does."""
        return "list" if "-L" in words else words[0].removeprefix("ebtables-")


def listed(*rules: str) -> str:
    """The output of `ebtables -t nat -L` for these rules of PREROUTING."""
    lines = "".join(f"{rule.removeprefix('PREROUTING ')} \n" for rule in rules)
    chain = f"Bridge chain: PREROUTING, entries: {len(rules)}, policy: ACCEPT\n{lines}"
    return f"Bridge table: nat\n\n{chain}"


def with_rules(*rules: str) -> dict[str, Ended]:
    """What the programs print where these rules exist."""
    return {"save": Ended(0, addition(rules)), "list": Ended(0, listed(*rules))}


LEGACY = "# Generated by ebtables-save v1.0 (legacy) on Sat Nov 21 02:57:00 UTC 2026\n"
UNKNOWN = Ended(0, LEGACY, "grep: /proc/modules: No such file or directory\n")
NO_NFT = Ended(1, err="ebtables Failed to initialize nft: Protocol not supported\n")
INCOMPATIBLE = "# Table `{}' is incompatible, use 'nft' tool.\n"


@pytest.mark.parametrize("saved", [LEGACY, INCOMPATIBLE.format("filter")])
def test_no_table(saved: str) -> None:
    """There are no rules, and nothing else is asked."""
    assert EbtablesProgram(run=Said(save=Ended(0, saved))).list_rules() == ()


DENIED = Ended(4, err="Could not fetch: Permission denied (you must be root)")
UNREADABLE = Ended(3, listed(R1), "Parsing nftables rule failed\n")


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({}, "missing"),
        ({"save": NO_NFT}, "not-loaded"),
        ({"save": UNKNOWN}, "not-loaded"),
        ({"save": Ended(0, INCOMPATIBLE.format("nat"))}, "refused"),
        ({"save": DENIED}, "not-permitted"),
        (with_rules(R1) | {"list": UNREADABLE}, "refused"),
    ],
)
def test_no_rules_is_never_taken_on_trust(answers: dict[str, Ended], kind: str) -> None:
    """Where rules may exist that are not listed, nothing is listed and nothing is deleted."""
    said = Said(**answers)
    ebtables = EbtablesProgram(run=said)
    for verb in (ebtables.list_rules, lambda: ebtables.delete([R1])):
        with raises(HostError, kind):
            verb()
    assert not any("restore" in words[0] for words, _ in said.asked)


FAILED = Ended(
    1, err="ebtables-restore v1.8.9 (nf_tables): ebtables-restore: final implicit COMMIT failed\n"
)


def test_what_is_run() -> None:
    """One batch is restored without a flush."""
    said = Said(**with_rules(R1, R2), restore=Ended(0))
    EbtablesProgram(run=said).delete([R2, R1])
    assert [asked for asked in said.asked if "restore" in asked[0][0]] == [
        (("ebtables-restore", "--noflush"), f"*nat\n-D {R2}\n-D {R1}\n")
    ]
    EbtablesProgram(run=Said()).delete([])  # runs nothing


def test_a_deletion_that_fails() -> None:
    """It is an error, and is not tried again."""
    said = Said(**with_rules(R1), restore=[FAILED])
    with raises(HostError, "refused"):
        EbtablesProgram(run=said).delete([R1])
    assert sum("restore" in words[0] for words, _ in said.asked) == 1


def test_a_listing() -> None:
    """Empty chains, chains of the administrator and rules that end with a space are read."""
    listing = listed(R1, "PREROUTING -j CONTINUE")
    listing += "\nBridge chain: OUTPUT, entries: 0, policy: ACCEPT\n"
    listing += "\nBridge chain: mine, entries: 1, policy: RETURN\n-p IPv4 -j DROP \n"
    assert read_listing(listing) == (R1, "PREROUTING -j CONTINUE", "mine -p IPv4 -j DROP")
