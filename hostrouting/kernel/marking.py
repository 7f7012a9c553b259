"""What sets the marks of packets on a host, so that rules by mark (`fwmark`) select them; and IPsec policies for them.

Here: finding the rules of packet filters that set marks, which marks each can set, and whether that changes a route.
Not here: which marks the rules by mark look for (`check.marks`), and the keys and states of IPsec. Nothing is changed.

A rule by mark sees the mark that a packet has when its route is looked up: after prerouting for one that arrives,
before any packet filter for one that the host itself sends. A mark that is set in output changes the route only if
Linux looks it up again: after a chain of type `route` in which something of the packet changed, and after a change of
the destination in a chain of type `nat`. So it also counts if such a chain comes later. Not counted: VXLAN and Geneve
look up the outer packet with the mark of the inner one, and with `fwmark_reflect` or `tcp_fwmark_accept` replies get
the mark of the packet that was received.

A rule may be in a chain that no hook runs itself, so the jumps are followed from each base chain. `nft` lists the rules
of nftables as JSON; with `-t` the list has no elements of maps, so a rule with a map of verdicts may lead to every
chain of its table. It lists those of iptables-nft without their arguments (`xt`), so iptables-nft-save prints these.
iptables-legacy-save prints the old tables in the same format. It creates the table that it is asked for, so it is only
run for tables that exist. Whatever cannot be looked at is named, with the reason, and never counted as "none".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import attrs

from hostrouting.kernel.programs import Run, run_program, tool_environment
from hostrouting.model.prefix import Prefix
from phases.text import escaped

ALL_BITS = 0xFFFFFFFF

Effect: TypeAlias = Literal["arriving", "own", "own-later", "none"]
"""Which packets take another route because of it: those that arrive, those of the host itself, those of the host itself
if a later chain has their route looked up again, or none."""

_LOOKING_UP_AGAIN = frozenset({"route", "nat"})


class Hook(NamedTuple):
    """The place of a base chain in the path of a packet. Chains with a lower priority come first."""

    type: str
    name: str
    priority: int
    of_bridge: bool = False
    """Whether the chain sees the packets of a bridge, before IP does."""

    @property
    def looks_up_again(self) -> bool:
        """Whether Linux may look up the route again after the chain."""
        return self.name == "output" and self.type in _LOOKING_UP_AGAIN and not self.of_bridge

    def effect(self, others: Iterable[Hook]) -> Effect:
        """The effect of a mark that is set here, if these other base chains exist."""
        if self.name in {"ingress", "prerouting"} or (self.of_bridge and self.name == "input"):
            return "arriving"
        if self.name != "output" or self.of_bridge:
            return "none"
        if self.type == "route":
            return "own"
        is_later = any(other.looks_up_again and other.priority >= self.priority for other in others)
        return "own-later" if is_later else "none"


@attrs.frozen
class MarkSetter:
    """A rule that sets the mark of a packet: where it is, what it does, and which bits of the mark it writes.

    Of the bits that it `writes`, those in `unknown` are taken from elsewhere, such as the mark of the connection; the
    others get those of `value`. It keeps all other bits.
    """

    place: str
    text: str
    hooks: frozenset[Hook]
    value: int
    writes: int = ALL_BITS
    unknown: int = 0

    def can_set(self, mark: int, mask: int) -> bool:
        """Whether this rule, perhaps with others, changes which packets match `fwmark mark/mask` or `fwmark 0/mask`."""
        may_set, mark = (self.value | self.unknown) & mask, mark & mask
        if not mark:
            return bool(may_set)
        known = self.writes & mask & ~self.unknown
        return bool(may_set & mark) and not (self.value ^ mark) & known


@attrs.frozen
class IpsecPolicy:
    """An IPsec policy for packets that leave, from `source` to `destination`.

    `only` are its other selectors, as `ip xfrm policy` prints them. `action` is what it does; with `tunnel`, the
    packets are routed to `end`.
    """

    source: Prefix
    destination: Prefix
    action: Literal["pass", "drop", "transport", "tunnel"]
    end: str = ""
    only: str = ""


@attrs.frozen
class MarkingRules:
    """The contents of one packet filter: the rules that set marks, and the base chains that have rules."""

    setters: tuple[MarkSetter, ...] = ()
    hooks: frozenset[Hook] = frozenset()


@attrs.frozen
class Marking:
    """The rules and policies of a host that can mark packets, and what could not be looked at, with the reason."""

    setters: tuple[MarkSetter, ...] = ()
    hooks: frozenset[Hook] = frozenset()
    policies: tuple[IpsecPolicy, ...] = ()
    unseen: tuple[str, ...] = ()

    def effects(self, setter: MarkSetter) -> tuple[Effect, ...]:
        """The effects of a rule, at each place where it runs."""
        found = {hook.effect(self.hooks) for hook in setter.hooks}
        order: tuple[Effect, ...] = ("arriving", "own", "own-later")
        return tuple(effect for effect in order if effect in found) or ("none",)


NOT_IN_A_SNAPSHOT = Marking(unseen=("packet filters and IPsec policies (a snapshot does not contain them)",))


class MarkingOf(Protocol):
    """Finds what can mark packets of a family."""

    def __call__(self, family: int) -> Marking:
        """What was found, and what could not be looked at. Raises nothing."""


# Looking, by the programs that list rules and policies

_TIMEOUT = 10.0
_IPTABLES = {4: "iptables", 6: "ip6tables"}
_TABLES = {4: "/proc/net/ip_tables_names", 6: "/proc/net/ip6_tables_names"}
_OF_EBTABLES = '{"type": "target", "name": "mark"}'  # as nft lists it
_LONGEST = 120  # characters of a program's error


def marking_of(family: int, *, words: Sequence[str] = (), run: Run = run_program) -> Marking:
    """See MarkingOf: of this host, or of the namespace entered by `words`."""
    looking = _Looking(family, tuple(words), run)
    rules = [looking.nftables(), looking.iptables_nft(), *looking.iptables_legacy()]
    return Marking(
        tuple(setter for found in rules for setter in found.setters),
        frozenset(hook for found in rules for hook in found.hooks),
        looking.ipsec(),
        tuple(looking.unseen),
    )


class _Looking:
    """One search; `unseen` collects what could not be read."""

    def __init__(self, family: int, words: tuple[str, ...], run: Run) -> None:
        self._family, self._words, self._program = family, words, run
        self._foreign = True  # whether there may be rules of iptables-nft
        self.unseen: list[str] = []

    def nftables(self) -> MarkingRules:
        """Rules of nftables."""
        text = self._ask("nftables", "nft", "-j", "-t", "list", "ruleset")
        self._foreign = not text or '"xt"' in text
        if _OF_EBTABLES in text:
            self.unseen.append("rules of ebtables that mark packets (hostrouting does not read them)")
        return self._read("nftables", lambda: nft_rules(text, family=self._family)) if text else MarkingRules()

    def iptables_nft(self) -> MarkingRules:
        """Rules of iptables in nftables; nft lists them without their arguments."""
        return self._iptables(f"{_IPTABLES[self._family]}-nft-save") if self._foreign else MarkingRules()

    def iptables_legacy(self) -> list[MarkingRules]:
        """Rules of iptables itself, of each table."""
        prefix = f"{_IPTABLES[self._family]}-legacy"
        try:
            self._run("test", "-e", _TABLES[self._family])
        except OSError:
            return []  # the kernel does not have it
        tables = self._ask(prefix, "cat", _TABLES[self._family]).split()
        return [self._iptables(f"{prefix}-save", "-t", table) for table in tables]

    def ipsec(self) -> tuple[IpsecPolicy, ...]:
        """IPsec policies."""
        text = self._ask("IPsec policies", "ip", "xfrm", "policy")
        try:
            return ipsec_policies(text, family=self._family)
        except ValueError as error:
            self.unseen.append(f"IPsec policies ({error})")
            return ()

    def _iptables(self, program: str, *options: str) -> MarkingRules:
        what = program.removesuffix("-save")
        text = self._ask(what, program, *options)
        return self._read(what, lambda: iptables_rules(text, program=what))

    def _read(self, what: str, read: Callable[[], MarkingRules]) -> MarkingRules:
        try:
            return read()
        except ValueError as error:
            self.unseen.append(f"{what} ({error})")
            return MarkingRules()

    def _ask(self, what: str, *words: str) -> str:
        """What the program prints; empty if it fails."""
        try:
            return self._run(*words)
        except OSError as error:
            self.unseen.append(f"{what} ({error})")
            return ""

    def _run(self, *words: str) -> str:
        """What the program prints; OSError with the reason if it fails."""
        try:
            done = self._program(*self._words, *words, timeout=_TIMEOUT, environment=tool_environment())
        except FileNotFoundError as error:
            raise OSError(f"the program {words[0]} is not installed") from error
        except TimeoutError as error:
            raise OSError(f"{words[0]} did not answer within {_TIMEOUT:g} s") from error
        if done.code:
            lines = done.err.strip().splitlines() or [f"{words[0]} failed"]
            raise OSError(escaped(lines[0])[:_LONGEST])
        return done.out


# The hooks of a chain

Chain = TypeVar("Chain", bound="Hashable")


def hooks_of(bases: Mapping[Chain, Hook], jumps: Iterable[tuple[Chain, Chain]]) -> dict[Chain, frozenset[Hook]]:
    """The hooks of the base chains that lead to a chain, for each chain."""
    following: dict[Chain, set[Chain]] = {}
    for begin, end in jumps:
        following.setdefault(begin, set()).add(end)
    found: dict[Chain, set[Hook]] = {}
    for base, hook in bases.items():
        ahead, reached = [base], {base}
        while ahead:
            chain = ahead.pop()
            found.setdefault(chain, set()).add(hook)
            new = following.get(chain, set()) - reached
            reached |= new
            ahead += new
    return {chain: frozenset(hooks) for chain, hooks in found.items()}


# Rules of nftables, from the JSON of `nft -j list ruleset`

_MARK = {"meta": {"key": "mark"}}
_OF_FAMILY = {4: {"ip", "inet", "netdev", "bridge"}, 6: {"ip6", "inet", "netdev", "bridge"}}


def nft_rules(text: str, *, family: int) -> MarkingRules:
    """The rules for packets of a family. Raises ValueError for text that nft does not print."""
    import json  # noqa: PLC0415  only loaded if it is needed

    try:
        found: dict[str, list[dict[str, Any]]] = {"chain": [], "rule": []}
        for entry in json.loads(text)["nftables"]:
            for kind, value in entry.items():
                if kind in found and isinstance(value, dict) and value.get("family") in _OF_FAMILY[family]:
                    found[kind].append(value)
        return _read_nft(found["chain"], found["rule"])
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"nft printed something unexpected: {error}") from error


def _read_nft(chains: list[dict[str, Any]], rules: list[dict[str, Any]]) -> MarkingRules:
    tables: dict[tuple[str, str], list[str]] = {}
    bases = {}
    for chain in chains:
        tables.setdefault((chain["family"], chain["table"]), []).append(chain["name"])
        if "hook" in chain:
            bases[chain["family"], chain["table"], chain["name"]] = Hook(
                chain["type"], chain["hook"], chain["prio"], of_bridge=chain["family"] == "bridge"
            )
    jumps, with_rules = [], set()
    for rule in rules:
        table = rule["family"], rule["table"]
        with_rules.add((*table, rule["chain"]))
        jumps += [
            ((*table, rule["chain"]), (*table, target))
            for target in _targets(rule.get("expr", []), tables.get(table, []))
        ]
    setters = _nft_setters(rules, hooks_of(bases, jumps))
    return MarkingRules(tuple(setters), frozenset(hook for chain, hook in bases.items() if chain in with_rules))


def _nft_setters(
    rules: list[dict[str, Any]], hooks: dict[tuple[str, str, str], frozenset[Hook]]
) -> Iterator[MarkSetter]:
    for rule in rules:
        family, table, chain = rule["family"], rule["table"], rule["chain"]
        at = hooks.get((family, table, chain))
        for statement in rule.get("expr", []) if at is not None else ():
            change = statement.get("mangle") if isinstance(statement, dict) else None
            if at is not None and change is not None and change["key"] == _MARK:
                bits = _nft_bits(change["value"])
                place = f"nftables table {family} {table}, chain {chain}, rule with handle {rule['handle']}"
                yield MarkSetter(place, _worded(bits), at, bits.value, ~bits.kept & ALL_BITS, bits.unknown)


def _targets(value: Any, chains: list[str]) -> Iterator[str]:
    """The chains that a rule can jump to, wherever in the rule they are named."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key in {"jump", "goto"} and isinstance(part, dict) and isinstance(part.get("target"), str):
                yield part["target"]
            elif key == "vmap" and isinstance(part, dict) and isinstance(part.get("data"), str):
                yield from chains
            else:
                yield from _targets(part, chains)
    elif isinstance(value, list):
        for part in value:
            yield from _targets(part, chains)


