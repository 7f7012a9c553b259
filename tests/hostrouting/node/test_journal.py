"""hostrouting.node.journal: the lines that a program of a node logs."""

import os

import pytest

from hostrouting.check.check import check_kernel
from hostrouting.finding import Finding, Severity
from hostrouting.node.journal import ERROR, INFO, WARNING, lines_of, say
from hostrouting.testing import plain_vm
from hostrouting.upkeep.passes import Done, PassOutcome
from tests.support.children import in_child
from tests.support.node import logged, wanting
from tests.support.tasks import CIDR


def findings(number: int, severity: Severity) -> tuple[Finding, ...]:
    return tuple(Finding("overlap", severity, f"range {each}") for each in range(number))


def test_levels() -> None:
    """Each finding has its level. A note explains a verdict, which is a line of its own."""
    outcome = PassOutcome(
        (*findings(1, "error"), *findings(1, "warning"), *findings(1, "note")),
        report=check_kernel(plain_vm(), wanting(cidrs=(CIDR, "fd16::/64"))),
    )
    assert [level for level, _ in lines_of(outcome, Done())] == [INFO, ERROR, WARNING]
    for number in (20, 21):
        *_, last = lines = [*lines_of(PassOutcome(findings(number, "error")), Done())]
        assert (len(lines), last == (WARNING, "and 1 more findings")) == (number, number == 21)


def test_a_name_is_no_second_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever names a file or a device cannot forge a line."""
    say(WARNING, "a\n<0>forged\x1b[31m \udcff")
    [line] = logged(capfd)
    assert line.startswith("4 a")
    assert "\x1b" not in line


@pytest.mark.linux
def test_nobody_reads_the_log() -> None:
    def work() -> None:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 2)
        say(ERROR, "lost")

    in_child(work)
