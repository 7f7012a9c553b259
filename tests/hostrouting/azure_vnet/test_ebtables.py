"""Ebtables: its promises, on Linux and on the fake; the words of the real programs; backends and
versions of it.
"""

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


def texts(ebtables: Ebtables) -> list[str]:
    """The texts of the rules."""
    return [rule.text for rule in ebtables.list_rules()]


def outcome(ebtables: Ebtables, deletion: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Delete these rules: the kind and the lines of the error, and what is left."""
    error: HostError | None = None
    try:
        ebtables.delete(deletion)
    except HostError as raised:
        error = raised
    return kind_of(error), sorted(error.lines if error else ()), texts(ebtables)


_RULES = st.sampled_from([R1, R2, R3, SNAT])


@pytest.mark.linux
@pytest.mark.needs("root", "ebtables-nft")
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
        before = texts(ebtables)
        saved = namespace.run("ebtables-nft-save").stdout
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


# Backends and versions: the programs say what real ones said


class Said(Programs):
    """A stand-in for the programs of ebtables: "nft_save" is ebtables-nft-save, "nft_list" is
    `ebtables-nft -L`.
    """

    def key(self, *words: str) -> str:
        """The key of an answer: what the command does, and for which backend."""
        name = words[0].removeprefix("ebtables-").replace("-", "_")
        return f"{name}_list" if "-L" in words else name


def listed(*rules: str) -> str:
    """The output of `ebtables -t nat -L` for these rules of PREROUTING."""
    lines = "".join(f"{rule.removeprefix('PREROUTING ')} \n" for rule in rules)
    chain = f"Bridge chain: PREROUTING, entries: {len(rules)}, policy: ACCEPT\n{lines}"
    return f"Bridge table: nat\n\n{chain}"


def nft(*rules: str) -> dict[str, Ended]:
    """The programs of backend nft, with these rules."""
    return {"nft_save": Ended(0, addition(rules)), "nft_list": Ended(0, listed(*rules))}


def legacy(*rules: str) -> dict[str, Ended]:
    """The programs of backend legacy, with these rules; its ebtables-save runs the program of the
    other backend.
    """
    return {
        "legacy_save": Ended(0, f"{HEADER}*nat\n:PREROUTING ACCEPT\n"),
        "legacy_list": Ended(0, listed(*rules)),
    }


HEADER = "# Generated by ebtables-save v1.0 (legacy) on Sat Nov 21 02:57:00 UTC 2026\n"
NOT_LOADED = {"legacy_save": Ended(0, HEADER)}
UNKNOWN = {"legacy_save": Ended(0, HEADER, "grep: /proc/modules: No such file or directory\n")}
NO_NFT = {"nft_save": Ended(1, err="ebtables Failed to initialize nft: Protocol not supported\n")}
INCOMPATIBLE = "# Table `{}' is incompatible, use 'nft' tool.\n"


@pytest.mark.parametrize(
    ("answers", "rules"),
    [
        (nft(R1) | NOT_LOADED, [("ebtables-nft", R1)]),
        (nft(R1) | UNKNOWN, [("ebtables-nft", R1)]),
        (nft() | legacy(R1), [("ebtables-legacy", R1)]),
        (NO_NFT | legacy(R1), [("ebtables-legacy", R1)]),
        ({"nft_save": Ended(0, INCOMPATIBLE.format("filter"))} | NOT_LOADED, []),
        (nft() | legacy(), []),
        (NOT_LOADED, []),
    ],
)
def test_the_backend_that_has_the_rules(
    answers: dict[str, Ended], rules: list[tuple[str, str]]
) -> None:
    """The rules are those of the backend that has some, and name its program; without a table there
    are none.
    """
    said = Said(**answers)
    assert [(rule.program, rule.text) for rule in EbtablesProgram(run=said).list_rules()] == rules


DENIED = Ended(4, err="Could not fetch: Permission denied (you must be root)")
UNREADABLE = Ended(3, listed(R1), "Parsing nftables rule failed\n")


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({}, "missing"),
        (NO_NFT | UNKNOWN, "not-loaded"),
        (nft(R1) | legacy(R2, R2), "wrong-backend"),
        ({"nft_save": Ended(0, INCOMPATIBLE.format("nat"))}, "refused"),
        ({"nft_save": DENIED}, "not-permitted"),
        (legacy(R1) | {"nft_save": DENIED}, "not-permitted"),
        (nft(R1) | {"nft_list": UNREADABLE}, "refused"),
    ],
)
def test_no_rules_is_never_taken_on_trust(answers: dict[str, Ended], kind: str) -> None:
    """Where rules may exist that are not listed, or in both backends, nothing is listed and nothing
    is deleted.
    """
    said = Said(**answers)
    ebtables = EbtablesProgram(run=said)
    for verb in (ebtables.list_rules, lambda: ebtables.delete([R1])):
        with raises(HostError, kind):
            verb()
    assert not any("restore" in words[0] for words, _ in said.asked)


def test_what_is_run() -> None:
    """One batch is restored without a flush, by the program that listed the rules; nothing, if it
    has not listed one of them.
    """
    said = Said(**legacy(R1, R2), legacy_restore=Ended(0))
    with raises(HostError, "no-such-rule") as caught:
        EbtablesProgram(run=said).delete([R1, R3])
    assert caught.value.lines == (R3,)
    EbtablesProgram(run=said).delete([R2, R1])
    assert [asked for asked in said.asked if "restore" in asked[0][0]] == [
        (("ebtables-legacy-restore", "--noflush"), f"*nat\n-D {R2}\n-D {R1}\n")
    ]
    EbtablesProgram(run=Said()).delete([])  # runs nothing


def test_a_listing_of_legacy_ebtables() -> None:
    """Empty chains, chains of the administrator and rules that end with a space are read."""
    listing = listed(R1, "PREROUTING -j CONTINUE")
    listing += "\nBridge chain: OUTPUT, entries: 0, policy: ACCEPT\n"
    listing += "\nBridge chain: mine, entries: 1, policy: RETURN\n-p IPv4 -j DROP \n"
    rules = [R1, "PREROUTING -j CONTINUE", "mine -p IPv4 -j DROP"]
    assert [rule.text for rule in read_listing(listing, "ebtables-legacy")] == rules
