"""How many examples a property test takes: as many as it is worth, at the measure of the profile."""

import os

from hypothesis import settings

__all__ = ["LONG", "scaled"]

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
"""Whether the run may take hours: what is rare is looked for, and the largest sizes are tried."""

_USUAL = 100


def scaled(number: int) -> int:
    """The number where a hundred is usual; fewer or more of them in the profiles `quick` and `long`."""
    return max(1, number * settings().max_examples // _USUAL)
