"""What all lists of routes have in common that are made when they are looked at: when two are equal.

Here: nothing of where the routes come from. A snapshot holds such a list in the place of a tuple, and is compared and
printed as if it were one.
"""

from collections.abc import Sequence

from hostrouting.model.route import Route

__all__ = ["LazyRoutes"]


class LazyRoutes(Sequence[Route]):
    """Routes that do not change; equal to a tuple of equal routes, and to any other of these."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | LazyRoutes):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} routes>"