class _Bits(NamedTuple):
    """What is known of a number that a rule computes, bit by bit.

    A bit is in `kept` if it is that of the packet's own mark, in `known` if it is that of `value`, or else unknown.
    """

    value: int
    known: int
    kept: int

    @property
    def unknown(self) -> int:
        return ALL_BITS & ~self.known & ~self.kept


_ANYTHING = _Bits(0, 0, 0)


def _worded(bits: _Bits) -> str:
    if bits.unknown:
        return "sets a mark that depends on the packet"
    written = ~bits.kept & ALL_BITS
    return f"sets {bits.value:#x}" + (f", and keeps the bits outside {written:#x}" if bits.kept else "")


def _nft_bits(value: Any) -> _Bits:
    """What an expression computes."""
    if type(value) is int:
        return _Bits(value & ALL_BITS, ALL_BITS, 0)
    if value == _MARK:
        return _Bits(0, 0, ALL_BITS)
    if isinstance(value, dict) and len(value) == 1:
        [(sign, parts)] = value.items()
        if sign in {"|", "&", "^", "<<", ">>"} and isinstance(parts, list) and len(parts) > 1:
            found = _nft_bits(parts[0])
            for part in parts[1:]:
                found = _combined(sign, found, _nft_bits(part))
            return found
    return _ANYTHING


