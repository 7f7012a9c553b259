"""The number of examples of a property test, scaled by the profile."""

import os

from hypothesis import settings

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
"""Whether the run may take hours: rare cases are searched for, and the largest sizes are tried."""

_USUAL = 100


def scaled(number: int) -> int:
    """The number of examples in this profile, if `number` is right for a profile of 100 examples."""
    return max(1, number * settings().max_examples // _USUAL)
