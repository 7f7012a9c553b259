"""Every error of hostrouting, and nothing else.

    HostRoutingError
    ├── ForeignPhases      the `phases` that was imported is another project's
    └── SnapshotError      the text given as a saved snapshot is not one: the giver can mend it

One root, so that a caller can catch all of it; each subclass says whose fault it is.
"""

__all__ = ["ForeignPhases", "HostRoutingError", "SnapshotError"]


class HostRoutingError(Exception):
    """The root: catch this to catch everything that hostrouting raises on purpose."""


class ForeignPhases(HostRoutingError, ImportError):  # noqa: N818  the name says what was found
    """Another distribution's `phases` hides the one that hostrouting brings."""

    def __init__(self, found: str) -> None:
        """Name the file that was found in our place."""
        self.found = found
        super().__init__(
            f"the package 'phases' found at {found} is not the one that hostrouting brings; "
            "another distribution of that name is installed over it: uninstall it (pip uninstall phases), "
            "then reinstall hostrouting (pip install --force-reinstall --no-deps hostrouting)"
        )


class SnapshotError(HostRoutingError, ValueError):
    """Text that was given as a saved snapshot is not one; the giver can mend it."""

    def __init__(self, *, path: str, problem: str) -> None:
        """Keep the place and what is wrong there."""
        self.path = path
        self.problem = problem
        super().__init__(f"snapshot: {path + ': ' if path else ''}{problem}")
