"""The number of examples of a property test, scaled by the profile."""

from hypothesis import settings

_USUAL = 100


def scaled(number: int) -> int:
    """The number of examples in this profile, of which the usual one would have 100."""
    return max(1, number * settings().max_examples // _USUAL)
