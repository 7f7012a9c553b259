"""Which packets are meant by what rules ask of them, in an operator's words.

Here: phrases that stand between "packets" and a verb. Not here: what becomes of those packets (`wording`).
"""

from hostrouting.fib import Cases, Condition

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
    phrases = [_phrase(*selector) for selector in condition.selectors]
    if condition.holds:
        words = ", ".join(phrases)
    elif len(phrases) > 1:
        words = f"unless {' and '.join(phrases)}"
    else:
        words = _opposite(phrases[0])
    return f"{words} (rule {condition.rule.priority})"


def _phrase(name: str, value: str) -> str:
    """What a selector is about; `value` is as `ip rule` has it."""
    first, _, last = value.partition("-")
    match name:
        case "from":
            return f"from {value.removesuffix('/128' if ':' in value else '/32')}"
        case "iif":
            return "of this host's own" if value == "lo" else f"that come in by {value}"
        case "oif":
            return f"from sockets bound to {value}"
        case "uidrange":
            return f"of user {first}" if first == last else f"of users {value}"
        case "fwmark":
            return f"with fwmark {value.removesuffix('/0xffffffff')}"
        case "sport" | "dport":
            return f"with {name} {first if first == last else value}"
        case _:
            return f"with {name} {value}"


def _opposite(phrase: str) -> str:
    if phrase == "of this host's own":
        return "forwarded by this host"
    if phrase.startswith("with "):
        return f"without {phrase.removeprefix('with ')}"
    if phrase.startswith("that come "):
        return f"that do not {phrase.removeprefix('that ')}"
    return f"not {phrase}"
