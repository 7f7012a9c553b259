"""hostrouting.finding: findings in order, their remedies, and both as JSON; tests/hostrouting/cli
shows their lines.
"""

import pickle
from copy import copy

import pytest

from hostrouting.command import Operator, call, joined
from hostrouting.finding import Finding, Remedy, worst_first
from phases.values import as_data

DELETE = Remedy("if nothing needs it", "ip route del 10.0.0.0/8")


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (Remedy("move it away"), "move it away"),
        (Remedy(command="rm FILE"), "as root: rm FILE"),
        (DELETE, "if nothing needs it, as root: ip route del 10.0.0.0/8"),
        (Remedy("see", "systemctl cat X", needs_root=False), "see: systemctl cat X"),
        (
            Remedy("write another metric", otherwise=DELETE),
            "write another metric; or, if nothing needs it, as root: ip route del 10.0.0.0/8",
        ),
    ],
)
def test_a_remedy_in_words(remedy: Remedy, text: str) -> None:
    """Words come before the command; what needs root says so, and also where it is typed."""
    assert str(remedy) == text
    finding = Finding("route-conflict", "error", "it is held", remedy=remedy)
    assert str(finding) == f"it is held; {text}"
    assert finding.line == f"ROUTE-CONFLICT: it is held; {text}"
    elsewhere = Operator("on that host as root")
    assert finding.text_for(elsewhere) == f"it is held; {text.replace('as root', str(elsewhere))}"


PIPELINE = joined(" | ", call("repair --dev 'a b'"), call("apply --config -"))
LINE = joined("", joined(" && ", "rm hostrouting.old", PIPELINE), " --gate hostrouting.service")


PICKLED = pickle.loads(pickle.dumps(LINE))  # noqa: S301  our own bytes


@pytest.mark.parametrize("command", [LINE, copy(LINE), PICKLED])
def test_a_command_is_called_as_its_operator_does(command: str) -> None:
    """Wherever hostrouting is called in it, and nowhere else; without an operator, by its name."""
    text = (
        "rm hostrouting.old && {0} repair --dev 'a b' | {0} apply --config - "
        "--gate hostrouting.service"
    )
    assert command == text.format("hostrouting")
    called = Operator(program="'my env/bin/hostrouting'")
    assert called.line(command) == text.format(called.program)
    assert called.line("rm hostrouting.old") == "rm hostrouting.old"
    assert Remedy("then", command).text_for(called) == f"then, as root: {called.line(command)}"


def test_commands_for_programs() -> None:
    """The document of a finding has the remedy as text,
    and the command of each way that has one.
    """
    ways = Remedy("write another metric", otherwise=Remedy(command="reboot", otherwise=DELETE))
    document = Finding("route-conflict", "error", "it is held", remedy=ways).to_mapping()
    assert document["remedy"] == str(ways)
    assert document["commands"] == ["reboot", "ip route del 10.0.0.0/8"]
    bare = Finding("allowed", "note", "it may").to_mapping()
    assert bare["remedy"] == ""
    assert bare["commands"] == []


def test_the_order_of_findings() -> None:
    """Each once, the worst first, otherwise in the order in which they were found."""
    error = Finding("lock", "error", "one")
    warning = Finding("lock", "warning", "two")
    note = Finding("lock", "note", "three")
    other = Finding("gate-open", "error", "another")
    assert worst_first([note, warning, error, other, error]) == (error, other, warning, note)
    assert as_data([error]) == [error.to_mapping()]  # in the report of a run
