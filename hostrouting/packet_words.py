"""The packets that a set of rules matches, in words for operators.

Here: phrases such as "packets with fwmark 0x1", to put before a verb. Not here: the phrase for each selector
(`model.rule`), and what happens to those packets (`wording`).
"""

from hostrouting.fib import REACHABLE, Cases, Condition
from hostrouting.model import selector_of

__all__ = ["packets_line"]

_ALTERNATIVES = 3  # at most this many kinds of packets in one sentence
_CONDITIONS = 4  # at most this many conditions for one kind


def packets_line(cases: Cases) -> str:
    """A phrase to put before a verb: the first few kinds of packets, and how many more kinds there are."""
    said = [_case(case) for case in cases[:_ALTERNATIVES]]
    more = len(cases) - len(said)
    kinds = ", or ".join(said)
    return f"packets {kinds}, or of {more} more {'kind' if more == 1 else 'kinds'}," if more else f"packets {kinds}"


def _case(case: tuple[Condition, ...]) -> str:
    said = [_condition(condition) for condition in case[:_CONDITIONS]]
    more = len(case) - len(said)
    conditions = " and ".join(said)
    return f"{conditions} and {more} more {'condition' if more == 1 else 'conditions'}" if more else conditions


def _condition(condition: Condition) -> str:
    name, value = condition.selectors[0]
    if name == REACHABLE:  # the state of the host, and not a selector of a rule
        return f"sent while {value} is {'' if condition.holds else 'not '}reachable"
    told = [selector_of(name).packets(value) for name, value in condition.selectors]
    if condition.holds:
        words = ", ".join(phrase for phrase, _ in told)
    elif len(told) > 1:
        words = f"unless {' and '.join(phrase for phrase, _ in told)}"
    else:
        [(_, words)] = told
    return f"{words} (rule {condition.rule.priority})"
