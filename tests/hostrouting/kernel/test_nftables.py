"""The program nft: the commands, and how its output is handled; the contract of Nftables on Linux."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from hostrouting.errors import HostError
from hostrouting.kernel.nftables import NftProgram
from hostrouting.kernel.programs import Ended
from tests.support.filter_contracts import NftablesContract, contract_table
from tests.support.namespace import private_namespace

DENIED = "internal:0:0-0: Error: Could not process rule: Operation not permitted\n\n"


class Said:
    """A stand-in for nft: it gives one prepared answer, and records the calls."""

    def __init__(self, answer: Ended | OSError) -> None:
        """Answer this to every command."""
        self.answer = answer
        self.asked: list[tuple[tuple[str, ...], str]] = []

    def __call__(
        self, *words: str, timeout: float, text: str = "", environment: Mapping[str, str] | None = None
    ) -> Ended:
        """See Run."""
        assert (timeout, (environment or {}).get("LC_ALL")) == (10, "C")
        self.asked.append((words, text))
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (FileNotFoundError(2, "nft"), "missing", "the program nft was not found; install the package nftables"),
        (TimeoutError("late"), "timeout", "within 10 s; check that `nft list tables` answers"),
        (PermissionError(13, "Permission denied"), "refused", r"nft could not be run \(nft: Permission denied\)"),
        (Ended(1, err="Operation not permitted (you must be root)\n"), "not-permitted", "run it as root"),
        (Ended(1, err=DENIED), "not-permitted", "or another process owns the table"),
        (Ended(1, err="internal:0:0-0: Error: strange\n\n"), "refused", r"\(nft: Error: strange\)"),
        (Ended(1), "refused", "nft printed no message"),
        (Ended(-9), "refused", "the program was killed by SIGKILL"),
    ],
    ids=str,
)
def test_errors(answer: Ended | OSError, kind: str, words: str) -> None:
    """Each kind of failure has its own error, in every verb, with the remedy or with nft's own text."""
    nft = NftProgram(run=Said(answer))
    verbs: list[Callable[[], Any]] = [
        lambda: nft.load("x"),
        lambda: nft.listing("a"),
        lambda: nft.counts("a"),
        nft.names,
    ]
    for verb in verbs:
        with pytest.raises(HostError, match=words) as caught:
            verb()
        assert (caught.value.kind, caught.value.can_retry) == (kind, kind == "timeout")


def test_what_is_run() -> None:
    """Nothing but the requested table is listed, and a text is passed on as it is."""
    said = Said(Ended(0, "table ip6 a b\ntable inet c\nstrange\n"))
    nft = NftProgram(run=said)
    nft.load("text\n")
    nft.listing("first")
    assert nft.names() == (("inet", "c"), ("ip6", "a b"))
    assert said.asked == [
        (("nft", "-f", "-"), "text\n"),
        (("nft", "--numeric", "--stateless", "list", "table", "ip6", "first"), ""),
        (("nft", "list", "tables"), ""),
    ]


@pytest.mark.linux
@pytest.mark.needs("root", "nft")
class TestNftProgram(NftablesContract):
    """Every promise, on Linux."""

    @contextmanager
    def make(self) -> Iterator[NftProgram]:
        """In a network namespace of its own."""
        with private_namespace() as namespace:
            yield NftProgram(words=namespace.enter)

    @pytest.mark.parametrize("change", ["flush table ip6 first", "add table ip6 first { flags dormant; }"])
    def test_a_change_of_another_program(self, change: str) -> None:
        """A table that another program has emptied or put to sleep is listed differently, and still has its comment."""
        with self.make() as nft:
            nft.load(contract_table())
            before = nft.listing("first")
            nft.load(change)
            after = nft.listing("first") or ""
            assert after != before
            assert 'comment "contract: ' in after
