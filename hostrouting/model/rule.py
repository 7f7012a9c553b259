"""Policy rules: which table is asked, for which packets, in which order.

Here: one rule as the kernel lists it. Not here: whether it matches a packet (that is `hostrouting.fib`).
"""

from collections.abc import Iterable
from functools import cache
from typing import Literal, TypeAlias

import attrs

from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, table_name

__all__ = ["Rule", "RuleAction", "default_rules", "in_order"]


RuleAction: TypeAlias = Literal["to_table", "goto", "nop", "blackhole", "unreachable", "prohibit"]


@attrs.frozen(kw_only=True)
class Rule:
    """A policy rule. What a selector does not say, it does not look at; `None` and 0 say nothing."""

    family: int
    priority: int
    action: RuleAction = "to_table"
    table: int = 0
    # The priority at which a goto goes on.
    target: int | None = None
    invert: bool = False
    src: Prefix | None = None
    dst: Prefix | None = None
    iif: str | None = None
    oif: str | None = None
    fwmark: int = 0
    fwmask: int = 0
    tos: int = 0
    uids: tuple[int, int] | None = None
    ipproto: int = 0
    sports: tuple[int, int] | None = None
    dports: tuple[int, int] | None = None
    # What else it selects on, each by its name and value: this library cannot tell which packets those are.
    others: tuple[tuple[str, str], ...] = ()
    # Asks the table of the VRF that the packet is in; it never matches a packet outside of every VRF.
    l3mdev: bool = False
    suppress_prefixlength: int | None = None
    suppress_ifgroup: int | None = None
    protocol: int = 0

    def __str__(self) -> str:
        words = ["not"] if self.invert else []
        words.append(f"from {self.src or 'all'}")
        words += [f"to {self.dst}"] if self.dst is not None else []
        words += [f"{name} {value}" for name, value in self.selectors() if name not in {"from", "to"}]
        if self.action == "goto":
            words.append(f"goto {self.target}")
        elif self.action != "to_table":
            words.append(self.action)
        else:
            words.append("lookup [l3mdev-table]" if self.l3mdev else f"lookup {table_name(self.table)}")
        if self.suppress_prefixlength is not None:
            words.append(f"suppress_prefixlength {self.suppress_prefixlength}")
        if self.suppress_ifgroup is not None:
            words.append(f"suppress_ifgroup {self.suppress_ifgroup}")
        return f"{self.priority}: {' '.join(words)}"

    def selectors(self) -> tuple[tuple[str, str], ...]:
        """What it selects on, each with its value, in the words of `ip rule`."""
        said = {
            "from": self.src and str(self.src),
            "to": self.dst and str(self.dst),
            "iif": self.iif,
            "oif": self.oif,
            "fwmark": self.fwmask and f"{self.fwmark:#x}/{self.fwmask:#x}",
            "tos": self.tos and f"{self.tos:#x}",
            "uidrange": self.uids and f"{self.uids[0]}-{self.uids[1]}",
            "ipproto": self.ipproto and str(self.ipproto),
            "sport": self.sports and f"{self.sports[0]}-{self.sports[1]}",
            "dport": self.dports and f"{self.dports[0]}-{self.dports[1]}",
        }
        return (*((name, str(value)) for name, value in said.items() if value), *self.others)


def in_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules in the order in which they are asked; those of one priority as they were given."""
    return tuple(sorted(rules, key=lambda rule: rule.priority))


@cache
def default_rules(family: int) -> tuple[Rule, ...]:
    """The rules that every namespace starts with: local, main and, in IPv4, default."""
    local = Rule(family=family, priority=0, table=TABLE_LOCAL, protocol=2)
    main = Rule(family=family, priority=32766, table=TABLE_MAIN, protocol=2)
    default = Rule(family=family, priority=32767, table=TABLE_DEFAULT, protocol=2)
    return (local, main, default) if family == IPV4 else (local, main)
