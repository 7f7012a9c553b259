"""Which packets are meant by what rules ask of them, in an operator's words.

Here: sentences that stand between "packets" and a verb. Not here: the phrase for each selector (`model.rule`), and what
becomes of those packets (`wording`).
"""

from hostrouting.fib import Cases, Condition
from hostrouting.model import selector_of

__all__ = ["packets_line"]

_ALTERNATIVES = 3  # so many kinds of packets are told in one sentence
_CONDITIONS = 4  # and so many conditions of one kind


def packets_line(cases: Cases) -> str:
    """Which packets are meant, to stand before a verb: the first few alternatives, and how many more there are."""
    said = [_case(case) for case in cases[:_ALTERNATIVES]]
    more = len(cases) - len(said)
    return (
        "packets " + ", or ".join(said) + (f", or of {more} more {'kind' if more == 1 else 'kinds'}," if more else "")
    )


def _case(case: tuple[Condition, ...]) -> str:
    said = [_condition(condition) for condition in case[:_CONDITIONS]]
    more = len(case) - len(said)
    return " and ".join(said) + (f" and {more} more {'condition' if more == 1 else 'conditions'}" if more else "")


def _condition(condition: Condition) -> str:
    told = [selector_of(name).packets(value) for name, value in condition.selectors]
    if condition.holds:
        words = ", ".join(phrase for phrase, _ in told)
    elif len(told) > 1:
        words = f"unless {' and '.join(phrase for phrase, _ in told)}"
    else:
        [(_, words)] = told
    return f"{words} (rule {condition.rule.priority})"
