"""The output of ebtables-save, as rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.cleanup.saved_rules import read_saved
from tests.support.azure_rules import R1, R2


def test_the_whole_text() -> None:
    """Chains and comments are skipped, every rule has its table, and every other line is unreadable."""
    text = f"# made by\n*filter\n:INPUT ACCEPT\n-A INPUT --log-prefix 'a b' -j DROP\n*nat\n-A {R1}\n-A {R2}\nCOMMIT\n# done\n"
    saved = read_saved(text)
    assert [(rule.table, rule.line) for rule in saved.rules] == [
        ("filter", "INPUT --log-prefix 'a b' -j DROP"),
        ("nat", R1),
        ("nat", R2),
    ]
    assert saved.unreadable == ()


@pytest.mark.parametrize(
    "line", ["-A PREROUTING what -p ARP", '-A PREROUTING --log-prefix "a', "-A -p ARP", "[0:0] -A OUTPUT", "nonsense"]
)
def test_a_line_that_is_not_understood(line: str) -> None:
    """An unreadable line is kept as it is and counted, and the rest is parsed."""
    saved = read_saved(f"*nat\n-A {R1}\n{line}\n-A {R2}\n")
    assert [rule.line for rule in saved.rules] == [R1, R2]
    assert saved.unreadable == (line,)


def test_rules_before_any_table() -> None:
    """A rule before the first table is unreadable."""
    assert read_saved(f"-A {R1}\n").unreadable == (f"-A {R1}",)


@given(st.text())
def test_any_text(text: str) -> None:
    """Any text can be parsed without an error, and no line is lost."""
    saved = read_saved(text)
    passed_over = [it for it in map(str.strip, text.split("\n")) if not it or it[0] in "#:*" or it == "COMMIT"]
    assert len(saved.rules) + len(saved.unreadable) + len(passed_over) == len(text.split("\n"))
