"""How many examples a property test takes: as many as it is worth, at the measure of the profile."""

from hypothesis import settings

__all__ = ["scaled"]

_USUAL = 100


def scaled(number: int) -> int:
    """The number where a hundred is usual; fewer or more of them in the profiles `quick` and `long`."""
    return max(1, number * settings().max_examples // _USUAL)
