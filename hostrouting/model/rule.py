"""Policy rules: which table is looked up, for which packets, in which order.

A rule is kept as the kernel lists it. The selectors that matter on existing nodes have types:
destination, source, incoming device and mark. Every other selector is text, in the words of `ip
rule`: such a rule selects some packets, and nothing more is known about them.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple, TypeAlias

from hostrouting.model.prefix import IPV4, Prefix, width_of
from hostrouting.model.route import (
    TABLE_DEFAULT,
    TABLE_LOCAL,
    TABLE_MAIN,
    Refusing,
    Word,
    table_name,
)
from hostrouting.reading import must

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

    family: Annotated[int, must(lambda family: family in {4, 6}, "is not 4 or 6")]
    priority: int
    action: RuleAction = "to_table"
    table: int = 0
    """The table that the rule looks up; 0 if it has another action."""
    target: int | None = None
    """The priority that a goto jumps to."""
    invert: bool = False
    src: Prefix | None = None
    dst: Prefix | None = None
    iif: Word | None = None
    fwmark: int = 0
    """The value that the bits in `fwmask` of a packet's mark must have. If the mask is not 0, this
    selects also with the value 0.
    """
    fwmask: int = 0
    others: tuple[tuple[Word, Word], ...] = ()
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
        # As `ip rule` prints it: "from all" stands for the missing source.
        selectors = self.selectors()
        if self.src is None:
            selectors.insert(0, ("from", "all"))
        words = [f"{self.priority}:", self._selectors_in_words(selectors), self._action_in_words()]
        if self.suppress_prefixlength is not None:
            words.append(f"suppress_prefixlength {self.suppress_prefixlength}")
        if self.suppress_ifgroup is not None:
            words.append(f"suppress_ifgroup {self.suppress_ifgroup}")
        return " ".join(words)

    def _action_in_words(self) -> str:
        """What the rule does, as `ip rule` prints it."""
        if self.action == "goto":
            return f"goto {self.target}"
        if self.action != "to_table":
            return self.action
        if self.l3mdev:
            return "lookup [l3mdev-table]"
        return f"lookup {table_name(self.table)}"

    @property
    def selection(self) -> str:
        """The packets that the rule selects, as `ip rule` prints them, but without "from all"."""
        return self._selectors_in_words(self.selectors())

    def _selectors_in_words(self, selectors: Iterable[tuple[str, str]]) -> str:
        """These selectors as text. If the rule is for all packets that do not meet them, the text
        begins with "not".
        """
        words = [f"{word} {value}" for word, value in selectors]
        if self.invert:
            words.insert(0, "not")
        return " ".join(words)

    def selectors(self) -> list[tuple[str, str]]:
        """The selectors with their values, as `ip rule` prints them and in its order."""
        selectors = list(self.others)  # without a field of their own, such as uidrange
        if self.src is not None:
            selectors.append(("from", self._block_in_words(self.src)))
        if self.dst is not None:
            selectors.append(("to", self._block_in_words(self.dst)))
        if self.fwmask:
            # A mask of all 32 bits is left out.
            mask = "" if self.fwmask == _WHOLE_MASK else f"/{self.fwmask:#x}"
            selectors.append(("fwmark", f"{self.fwmark:#x}{mask}"))
        if self.iif:
            selectors.append(("iif", self.iif))
        return sorted(selectors, key=_place_in_ip_rule)

    def _block_in_words(self, block: Prefix) -> str:
        # As `ip rule` prints it: a single address has no length.
        return str(block).removesuffix(f"/{width_of(self.family)}")


def _place_in_ip_rule(selector: tuple[str, str]) -> int:
    """The sort key that brings selectors into the order of `ip rule`; unknown ones come last."""
    word, _ = selector
    return SELECTORS.index(word) if word in SELECTORS else len(SELECTORS)


def default_rules(family: int) -> tuple[Rule, ...]:
    """The rules of every new network namespace: they look up the tables local, main and, in IPv4,
    default.
    """
    local = Rule(family, 0, table=TABLE_LOCAL)
    main = Rule(family, 32766, table=TABLE_MAIN)
    if family != IPV4:
        return local, main
    return local, main, Rule(family, 32767, table=TABLE_DEFAULT)
