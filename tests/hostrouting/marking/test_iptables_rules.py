"""Rules of iptables that set marks, read from iptables-save; `test_marked_packets` has them with real packets."""

import pytest

from hostrouting.marking.iptables_rules import iptables_setters
from hostrouting.marking.setter import ALL_BITS, Effect


def saved(*lines: str, table: str = "mangle") -> str:
    """What iptables-save prints for a table with these rules."""
    return "\n".join(["# Generated", f"*{table}", ":OUTPUT ACCEPT [0:0]", *lines, "COMMIT", "# Completed", ""])


@pytest.mark.parametrize(
    ("table", "line", "effects"),
    [
        ("mangle", "-A OUTPUT -j MARK --set-xmark 0x1/0x1", ("own",)),
        ("mangle", "-A PREROUTING -j MARK --set-xmark 0x1/0x1", ("arriving",)),
        ("raw", "-A PREROUTING -j MARK --set-xmark 0x1/0x1", ("arriving",)),
        ("nat", "-A PREROUTING -j MARK --set-xmark 0x1/0x1", ("arriving",)),
        ("raw", "-A OUTPUT -j MARK --set-xmark 0x1/0x1", ("none",)),
        ("filter", "-A FORWARD -j MARK --set-xmark 0x1/0x1", ("none",)),
    ],
)
def test_when_it_changes_a_route(table: str, line: str, effects: tuple[Effect, ...]) -> None:
    """Before the route is looked up, and in OUTPUT of the table mangle, which has it looked up again."""
    [found] = iptables_setters(saved(line, table=table), program="iptables-nft")
    assert (found.place, found.text, found.effects) == (f"iptables-nft, table {table}", line, effects)


@pytest.mark.parametrize(
    ("target", "value", "unknown"),
    [
        ("MARK --set-xmark 0x10/0xff", 0x10, 0),
        ("MARK --set-xmark 0x4000/0x0", 0x4000, 0),
        ("CONNMARK --restore-mark --nfmask 0xf0 --ctmask 0xffffffff", 0, 0xF0),
        ("CONNMARK --restore-mark", 0, ALL_BITS),
        ("TPROXY --on-port 80 --on-ip 0.0.0.0 --tproxy-mark 0x5/0xff", 5, 0),
        ("HMARK --hmark-tuple src --hmark-mod 2", 0, ALL_BITS),
    ],
)
def test_targets(target: str, value: int, unknown: int) -> None:
    """The mark of a packet that had none, and the bits that come from elsewhere."""
    [found] = iptables_setters(
        saved(f'-A PREROUTING -m comment --comment "a b" -j {target}'), program="iptables-legacy"
    )
    assert (found.value, found.unknown) == (value, unknown)


@pytest.mark.parametrize(
    "target", ["ACCEPT", "CONNMARK --save-mark", "LOG --log-prefix MARK", "CLASSIFY --set-class 1:1"]
)
def test_what_sets_no_mark(target: str) -> None:
    """Other targets, and one that saves the mark for the connection."""
    assert iptables_setters(saved(f"-A PREROUTING -j {target}"), program="iptables-nft") == ()


def test_chains_that_others_lead_to() -> None:
    """Chains are separate in each table, and one that nothing leads to never runs."""
    mark = "-j MARK --set-xmark 0x1/0x1"
    text = saved("-A PREROUTING -g KUBE", f"-A KUBE {mark}", f"-A OTHER {mark}", table="nat") + saved(f"-A KUBE {mark}")
    assert [it.place for it in iptables_setters(text, program="iptables-nft")] == ["iptables-nft, table nat"]


def test_nothing() -> None:
    """A host without rules."""
    assert iptables_setters("", program="iptables-nft") == ()


def test_other_text() -> None:
    """A quotation that does not end is a ValueError."""
    with pytest.raises(ValueError, match="quotation"):
        iptables_setters(saved('-A PREROUTING -m comment --comment "a'), program="iptables-nft")
