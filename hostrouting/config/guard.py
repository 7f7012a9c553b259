"""The section `guard`, for the service that keeps the routing right, and its rules.

Here: the frozen values of the section and its defaults. Not here: what the guard does (`hostrouting.guard`).
"""

from __future__ import annotations

from typing import Any

import attrs

from hostrouting.config.objects import Keys, Spot, text_of
from hostrouting.config.values import switch

__all__ = ["GUARD", "GuardConfig"]

_PUNCTUATION = "/-_.+@"


@attrs.frozen(init=False)
class GuardConfig:
    """Whether the guard runs as a service, and the program that it runs."""

    enabled: bool
    program: str
    """The path of the program `hostrouting` on the host; empty means the one that installs the service."""

    def __init__(self, *, enabled: bool = False, program: str = "") -> None:
        self.__attrs_init__(**GUARD.check(enabled=enabled, program=program))

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object of this section."""
        return GUARD.write(self)


def _program(raw: object, at: Spot) -> str:
    remedy = 'write the path of the program, such as "/opt/agent/bin/hostrouting"'
    text = text_of(raw, at, remedy)
    # It is written into a unit, where a space, a quote, a $ or a % would have a meaning.
    letters = text.translate(dict.fromkeys(map(ord, _PUNCTUATION)))
    is_path = text.startswith("/") and not text.endswith("/") and letters.isascii() and letters.isalnum()
    if text and not is_path:
        raise at.faulty(raw, f"is not an absolute path of only letters, digits and {_PUNCTUATION}", remedy)
    return text


GUARD = Keys({"enabled": switch, "program": _program})
"""The keys of the section."""
