"""A finding in a log, in a document and on a page."""

from hostrouting.finding import SEVERITIES, Finding, Remedy, with_severity, worst_first
from hostrouting.lines import finding_lines, indented, remedy_lines
from hostrouting.release import our_command

STATUS = our_command("status")
WAYS = [
    Remedy("to see more", STATUS, needs_root=False),
    Remedy("wait"),
    Remedy("if nothing needs it", "ip link del a"),
    Remedy(command="reboot"),
]
ALL_WAYS = WAYS[3]
for _way in WAYS[2::-1]:
    ALL_WAYS = _way._replace(otherwise=ALL_WAYS)
LOST = Finding("unit", "error", "it is lost", "a", ALL_WAYS, {"lines": ["x"]}, can_retry=True)


def test_the_ways_out() -> None:
    """Each is a line of a page and, if it is a command, in the document."""
    remedy = (
        "to see more: hostrouting status; or, wait; or, if nothing needs it, as root: "
        "ip link del a; or, as root: reboot"
    )
    assert [*ALL_WAYS.ways()] == WAYS
    assert LOST.line == f"UNIT: it is lost; {remedy}"
    first, *others = (f"  {way}" for way in remedy.split("; or, "))
    assert [*finding_lines([LOST])] == ["UNIT: it is lost", first, *others]
    assert LOST.to_mapping() == {
        "name": "unit",
        "severity": "error",
        "target": "a",
        "sentence": "it is lost",
        "remedy": remedy,
        "commands": ["hostrouting status", "ip link del a", "reboot"],
        "facts": {"lines": ["x"]},
        "canRetry": True,
    }


def test_findings_with_one_way_out() -> None:
    """It stands below the last of those that follow each other."""
    first, second, third = (LOST._replace(sentence=sentence) for sentence in "abc")
    other = LOST._replace(remedy=Remedy("look"))
    lines = [*finding_lines([other, first, second, third._replace(remedy=Remedy("wait"))])]
    assert lines[:4] == ["UNIT: it is lost", "  look", "UNIT: a", "UNIT: b"]
    assert lines[-2:] == ["UNIT: c", "  wait"]
    assert [*remedy_lines(WAYS[1], indent=4)] == ["    wait"]


def test_many_things() -> None:
    """Twenty are shown, and the others are counted. The worst is first, each once."""
    texts = [str(number) for number in range(1_021)]
    more = "  ... and 1,001 more; --json shows all"
    assert [*indented("", texts[:20])] == [f"  {text}" for text in texts[:20]]
    assert [*indented("", texts[:21])][-1] == more.replace("1,001", "1")
    assert [*indented("add ", texts)] == [*(f"  add {text}" for text in texts[:20]), more]
    findings = [Finding("unit", "note", text) for text in texts]
    assert [*finding_lines(findings)] == [*(f"UNIT: {text}" for text in texts[:20]), more]
    error, warning, note = (with_severity(severity, [LOST])[0] for severity in SEVERITIES)
    assert worst_first([note, warning, note, error]) == (error, warning, note)
    assert [each.level for each in (error, warning, note)] == [30, 30, 20]
