"""The number of examples of a property test, scaled by the profile."""

from hypothesis import settings

_USUAL = 100


def scaled(number: int) -> int:
    """The number of examples in this profile,
    if `number` is right for a profile of 100 examples.
    """
    return max(1, number * settings().max_examples // _USUAL)
