"""The fake kernel's policy rules: their order, and which are refused.

Here: the list of one family. Not here: what a rule does in a lookup (`hostrouting.fib`).
"""

import errno
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter

import attrs

from hostrouting.model import IPV4, SELECTORS, Rule, default_rules
from hostrouting.testing.kernel.devices import Refused

# If two rules agree in these and in their selectors, the second is refused; `invert` is not compared.
_TOLD_APART_BY = ("action", "table", "priority", "suppress_ifgroup", "suppress_prefixlength", "protocol")
# In these, 0 is a value of its own.
_LIMITS = ("suppress_ifgroup", "suppress_prefixlength")
_ECN = 0x03
# The bits of tos that an IPv4 rule may select on, apart from dscp.
_TOS = 0x1F
_priority = attrgetter("priority")
_FIELDS = [(selector, name) for selector in SELECTORS for name in selector.fields]
# Other selectors that Linux does not compare if a rule does not set them.
_LEFT_OPEN = frozenset({"flowlabel"})


class Rules:
    """The rules of one family, by priority; equal priorities in the order in which they were added."""

    def __init__(self, family: int) -> None:
        """Start with the default rules."""
        self._family = family
        self._rules = list(default_rules(family))
        # Linux walks the rules in a lookup only after the first custom rule was added.
        self.custom = False

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def in_force(self) -> tuple[Rule, ...]:
        """The rules that apply to lookups of plain packets."""
        if not self.custom:
            return default_rules(self._family)
        return tuple(plain for rule in self._rules if (plain := _for_plain_packets(rule)) is not None)

    def add(self, rule: Rule) -> None:
        """Add the rule after those of the same priority."""
        _check(rule)
        first, place = (cut(self._rules, rule.priority, key=_priority) for cut in (bisect_left, bisect_right))
        if any(rule.dst in {None, there.dst} and _same(there, rule) for there in self._rules[first:place]):
            raise Refused(errno.EEXIST)
        if rule.tos & _ECN:
            raise Refused(errno.EINVAL, "Invalid dsfield (tos): ECN bits must be 0")
        if rule.family == IPV4 and rule.tos & ~_TOS:
            raise Refused(errno.EINVAL, "Invalid tos")
        self._rules.insert(place, rule)
        self.custom = True

    def delete(self, rule: Rule) -> None:
        """Delete the first rule that matches this one; ENOENT if there is none."""
        _check(rule)
        found = next((place for place, there in enumerate(self._rules) if _is_meant(there, rule)), None)
        if found is None:
            raise Refused(errno.ENOENT)
        # Only IPv4 notices a deleted rule: IPv6 still looks up local and main after their rules were deleted.
        self.custom = self.custom or self._family == IPV4
        del self._rules[found]


def _for_plain_packets(rule: Rule) -> Rule | None:
    """The rule without its unknown selectors; a plain packet matches these if their values are zero."""
    if all(_is_zero(value) for _, value in rule.others):
        return attrs.evolve(rule, others=())
    if not rule.invert:
        return None
    silent = Rule(family=rule.family, priority=rule.priority, action=rule.action)
    said = ("table", "target", "l3mdev", "suppress_prefixlength", "suppress_ifgroup", "protocol")
    return attrs.evolve(silent, **{name: getattr(rule, name) for name in said})


def _is_zero(value: str) -> bool:
    number, _, _ = value.partition("/")
    return number in {"0", "0x0"}


def _check(rule: Rule) -> None:
    if rule.action == "goto" and (rule.target or 0) <= rule.priority:
        raise Refused(errno.EINVAL, "Backward goto not supported")
    if rule.l3mdev and rule.table:
        raise Refused(errno.EINVAL, "l3mdev and table are mutually exclusive")
    for words in (selector.refusal(rule) for selector in SELECTORS):
        if words:
            raise Refused(errno.EINVAL, words)


def _same(there: Rule, rule: Rule) -> bool:
    """Whether Linux refuses `rule` because `there` is equal."""

    def told(one: Rule) -> set[tuple[str, str]]:
        return {other for other in one.others if other[0] not in _LEFT_OPEN}

    return (
        told(there) == told(rule)
        and set(rule.others) <= set(there.others)
        and all(getattr(there, name) == getattr(rule, name) for name in _TOLD_APART_BY)
        and all(
            _is_said(there, rule, name) if field.loose else getattr(there, name) == getattr(rule, name)
            for field, name in _FIELDS
        )
    )


def _is_meant(there: Rule, rule: Rule) -> bool:
    """Whether a delete request for `rule` matches this rule in Linux; unset fields match anything."""
    return (
        there.action == rule.action
        and there.priority == rule.priority
        and rule.others in {(), there.others}
        and all(getattr(rule, name) in {None, getattr(there, name)} for name in _LIMITS)
        and all(_is_said(there, rule, name) for name in ("table", "protocol", *(name for _, name in _FIELDS)))
    )


def _is_said(there: Rule, rule: Rule, name: str) -> bool:
    """Whether a rule has the value that another sets; an unset value matches."""
    said = getattr(rule, name)
    return not (said & ~_ECN if name == "tos" else said) or said == getattr(there, name)
