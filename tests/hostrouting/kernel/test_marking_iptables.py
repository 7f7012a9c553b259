"""Rules of iptables that set marks, read from iptables-save; `test_marking_against_kernel` has them with real packets."""

import pytest

from hostrouting.kernel.marking import ALL_BITS, Effect, Marking, MarkSetter, iptables_rules


def saved(*lines: str, table: str = "mangle") -> str:
    """What iptables-save prints for a table with these rules."""
    return "\n".join(["# Generated", f"*{table}", ":OUTPUT ACCEPT [0:0]", *lines, "COMMIT", "# Completed", ""])


def setters(text: str, *, program: str) -> tuple[MarkSetter, ...]:
    """The rules in this text."""
    return iptables_rules(text, program=program).setters


@pytest.mark.parametrize(
    ("later", "table", "effect"),
    [("-A OUTPUT -j DNAT --to 1.2.3.4", "nat", "own-later"), ("-A OUTPUT -j DSCP --set-dscp 5", "mangle", "own-later")],
)
def test_when_the_route_is_looked_up_again(later: str, table: str, effect: Effect) -> None:
    """A mark of the table raw counts if a later chain has the route looked up again; an earlier one does not."""
    mark = "-A OUTPUT -j MARK --set-xmark 0x1/0x1"
    found = iptables_rules(saved(mark, table="raw") + saved(later, table=table), program="iptables-nft")
    assert Marking(hooks=found.hooks).effects(found.setters[0]) == (effect,)
    found = iptables_rules(saved(mark, table="security") + saved(later, table=table), program="iptables-nft")
    assert Marking(hooks=found.hooks).effects(found.setters[0]) == ("none",)


@pytest.mark.parametrize(
    ("target", "value", "writes", "unknown"),
    [
        ("MARK --set-xmark 0x10/0xff", 0x10, 0xFF, 0),
        ("MARK --set-xmark 0x4000/0x0", 0, 0x4000, 0x4000),
        ("CONNMARK --restore-mark --nfmask 0xf0 --ctmask 0xf", 0, 0xFF, 0xF),
        ("CONNMARK --restore-mark", 0, ALL_BITS, ALL_BITS),
        ("CONNMARK --restore-mark --nfmask 0xff --ctmask 0xff00 --right-shift-mark 8", 0, ALL_BITS, ALL_BITS),
        ("TPROXY --on-port 80 --on-ip 0.0.0.0 --tproxy-mark 0x5/0xff", 5, 0xFF, 0),
        ("HMARK --hmark-tuple src --hmark-mod 2", 0, ALL_BITS, ALL_BITS),
    ],
)
def test_targets(target: str, value: int, writes: int, unknown: int) -> None:
    """The bits that a target sets, those that it writes, and those that come from elsewhere."""
    [found] = setters(saved(f'-A PREROUTING -m comment --comment "a b" -j {target}'), program="iptables-legacy")
    assert (found.value, found.writes, found.unknown) == (value, writes, unknown)


@pytest.mark.parametrize(
    "target", ["ACCEPT", "CONNMARK --save-mark", "LOG --log-prefix MARK", "CLASSIFY --set-class 1:1"]
)
def test_what_sets_no_mark(target: str) -> None:
    """Other targets, and one that saves the mark for the connection."""
    assert setters(saved(f"-A PREROUTING -j {target}"), program="iptables-nft") == ()


def test_chains_that_others_lead_to() -> None:
    """Chains are separate in each table, and one that nothing leads to never runs."""
    mark = "-j MARK --set-xmark 0x1/0x1"
    text = saved("-A PREROUTING -g KUBE", f"-A KUBE {mark}", f"-A OTHER {mark}", table="nat") + saved(f"-A KUBE {mark}")
    assert [setter.place for setter in setters(text, program="iptables-nft")] == ["iptables-nft, table nat"]


@pytest.mark.parametrize("inside", ["\r", "\u2028", "\x0b", "\x85", "\n", '\n\\"', "\n-A OUTPUT"])
def test_a_comment_with_line_breaks(inside: str) -> None:
    """A comment can have any character, and iptables-save prints a line break as it is: the rules are read.

    Kills: a rule that ends at a line break of Unicode, and one that ends within a quotation.
    """
    rules = [f'-A OUTPUT -m comment --comment "a{inside}b" -j MARK --set-xmark 0x{bit}/0xff' for bit in (1, 2)]
    assert [setter.value for setter in setters(saved(*rules), program="iptables-nft")] == [1, 2]


@pytest.mark.parametrize("rest", ["a", "a" * 100, '\\"' * 200_000])
def test_other_text(rest: str) -> None:
    """A quotation that does not end is a ValueError, however long it is; its end is looked for once.

    Kills: an expression that backtracks, which would never be finished with a hundred letters.
    """
    with pytest.raises(ValueError, match="quotation"):
        setters(saved(f'-A PREROUTING -m comment --comment "{rest}'), program="iptables-nft")
