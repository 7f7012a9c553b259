"""Policy rules: which table is looked up, for which packets, in which order.

A rule is kept as the kernel lists it. The selectors that matter on existing nodes have types:
destination, source, incoming device and mark. Every other selector is text, in the words of `ip
rule`: its rule selects some packets and not others, and which ones is not known here.
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

from hostrouting.model.prefix import IPV4, Prefix, width_of
from hostrouting.model.route import TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Refusing, table_name

RuleAction: TypeAlias = Literal["to_table", "goto", "nop", Refusing]

SELECTORS = (
    "from",
    "to",
    "tos",
    "dscp",
    "fwmark",
    "iif",
    "oif",
    "uidrange",
    "ipproto",
    "sport",
    "dport",
)
"""The words of the selectors in the order of `ip rule`; any other comes after these."""
IP_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "ipv6-icmp"}
"""The names of protocols that `ip rule` prints after ipproto."""
_WHOLE_MASK = 0xFFFFFFFF


class Rule(NamedTuple):
    """A policy rule. A selector that is `None` or 0 matches every packet."""

    family: Annotated[int, (4, 6)]
    priority: int
    action: RuleAction = "to_table"
    table: int = 0
    target: int | None = None
    """The priority that a goto jumps to."""
    invert: bool = False
    src: Prefix | None = None
    dst: Prefix | None = None
    iif: str | None = None
    fwmark: int = 0
    fwmask: int = 0
    others: tuple[tuple[str, str], ...] = ()
    """Every other selector: its word and its value, such as ("uidrange", "1000-1999") and
    ("ipproto", "tcp").
    """
    l3mdev: bool = False
    """Whether the rule looks up the table of the packet's VRF, and so never matches a packet
    outside a VRF.
    """
    suppress_prefixlength: int | None = None
    suppress_ifgroup: int | None = None

    def __str__(self) -> str:
        words = ["not"] if self.invert else []
        words += [] if self.src else ["from all"]
        words += [f"{word} {value}" for word, value in self.selectors()]
        if self.action == "goto":
            words.append(f"goto {self.target}")
        elif self.action != "to_table":
            words.append(self.action)
        else:
            words.append(
                "lookup [l3mdev-table]" if self.l3mdev else f"lookup {table_name(self.table)}"
            )
        for name in ("suppress_prefixlength", "suppress_ifgroup"):
            words += [f"{name} {limit}"] if (limit := getattr(self, name)) is not None else []
        return f"{self.priority}: {' '.join(words)}"

    def selectors(self) -> tuple[tuple[str, str], ...]:
        """The selectors with their values, as `ip rule` prints them and in its order."""
        single = f"/{width_of(self.family)}"  # which `ip` leaves out
        blocks = (("from", self.src), ("to", self.dst))
        typed = [
            (word, str(block).removesuffix(single)) for word, block in blocks if block is not None
        ]
        if self.fwmask:
            mask = "" if self.fwmask == _WHOLE_MASK else f"/{self.fwmask:#x}"
            typed.append(("fwmark", f"{self.fwmark:#x}{mask}"))
        typed += [("iif", self.iif)] if self.iif else []
        return tuple(
            sorted([*typed, *self.others], key=lambda pair: (*SELECTORS, pair[0]).index(pair[0]))
        )

    @property
    def selection(self) -> str:
        """The packets that the rule selects, as `ip rule` prints them, but without "from all"."""
        words = (f"{word} {value}" for word, value in self.selectors())
        return " ".join([*(["not"] if self.invert else []), *words])


def rule_command(verb: Literal["add", "del"], rule: Rule) -> str:
    """The command that adds or deletes the rule."""
    priority, _, words = str(rule).replace("from all ", "", 1).partition(": ")
    return f"{'ip' if rule.family == IPV4 else 'ip -6'} rule {verb} pref {priority} {words}"


@cache
def default_rules(family: int) -> tuple[Rule, ...]:
    """The rules of every new namespace: local, main and, in IPv4, default."""
    places = ((0, TABLE_LOCAL), (32766, TABLE_MAIN), (32767, TABLE_DEFAULT))[
        : 3 if family == IPV4 else 2
    ]
    return tuple(Rule(family=family, priority=place, table=table) for place, table in places)


def reached_tables(rules: Sequence[Rule]) -> frozenset[int] | None:
    """The tables that a rule looks up, and always Linux's own tables, which lack a rule only by
    mistake.

    None means any table: the rule for VRFs looks up the table of a device.
    """
    if any(rule.l3mdev for rule in rules):
        return None
    tables = (rule.table for rule in rules if rule.action == "to_table")
    return frozenset((TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT, *tables))