def _combined(sign: str, one: _Bits, other: _Bits) -> _Bits:
    """The result of a bitwise operation."""
    ones = [bits.value & bits.known for bits in (one, other)]
    zeros = [~bits.value & bits.known for bits in (one, other)]
    both_known, both_kept = one.known & other.known, one.kept & other.kept
    if sign == "&":
        known = both_known | zeros[0] | zeros[1]
        kept = both_kept | (one.kept & ones[1]) | (other.kept & ones[0])
        return _Bits(ones[0] & ones[1] & known, known, kept & ~known)
    if sign == "|":
        known = both_known | ones[0] | ones[1]
        kept = both_kept | (one.kept & zeros[1]) | (other.kept & zeros[0])
        return _Bits((ones[0] | ones[1]) & known, known, kept & ~known)
    if sign == "^":
        known = both_known | both_kept
        kept = (one.kept & zeros[1]) | (other.kept & zeros[0])
        return _Bits((ones[0] ^ ones[1]) & both_known, known, kept & ~known)
    if other.known != ALL_BITS:
        return _ANYTHING
    by = min(other.value, ALL_BITS.bit_length())
    if sign == "<<":
        return _Bits(one.value << by & ALL_BITS, (one.known << by | (1 << by) - 1) & ALL_BITS, 0 if by else one.kept)
    return _Bits(one.value >> by, one.known >> by | (ALL_BITS & ~(ALL_BITS >> by)), 0 if by else one.kept)


