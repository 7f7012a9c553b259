"""The program nft: the commands, and how its output is handled; the contract of Nftables on Linux."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from hostrouting.errors import ProgramError
from hostrouting.kernel.nftables import NftProgram, Table
from hostrouting.kernel.programs import Ended
from hostrouting.testing.filter_contracts import NftablesContract, contract_table
from hostrouting.testing.nftables_strategies import tables
from tests.support.examples import scaled
from tests.support.kinds import raises
from tests.support.namespace import Namespace, private_namespace
from tests.support.stand_ins import Programs
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


DENIED = "internal:0:0-0: Error: Could not process rule: Operation not permitted\n\n"
OWNED = "table ip6 first { # progname nft\n\tflags owner\n}\n"


class Said(Programs):
    """A stand-in for nft: it answers `json` to a JSON command, `text` to the text listing, and `names`."""

    def key(self, *words: str) -> str:
        """By what is asked."""
        return "json" if "-f" in words else "names" if "tables" in words else "text"


def every_verb(nft: NftProgram) -> list[Callable[[], Any]]:
    """Each verb, ready to be called."""
    return [
        lambda: nft.table("first"),
        lambda: nft.counters("first"),
        nft.names,
        lambda: nft.replace(contract_table()),
        lambda: nft.remove("first"),
    ]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (FileNotFoundError(2, "nft"), "missing", "the program nft is not in PATH; install the package nftables"),
        (TimeoutError("late"), "timeout", "within 10 s; check that `nft list tables` answers"),
        (PermissionError(13, "Permission denied"), "refused", r"nft could not be run \(nft: Permission denied\)"),
        (Ended(1, err="JSON support not compiled-in\n"), "too-old", "has no JSON support, which exists since 0.9.0"),
        (Ended(1, err="nft: invalid option -- 'j'\n"), "too-old", "install a newer package nftables"),
        (Ended(1, err="Operation not permitted (you must be root)\n"), "not-permitted", "run it as root"),
        (Ended(1, err=DENIED), "not-permitted", "may not read or change nftables"),
        (Ended(1, err="internal:0:0-0: Error: strange\n\n"), "refused", r"\(nft: Error: strange\)"),
        (Ended(1), "refused", "nft printed no message"),
        (Ended(-9), "refused", "the program was killed by SIGKILL"),
    ],
    ids=str,
)
def test_errors(answer: Ended | OSError, kind: str, words: str) -> None:
    """Each kind of failure has its own error, in every verb, with the remedy or with nft's own text."""
    for verb in every_verb(NftProgram(run=Said(json=answer, text=answer, names=answer))):
        with pytest.raises(ProgramError, match=words) as caught:
            verb()
        assert caught.value.kind == kind
        assert caught.value.can_retry is (kind == "timeout")


def test_owned() -> None:
    """If a change is not permitted because another process owns the table, the error names that process."""
    said = Said(json=Ended(1, err=DENIED), text=Ended(0, OWNED))
    for verb in every_verb(NftProgram(run=said))[3:]:
        with raises(ProgramError, "owned", match=r"ip6 first is owned by another process \(nft\), and only its owner"):
            verb()
    with raises(ProgramError, "owned", match="ip6 old is owned"):
        NftProgram(run=Said(json=Ended(1, err=DENIED), text=Ended(0, OWNED))).remove("old")


def test_what_is_run() -> None:
    """The program is run with an argument list in the C locale, and lists only the rules of the requested table."""
    said = Said(json=Ended(0), names=Ended(0, "table ip6 a b\ntable inet c\nstrange\n"), text=Ended(1))
    nft = NftProgram(run=said)
    nft.replace(contract_table())
    nft.remove("first")
    nft.table("first")
    assert nft.names() == (("inet", "c"), ("ip6", "a b"))
    assert {words for words, _ in said.asked} == {
        ("nft", "-j", "-f", "-"),
        ("nft", "-s", "list", "table", "ip6", "first"),
        ("nft", "list", "tables"),
    }
    assert said.environment["LC_ALL"] == "C"
    assert "PATH" in said.environment
    assert all(json.loads(text)["nftables"] for words, text in said.asked if "-f" in words)


def test_nothing_is_run_without_a_need() -> None:
    """Removing nothing, and creating unsupported tables, runs no program."""
    said = Said()
    NftProgram(run=said).remove()
    with pytest.raises(ValueError, match=r"'a b' is not a valid table or chain name"):
        NftProgram(run=said).table("a b")
    assert said.asked == []


def test_unreadable() -> None:
    """A truncated listing gives an unreadable table, with the flags of the text listing."""
    cut = '{"nftables": [{"table": {"family": "ip6", "name": "first", "handle": 1, "flags": '
    for text, flags in (
        (Ended(0, "table ip6 first {\n\tflags dormant,owner\n}\n"), ("dormant", "owner")),
        (Ended(1, err="Error: syntax error"), ()),
        (Ended(0, "table ip6 first {\n}\n"), ()),
    ):
        nft = NftProgram(run=Said(json=Ended(0, cut), text=text))
        assert nft.table("first") == Table("first", flags=flags, is_readable=False)
        assert nft.counters("first") == ()


