"""The program nft: the commands, and how its output is handled; the contract of Nftables on Linux."""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, settings

from hostrouting.errors import (
    ProgramError,
)
from hostrouting.kernel.nftables import Chain, Counter, Match, NftProgram, Rule, Table, Verdict
from hostrouting.kernel.programs import Ended
from hostrouting.testing.filter_contracts import NftablesContract, contract_table
from hostrouting.testing.nftables_strategies import tables
from tests.support.examples import scaled
from tests.support.kinds import raises
from tests.support.namespace import Namespace, private_namespace
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


DENIED = "internal:0:0-0: Error: Could not process rule: Operation not permitted\n\n"
OWNED = "table ip6 first { # progname nft\n\tflags owner\n}\n"


class Said:
    """A stand-in for the programs of the host: it gives prepared answers by command, and records the calls."""

    def __init__(self, **answers: Ended | OSError) -> None:
        """Answer this to a JSON command, to `text`, the text listing, and to `names`."""
        self.answers = answers
        self.asked: list[tuple[tuple[str, ...], str]] = []
        self.environment: Mapping[str, str] = {}

    def __call__(
        self, *words: str, timeout: float, text: str = "", environment: Mapping[str, str] | None = None
    ) -> Ended:
        """See Run."""
        assert timeout == 10
        self.asked.append((words, text))
        self.environment = environment or {}
        answer = self.answers["json" if "-f" in words else "names" if "tables" in words else "text"]
        if isinstance(answer, OSError):
            raise answer
        return answer


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


@pytest.mark.linux
def test_a_program_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program nft has as much time as was given."""
    (tmp_path / "nft").write_text("#!/bin/sh\n/bin/sleep 60\n", encoding="utf-8")
    (tmp_path / "nft").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(ProgramError, "timeout", match=r"nft did not list the tables within 0\.1 s"):
        NftProgram(timeout=0.1).names()


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

    def test_ours_in_the_words_of_a_script(self, namespace: Namespace, tmp_path: Path) -> None:
        """Names of ICMPv6 types, braces around one value, and adjacent values in a set are read by their meaning."""
        (tmp_path / "text").write_text(
            "table ip6 first { chain c {\n"
            'icmpv6 type { nd-redirect, mld-listener-done } oifname { "eth0" } return\n'
            "ip6 saddr { fe80::/65, fe80:0:0:0:8000::/65, 2001:db8::2, 2001:db8::3 } counter\n"
            "}; }\n",
            encoding="utf-8",
        )
        assert namespace.run("nft", "-f", str(tmp_path / "text")).stderr == ""
        rules = [
            Rule([Match("icmpv6 type", [132, 137]), Match("oifname", ["eth0"]), Verdict("return")]),
            Rule([Match("ip6 saddr", ["fe80::/64", "2001:db8::2/127"]), Counter()]),
        ]
        assert NftProgram(words=namespace.enter).table("first") == Table("first", [Chain("c", rules)])

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

    def test_dormant(self, namespace: Namespace) -> None:
        """A dormant table is found and unreadable, with its flag; it hides no other, and can be replaced."""
        nft = NftProgram(words=namespace.enter)
        nft.replace(contract_table())
        assert namespace.run("nft", "add table ip6 first { flags dormant; }").stderr == ""
        found = nft.table("first")
        assert found is not None
        assert found.flags == ("dormant",)
        assert nft.names() == (("ip6", "first"),)
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

    def test_priority(self, namespace: Namespace) -> None:
        """A chain can be replaced by one with another priority, hook and policy."""
        nft = NftProgram(words=namespace.enter)
        for hook, priority, policy in (("prerouting", -300, "accept"), ("input", -299, "drop")):
            wanted = Table("first", [Chain("c", [], hook=hook, priority=priority, policy=policy)])
            nft.replace(wanted)
            assert nft.table("first") == wanted

    def test_other_tables_stay(self, namespace: Namespace) -> None:
        """A table with another name or family stays unchanged to the byte, including its handles."""
        nft = NftProgram(words=namespace.enter)
        for text in (
            "inet first { counter c { packets 5 bytes 7; }; }",
            "ip6 other { chain c { drop; }; }",
            "ip first",
        ):
            assert namespace.run("nft", f"add table {text}").stderr == ""
        before = namespace.run("nft", "-a", "list", "ruleset").stdout
        for _ in range(3):
            nft.replace(contract_table(), without=["second"])
        nft.remove("first", "second")
        assert namespace.run("nft", "-a", "list", "ruleset").stdout == before
        assert nft.names() == (("inet", "first"), ("ip", "first"), ("ip6", "other"))

    def test_counted(self, namespace: Namespace) -> None:
        """The packet counts are read in the order of the rules, and are not part of the table."""
        rules = [f"counter packets {number} bytes 9 return" for number in (3, 5)]
        assert namespace.run("nft", f"add table ip6 first {{ chain c {{ {'; '.join(rules)}; }}; }}").stderr == ""
        nft = NftProgram(words=namespace.enter)
        assert nft.counters("first") == (3, 5)
        rule = Rule([Counter(), Verdict("return")])
        assert nft.table("first") == Table("first", [Chain("c", [rule, rule])])

    def test_nobody_meets_half_a_table(self, namespace: Namespace) -> None:
        """While a table is replaced 50 times, a reader always sees one of the two tables, whole."""
        nft = NftProgram(words=namespace.enter)
        one = contract_table()
        other = Table(
            "first", [attrs.evolve(chain, priority=chain.priority + 5 * bool(chain.hook)) for chain in one.chains]
        )
        nft.replace(one)
        met: list[Table | None] = []
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                met.append(nft.table("first"))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            for number in range(50):
                nft.replace(other if number % 2 else one)
        finally:
            over.set()
            thread.join()
        assert set(met) == {one, other}


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