# Rules of iptables, from the text of iptables-save; both of its backends print the same

_PRIORITIES = {"raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50}
_CHAINS = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")
# iptables-save prints a line break in a comment as it is, so a line does not end within a quotation. One without an end
# goes on to the end of the text: to look for the end of each quotation mark again would take quadratic time.
_LINE = re.compile(r'(?:[^"\n]+|"(?:[^"\\]|\\.)*"?)+', re.DOTALL)
# By target: the option with the mark and the mask.
_MARK_OPTIONS = {"MARK": "--set-xmark", "TPROXY": "--tproxy-mark"}


def iptables_rules(text: str, *, program: str) -> MarkingRules:
    """The rules in this text, which `program` printed. Raises ValueError for a rule that cannot be read."""
    setters: list[MarkSetter] = []
    hooks: set[Hook] = set()
    table = ""
    lines: list[str] = []
    for line in _LINE.findall(text):
        if line.startswith("*"):
            table, lines = line[1:].strip(), []
        elif line.startswith("-A "):
            lines.append(line)
        elif line.startswith("COMMIT"):
            rules = [(line, words) for line in lines if len(words := shlex.split(line)) > 1]
            bases = {chain: _iptables_hook(table, chain) for chain in _CHAINS}
            setters += _iptables_setters(rules, bases, f"{program}, table {table}")
            hooks |= {bases[words[1]] for _, words in rules if words[1] in bases}
            lines = []
    if lines:
        raise ValueError(f"table {table} has no COMMIT: the output is truncated, or a quotation does not end")
    return MarkingRules(tuple(setters), frozenset(hooks))


def _iptables_hook(table: str, chain: str) -> Hook:
    kind = "route" if (table, chain) == ("mangle", "OUTPUT") else "nat" if table == "nat" else "filter"
    return Hook(kind, chain.lower(), _PRIORITIES.get(table, 0))


def _iptables_setters(
    rules: Sequence[tuple[str, list[str]]], bases: dict[str, Hook], place: str
) -> Iterator[MarkSetter]:
    hooks = hooks_of(bases, [(words[1], _after(words, "-j") or _after(words, "-g")) for _, words in rules])
    for line, words in rules:
        bits = _iptables_bits(words)
        if bits is not None and words[1] in hooks:
            value, writes, unknown = bits
            yield MarkSetter(place, line, hooks[words[1]], value, writes, unknown)


def _after(words: Sequence[str], option: str) -> str:
    """The value of an option; empty if the rule does not have it."""
    return next((value for name, value in pairwise(words) if name == option), "")


def _iptables_bits(words: Sequence[str]) -> tuple[int, int, int] | None:
    """Three masks: bits that the rule sets, bits that it writes, and unknown ones; None if it sets no mark."""
    target = _after(words, "-j")
    if target == "HMARK" or "--map-mark" in words or "--restore-skmark" in words:
        return 0, ALL_BITS, ALL_BITS
    if given := _after(words, _MARK_OPTIONS.get(target, "")):
        mark, _, mask = given.partition("/")
        # Bits of the mark outside the mask are inverted.
        value, replaced = int(mark, 0) & ALL_BITS, int(mask or hex(ALL_BITS), 0)
        return value & replaced, value | replaced, value & ~replaced
    if target == "CONNMARK" and "--restore-mark" in words:
        taken, cleared = (int(_after(words, f"--{name}mask") or hex(ALL_BITS), 0) for name in ("ct", "nf"))
        taken = ALL_BITS if "--left-shift-mark" in words or "--right-shift-mark" in words else taken
        return 0, cleared | taken, taken
    return None


# IPsec policies, from the text of `ip xfrm policy`


def ipsec_policies(text: str, *, family: int) -> tuple[IpsecPolicy, ...]:
    """The policies with the direction out of a family. Raises ValueError for text that ip does not print."""
    return tuple(policy for policy in _policies(text) if policy.destination.family == family)


def _policies(text: str) -> Iterator[IpsecPolicy]:
    for lines in _entries(text):
        words = lines[0].split()
        options = [line.split() for line in lines[1:]]
        if words[0::2][:2] != ["src", "dst"] or len(words) < 4:
            raise ValueError(f"ip printed something unexpected: {lines[0]}")
        if ["dir", "out"] not in [option[:2] for option in options]:
            continue
        only = [*words[4:], *(word for option in options if option[0] in {"mark", "if_id"} for word in option[:2])]
        ends = [option[4] for option in options if option[0] == "tmpl" and len(option) > 4]
        source, destination = (Prefix.of(ip_network(text)) for text in (words[1], words[3]))
        if any("block" in option for option in options if option[0] == "dir"):
            yield IpsecPolicy(source, destination, "drop", only=" ".join(only))
        elif any("tunnel" in option for option in options if option[0] == "proto"):
            yield IpsecPolicy(source, destination, "tunnel", ends[0] if ends else "", " ".join(only))
        else:
            yield IpsecPolicy(source, destination, "transport" if ends else "pass", only=" ".join(only))


def _entries(text: str) -> Iterator[list[str]]:
    """The lines of each policy: all but the first are indented."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and line[:1].strip():
            yield lines
            lines = []
        if line.strip():
            lines.append(line)
    if lines:
        yield lines