@pytest.fixture(scope="module")
def shared() -> Iterator[Namespace]:
    """A namespace for tests that begin by flushing it."""
    with private_namespace() as namespace:
        yield namespace


@pytest.fixture
def namespace(shared: Namespace) -> Namespace:
    """A namespace without tables."""
    assert shared.run("nft", "flush", "ruleset").returncode == 0
    return shared


@pytest.mark.needs("root", "nft")
@pytest.mark.linux
class TestOnLinux:
    """The real nft, in a private network namespace."""

    @settings(max_examples=scaled(15))
    @given(tables())
    def test_any_table(self, shared: Namespace, table: Table) -> None:
        """Any table that we would create loads, lists back equal, and can be removed."""
        nft = NftProgram(words=shared.enter)
        nft.replace(table)
        assert nft.table(table.name) == table
        nft.remove(table.name)

    def test_its_text(self, namespace: Namespace, tmp_path: Path) -> None:
        """The text of a table is what nft prints, and nft creates the same table from it."""
        nft = NftProgram(words=namespace.enter)
        nft.replace(contract_table())
        assert namespace.run("nft", "-n", "-s", "list", "table", "ip6", "first").stdout == f"{contract_table()}\n"
        nft.remove("first")
        (tmp_path / "text").write_text(str(contract_table()), encoding="utf-8")
        assert namespace.run("nft", "-f", str(tmp_path / "text")).stderr == ""
        assert nft.table("first") == contract_table()

    @pytest.mark.parametrize(
        "change",
        [
            "add rule ip6 first outgoing drop",
            "insert rule ip6 first incoming accept",
            "add rule ip6 first outgoing jump spare",
            'insert rule ip6 first incoming iifname "eth*" return',
            "add rule ip6 first spare counter",
            "flush chain ip6 first outgoing",
            "delete chain ip6 first spare",
            "add chain ip6 first more { type filter hook input priority 5; policy drop; }",
            "add chain ip6 first outgoing { policy drop; }",
            "add set ip6 first more { type ipv6_addr; }",
            "add counter ip6 first more",
            "add table ip6 first { flags dormant; }",
            "flush ruleset",
        ],
    )
    def test_every_change_is_seen(self, namespace: Namespace, change: str) -> None:
        """Any change to a table makes it unequal, and replacing the table repairs it."""
        nft = NftProgram(words=namespace.enter)
        nft.replace(contract_table())
        assert namespace.run("nft", change).stderr == ""
        assert nft.table("first") != contract_table()
        nft.replace(contract_table())
        assert nft.table("first") == contract_table()

    def test_another_owner(self, namespace: Namespace) -> None:
        """A table that another process owns stays unchanged, and so do those in the same transaction."""
        nft = NftProgram(words=namespace.enter)
        with an_owner(namespace, "mine"):
            nft.replace(contract_table())
            verbs: list[Callable[[], None]] = [
                lambda: nft.replace(Table("mine")),
                lambda: nft.replace(Table("first"), without=["mine"]),
                lambda: nft.remove("first", "mine"),
            ]
            for verb in verbs:
                with raises(ProgramError, "owned", match=r"ip6 mine is owned by another process \(nft\)"):
                    verb()
            assert nft.table("first") == contract_table()
            found = nft.table("mine")
            assert found is not None
            assert found.flags == ("owner",)

    @pytest.mark.parametrize("less", [["unshare", "--user"], ["setpriv", "--bounding-set=-net_admin"]], ids=str)
    def test_without_privilege(self, namespace: Namespace, less: list[str]) -> None:
        """A process without the privilege is told so by every verb."""
        for verb in every_verb(NftProgram(words=[*namespace.enter, *less])):
            with raises(ProgramError, "not-permitted"):
                verb()


@contextmanager
def an_owner(namespace: Namespace, name: str) -> Iterator[None]:
    """Another process that owns an empty table of this name."""
    owner = subprocess.Popen(
        [*namespace.enter, "nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert owner.stdin is not None
    try:
        owner.stdin.write(f"add table ip6 {name} {{ flags owner; }}\n")
        owner.stdin.flush()
        wait_for("the table", lambda: f"table ip6 {name}" in namespace.run("nft", "list", "tables").stdout)
        yield
    finally:
        owner.stdin.close()
        owner.wait()


# The contract of Nftables, on nft and Linux, in a private network namespace for each test


@pytest.mark.linux
@pytest.mark.needs("root", "nft")
class TestNftProgram(NftablesContract):
    """Every promise, on the real kernel."""

    @contextmanager
    def make(self) -> Iterator[NftProgram]:
        """The nft of this machine in a namespace without tables."""
        with private_namespace() as namespace:
            yield NftProgram(words=namespace.enter)
